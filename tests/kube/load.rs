//! Clients that ask without pause, and what became of their requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lodesman_e2e::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::stage::{CHAT, SOON, is_whole, unlike};

/// Clients that send one streamed chat request after the other until stopped. No two prompts begin
/// alike, so that nothing but load decides where they go.
pub(super) struct Load {
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

impl Load {
    pub(super) fn start(client: Client, workers: usize) -> Self {
        let (sender, seen) = watch::channel(Seen::default());
        let (stop, stopped) = watch::channel(false);
        let numbers = Arc::new(AtomicUsize::new(0));
        let mut set = JoinSet::new();
        for _ in 0..workers {
            set.spawn(ask_on(client, Arc::clone(&numbers), sender.clone(), stopped.clone()));
        }
        Self { seen, stop, workers: set }
    }

    /// Waits for `count` further answers and says who gave them. Requests that were under way before are
    /// not among them.
    pub(super) async fn next(&mut self, count: usize) -> Vec<SocketAddr> {
        let begun = self.seen.borrow().servers.len() + self.workers.len();
        self.until(|seen| seen.servers.len() >= begun + count).await;
        self.seen.borrow().servers[begun..begun + count].to_vec()
    }

    /// Waits until `server` gives an answer.
    pub(super) async fn reach(&mut self, server: SocketAddr) {
        let begun = self.seen.borrow().servers.len();
        self.until(|seen| seen.servers[begun..].contains(&server)).await;
    }

    /// Lets the clients go on for a time.
    pub(super) async fn last(&mut self, time: Duration) {
        tokio::time::sleep(time).await;
        self.next(1).await;
    }

    async fn until(&mut self, condition: impl Fn(&Seen) -> bool) {
        let met = self.seen.wait_for(|seen| condition(seen) || !seen.failures.is_empty());
        let met = tokio::time::timeout(SOON, met).await.expect("in time").expect("a client");
        assert_eq!(met.failures, [""; 0], "after {} answers", met.servers.len());
    }

    /// Stops; gives the number of answers and why others failed.
    pub(super) async fn stop(mut self) -> (usize, Vec<String>) {
        self.stop.send_replace(true);
        while let Some(worker) = self.workers.join_next().await {
            worker.unwrap();
        }
        let seen = self.seen.borrow();
        (seen.servers.len(), seen.failures.clone())
    }

    /// Stops; nothing may have failed.
    pub(super) async fn finish(self) {
        let (answers, failures) = self.stop().await;
        assert_eq!(failures, [""; 0], "besides {answers} answers");
    }
}

async fn ask_on(
    client: Client,
    numbers: Arc<AtomicUsize>,
    seen: watch::Sender<Seen>,
    stopped: watch::Receiver<bool>,
) {
    while !*stopped.borrow() {
        let asked = ask(client, numbers.fetch_add(1, Ordering::Relaxed)).await;
        seen.send_modify(|seen| match asked {
            Ok(server) => seen.servers.push(server),
            Err(error) => seen.failures.push(format!("{error:#}")),
        });
    }
}

async fn ask(client: Client, number: usize) -> Result<SocketAddr> {
    let answer = client.post(CHAT, &unlike(number, 4, true)).await?;
    ensure!(is_whole(&answer), "{} {} {:?}", answer.status, answer.text(), answer.broken);
    Ok(answer.header("x-sim-server").context("answered by no server of ours")?.parse()?)
}

/// The server that answers a request.
pub(super) async fn server_of_one(client: Client, number: usize) -> SocketAddr {
    ask(client, number).await.unwrap()
}
