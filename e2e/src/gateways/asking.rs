//! Requests through a gateway, and where they went.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Request;
use serde_json::{Value, json};

use crate::client::{Answer, Body, Client, Response};
use crate::wait::eventually;

/// The API that is asked.
pub(super) const CHAT: &str = "/v1/chat/completions";
/// Carries the pick to the gateway, and with the request to the model server.
pub(super) const DESTINATION: &str = "x-gateway-destination-endpoint";
/// Marks a request, so that it is found again in the books of the model servers.
const MARK: &str = "x-e2e-mark";
/// A model server has the request in its books before it answers.
const BOOKED: Duration = Duration::from_secs(2);

/// How long a request may be without an answer before the client is said to wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// The number of the next request.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A request to be sent.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    /// Absent for a GET of the models.
    body: Option<Value>,
    headers: Vec<(&'static str, String)>,
}

impl Ask {
    /// A short chat request for the base model.
    pub(super) fn post() -> Self {
        Self::chat(Chat { max_tokens: 2, ..Chat::default() })
    }

    /// A request without a body.
    pub(super) fn get() -> Self {
        Self { body: None, headers: Vec::new() }
    }

    /// A chat request.
    pub(super) fn chat(chat: Chat<'_>) -> Self {
        let body = json!({
            "model": chat.model,
            "max_tokens": chat.max_tokens,
            "stream": chat.stream,
            "user": chat.user,
            "messages": [{"role": "user", "content": chat.prompt}],
        });
        Self { body: Some(body), headers: Vec::new() }
    }

    /// With one more header.
    pub(super) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Bytes of the body.
    pub(super) fn length(&self) -> usize {
        self.body.as_ref().map_or(0, |body| body.to_string().len())
    }

    /// The request, marked.
    fn request(&self, mark: &str) -> Result<Request<Body>> {
        let builder = match &self.body {
            Some(_) => Request::post(CHAT).header("content-type", "application/json"),
            None => Request::get("/v1/models"),
        };
        let mut builder = builder.header(MARK, mark);
        for (name, value) in &self.headers {
            builder = builder.header(*name, value);
        }
        let body = self.body.as_ref().map(|body| Body::full(body.to_string()));
        Ok(builder.body(body.unwrap_or_default())?)
    }
}

/// What a chat request says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chat<'a> {
    /// The base model, or an adapter.
    pub(super) model: &'a str,
    /// Tokens to generate.
    pub(super) max_tokens: usize,
    /// Whether the answer comes in pieces.
    pub(super) stream: bool,
    /// A field that no server looks at, to make it long.
    pub(super) user: &'a str,
    /// The one message.
    pub(super) prompt: &'a str,
}

impl Default for Chat<'_> {
    fn default() -> Self {
        let prompt = "Where is the nearest harbor?";
        Self { model: "sim", max_tokens: 1, stream: false, user: "", prompt }
    }
}

/// An answer and the way of its request.
#[derive(Debug)]
pub(super) struct Told {
    /// The answer, whole.
    pub(super) answer: Answer,
    /// What the model server that answered wrote down of the request; absent if none answered.
    pub(super) record: Option<Value>,
}

impl Told {
    /// The status.
    pub(super) fn status(&self) -> u16 {
        self.answer.status.as_u16()
    }

    /// The model server that answered; absent if the gateway did itself.
    pub(super) fn server(&self) -> Option<SocketAddr> {
        self.answer.header("x-sim-server")?.parse().ok()
    }

    /// The pick that the request carried when it reached the model server.
    pub(super) fn pick(&self) -> Option<&str> {
        self.record.as_ref()?.get("headers")?.get(DESTINATION)?.as_str()
    }

    /// Where the request was answered, if that is where the picker sent it.
    ///
    /// # Errors
    /// When it was not answered whole, or somewhere else.
    pub(super) fn placed(&self) -> Result<SocketAddr> {
        let answer = &self.answer;
        let status = answer.status;
        ensure!(status == 200 && answer.broken.is_none(), "{status} {}", answer.text());
        let server = self.server().context("no model server answered")?;
        let pick = self.pick().context("the request carried no pick")?;
        ensure!(pick == server.to_string(), "picked {pick}, answered by {server}");
        Ok(server)
    }
}

/// Sends `ask` to `proxy` and waits for the head of the answer.
///
/// # Errors
/// When there is none.
pub(super) async fn open(proxy: SocketAddr, ask: &Ask) -> Result<Response> {
    Client::http1(proxy).send(ask.request(&mark())?).await
}

/// Sends `ask` to `proxy` and waits for the whole answer.
///
/// # Errors
/// When there is none, or a server answered that has not written the request down.
pub(super) async fn ask(proxy: SocketAddr, ask: &Ask) -> Result<Told> {
    let mark = mark();
    let response = Client::http1(proxy).send(ask.request(&mark)?).await?;
    let answer = response.collect().await;
    let mut told = Told { answer, record: None };
    if let Some(server) = told.server() {
        told.record = Some(record(server, &mark).await?);
    }
    Ok(told)
}

fn mark() -> String {
    NEXT.fetch_add(1, Ordering::Relaxed).to_string()
}

/// What `server` wrote down of the request with this mark.
async fn record(server: SocketAddr, mark: &str) -> Result<Value> {
    eventually(BOOKED, async || {
        let books = Client::http1(server).get("/sim/requests").await?.json()?;
        let mut records = books.as_array().into_iter().flatten();
        let found = records.find(|record| {
            let headers = record.get("headers").and_then(|headers| headers.get(MARK));
            headers.is_some_and(|value| value == mark)
        });
        found.cloned().with_context(|| format!("{server} has no request {mark}"))
    })
    .await
}

/// Sends `ask` until it is answered as the picker says: for the start, and for changes that take a moment.
///
/// # Errors
/// When it is not within `deadline`.
pub(super) async fn placed(proxy: SocketAddr, wanted: &Ask, deadline: Duration) -> Result<()> {
    eventually(deadline, async || ask(proxy, wanted).await?.placed().map(drop)).await
}

/// The status that each of these requests is answered with, once, as `a / b`; `waits` for one without an answer.
///
/// # Errors
/// When a connection breaks.
pub(super) async fn statuses(proxy: SocketAddr, asks: &[Ask]) -> Result<String> {
    let mut seen = Vec::new();
    for wanted in asks {
        match tokio::time::timeout(PATIENCE, ask(proxy, wanted)).await {
            Ok(told) => seen.push(told?.status().to_string()),
            Err(_) => seen.push("waits".to_owned()),
        }
    }
    Ok(seen.join(" / "))
}
