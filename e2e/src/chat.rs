//! Clients that chat without pause, and what became of their requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Request;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::{Answer, Body, Client, Response};

/// The path of the chat API.
pub const PATH: &str = "/v1/chat/completions";
/// Tokens of each answer.
const TOKENS: usize = 4;
/// Longest time until what a test waits for.
const SOON: Duration = Duration::from_secs(30);

/// A streamed chat request to a model whose prompt begins unlike that of any other number, so that no
/// cache draws it anywhere.
pub fn request(model: &str, number: usize, max_tokens: usize) -> Value {
    json!({
        "model": model,
        "max_tokens": max_tokens,
        "stream": true,
        "messages": [{"role": "user", "content": format!("{number}. Where is it?")}],
    })
}

/// The simulated server that gave an answer.
///
/// # Errors
/// When the answer is not that of a server, whole; the error shows it.
pub fn server(answer: &Answer) -> Result<SocketAddr> {
    let whole = answer.broken.is_none() && answer.text().ends_with("data: [DONE]\n\n");
    ensure!(
        answer.status == 200 && whole,
        "{} {} {:?}",
        answer.status,
        answer.text(),
        answer.broken
    );
    Ok(answer.header("x-sim-server").context("answered by no simulated server")?.parse()?)
}

/// A streamed answer of so many tokens that has begun.
///
/// # Errors
/// When there is none.
pub async fn open(client: Client, model: &str, number: usize, tokens: usize) -> Result<Response> {
    let body = request(model, number, tokens).to_string();
    let request = Request::post(PATH).header("content-type", "application/json");
    let mut response = client.send(request.body(Body::full(body))?).await?;
    ensure!(response.status == 200, "{}", response.status);
    response.chunk().await?.context("no answer")?;
    Ok(response)
}

/// Sends one request and tells who answers.
///
/// # Errors
/// When nobody does.
pub async fn ask(client: Client, model: &str, number: usize) -> Result<SocketAddr> {
    server(&client.post(PATH, &request(model, number, TOKENS)).await?)
}

/// Clients that send one request after the other until stopped.
#[derive(Debug)]
pub struct Clients {
    seen: watch::Receiver<Seen>,
    stop: watch::Sender<bool>,
    workers: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Servers in the order of their answers.
    servers: Vec<SocketAddr>,
    failures: Vec<String>,
}

impl Clients {
    /// Lets `count` clients ask `model` behind a gateway.
    pub fn start(client: Client, model: &'static str, count: usize) -> Self {
        let (sender, seen) = watch::channel(Seen::default());
        let (stop, stopped) = watch::channel(false);
        let numbers = Arc::new(AtomicUsize::new(0));
        let mut workers = JoinSet::new();
        for _ in 0..count {
            let (numbers, seen, stopped) = (Arc::clone(&numbers), sender.clone(), stopped.clone());
            workers.spawn(ask_on(client, model, numbers, (seen, stopped)));
        }
        Self { seen, stop, workers }
    }

    /// Waits for `count` further answers and says who gave them. Requests that were under way before are
    /// not among them.
    ///
    /// # Errors
    /// When a request fails, or in 30 s there are not so many.
    pub async fn next(&mut self, count: usize) -> Result<Vec<SocketAddr>> {
        let begun = self.seen.borrow().servers.len() + self.workers.len();
        self.until(|seen| seen.servers.len() >= begun + count).await?;
        Ok(self.seen.borrow().servers.iter().skip(begun).take(count).copied().collect())
    }

    /// Waits until `server` gives an answer.
    ///
    /// # Errors
    /// As [`Clients::next`].
    pub async fn reach(&mut self, server: SocketAddr) -> Result<()> {
        let begun = self.seen.borrow().servers.len();
        self.until(|seen| seen.servers.iter().skip(begun).any(|it| *it == server)).await
    }

    /// Lets the clients go on for a time.
    ///
    /// # Errors
    /// As [`Clients::next`].
    pub async fn last(&mut self, time: Duration) -> Result<()> {
        tokio::time::sleep(time).await;
        self.next(1).await.map(drop)
    }

    /// Answers so far.
    pub fn answers(&self) -> usize {
        self.seen.borrow().servers.len()
    }

    async fn until(&mut self, condition: impl Fn(&Seen) -> bool) -> Result<()> {
        let met = self.seen.wait_for(|seen| condition(seen) || !seen.failures.is_empty());
        tokio::time::timeout(SOON, met).await.context("too few answers")??.good()
    }

    /// Stops and waits for the last answers.
    ///
    /// # Errors
    /// When any request failed.
    pub async fn finish(mut self) -> Result<()> {
        self.stop.send_replace(true);
        while let Some(worker) = self.workers.join_next().await {
            worker?;
        }
        self.seen.borrow().good()
    }
}

async fn ask_on(
    client: Client,
    model: &str,
    numbers: Arc<AtomicUsize>,
    (seen, stopped): (watch::Sender<Seen>, watch::Receiver<bool>),
) {
    while !*stopped.borrow() {
        let answer = ask(client, model, numbers.fetch_add(1, Ordering::Relaxed)).await;
        seen.send_modify(|seen| seen.count(answer));
    }
}

impl Seen {
    fn count(&mut self, answer: Result<SocketAddr>) {
        match answer {
            Ok(server) => self.servers.push(server),
            Err(error) => self.failures.push(format!("{error:#}")),
        }
    }

    fn good(&self) -> Result<()> {
        let Self { servers, failures } = self;
        ensure!(failures.is_empty(), "besides {} answers: {failures:#?}", servers.len());
        Ok(())
    }
}
