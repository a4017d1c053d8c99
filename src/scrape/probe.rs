//! Probes: one token of an endpoint's base model, to see whether one comes out.
//!
//! A server may accept connections, be healthy by its own word and show a page, and give no token for hours. So one is
//! asked for when something speaks against an endpoint, again and again until one comes, and now and then where none came
//! for a while. A server that does not take the question (an embedder, one that wants a key) is not held to it, and one that
//! drains is not asked: its work is to come to an end.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::IntCounterVec;
use reqwest::Url;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::config::sources::Page;
use crate::pool::{Endpoint, Live, Names};
use crate::scrape::client::{Client, ClientError, whole};
use crate::scrape::counters::ScrapeError;
use crate::scrape::pace::{LONGEST_REST, back_off};

/// Longest wait for the token. Two in a row and the interval before them are less than 15 s.
const TIME_OUT: Duration = Duration::from_secs(2);

/// Between the second failure and the next probe; doubled from then on up to [`LONGEST_REST`].
const REST: Duration = Duration::from_secs(1);

/// Probes at a time over all endpoints; more wait.
const AT_ONCE: usize = 32;

/// How often it is looked whether a token came, as a share of the interval.
const PART: f32 = 0.25;

/// So many looks without a token.
const QUIET_PARTS: u32 = 3;

/// So many looks where the server did not take the last question: that seldom changes.
const DECLINED_PARTS: u32 = 60;

/// The longest answer that is read.
const LONGEST_ANSWER: usize = 64 << 10;

/// How endpoints are probed.
#[derive(Clone, Debug)]
pub struct Probing {
    /// An endpoint that gave no token for so long is asked for one; none where only those are that something speaks against.
    pub interval: Option<Duration>,
    /// Probes by result.
    pub results: IntCounterVec,
}

/// Probes endpoints.
#[derive(Debug)]
pub(in crate::scrape) struct Prober {
    client: Client,
    turns: Semaphore,
    probing: Probing,
}

/// The base model of an endpoint, once that is known.
#[derive(Clone, Debug, Default)]
pub(in crate::scrape) struct Model(Arc<Mutex<Option<Box<str>>>>);

/// What became of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// A token came out.
    Token,
    /// It has no room: that tells nothing.
    Busy,
    /// It does not answer such questions.
    Declined,
    /// An error of its own, or no answer in time.
    Failed,
}

impl Prober {
    /// A prober of servers whose list of models is on `page`.
    ///
    /// # Errors
    /// As those of [`Client::new`].
    pub(in crate::scrape) fn new(page: &Page, probing: Probing) -> Result<Self, ClientError> {
        let page = Page { path: None, ..page.clone() };
        let client = Client::new(&page, "/v1/completions")?;
        Ok(Self { client, turns: Semaphore::new(AT_ONCE), probing })
    }

    /// Probes an endpoint for ever.
    pub(in crate::scrape) async fn watch(&self, endpoint: &Endpoint, model: &Model) {
        let Some(url) = self.client.url(endpoint.spec.address) else { return };
        let live = &endpoint.live;
        let mut parts = QUIET_PARTS;
        if live.held() {
            self.settle(live, &url, model).await;
        }
        loop {
            tokio::select! {
                () = live.doubted() => {}
                () = self.idle(live, parts) => {}
            }
            self.settle(live, &url, model).await;
            parts = if live.probed() { QUIET_PARTS } else { DECLINED_PARTS };
        }
    }

    /// Waits until no token came for so many parts of the interval: at three, three quarters of it at least, all of it at
    /// most.
    async fn idle(&self, live: &Live, parts: u32) {
        let Some(interval) = self.probing.interval else { return std::future::pending().await };
        let mut quiet = 0;
        while quiet < parts {
            let seen = live.tokens();
            sleep(interval.mul_f32(PART - fastrand::f32() / 64.0)).await;
            quiet = if live.tokens() == seen { quiet + 1 } else { 0 };
        }
    }

    /// Probes until a token came out, of a probe or of a request, or the endpoint turns out not to be one to probe, or
    /// drains.
    async fn settle(&self, live: &Live, url: &Url, model: &Model) {
        let seen = live.tokens();
        let mut failures = 0;
        while !live.draining() {
            let Some(name) = model.name() else { return live.unprobed() };
            let found = self.probe(url, &name).await;
            self.probing.results.with_label_values(&[found.name()]).inc();
            match found {
                Found::Token => return live.proven(),
                Found::Declined => return live.unprobed(),
                _ if live.tokens() != seen => return live.proven(),
                Found::Failed => live.probe_failed(),
                Found::Busy => {}
            }
            failures += 1;
            if failures > 1 {
                sleep(back_off(REST, failures - 2, LONGEST_REST, fastrand::f32())).await;
            }
            if live.tokens() != seen {
                return live.proven();
            }
        }
    }

    async fn probe(&self, url: &Url, model: &str) -> Found {
        let Ok(_turn) = self.turns.acquire().await else { return Found::Busy };
        timeout(TIME_OUT, self.ask(url, model)).await.unwrap_or(Found::Failed)
    }

    async fn ask(&self, url: &Url, model: &str) -> Found {
        let body = json!({"model": model, "prompt": "1", "max_tokens": 1, "temperature": 0});
        let Ok(response) = self.client.post(url, body.to_string()).await else {
            return Found::Failed;
        };
        match response.status().as_u16() {
            200 => {}
            429 => return Found::Busy,
            500.. => return Found::Failed,
            _ => return Found::Declined,
        }
        match whole(response, LONGEST_ANSWER).await {
            Ok(text) if is_completion(&text) => Found::Token,
            Ok(_) | Err(ScrapeError::TooLong) => Found::Declined,
            Err(_) => Found::Failed,
        }
    }
}

impl Found {
    fn name(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Busy => "busy",
            Self::Declined => "declined",
            Self::Failed => "failed",
        }
    }
}

impl Model {
    /// The server lists what it serves; the first will do.
    pub(in crate::scrape) fn listed(&self, base: &Names) {
        let mut name = self.0.lock();
        if !name.as_deref().is_some_and(|name| base.contains(name)) {
            *name = base.iter().next().map(Box::from).or_else(|| name.take());
        }
    }

    /// Its series name what it serves, which counts while there is no list.
    pub(in crate::scrape) fn named(&self, models: &Names) {
        let mut name = self.0.lock();
        if name.is_none() {
            *name = models.iter().next().map(Box::from);
        }
    }

    fn name(&self) -> Option<Box<str>> {
        self.0.lock().clone()
    }
}

/// Whether a text is the answer to a request for completions.
fn is_completion(text: &[u8]) -> bool {
    let read: Result<serde_json::Value, _> = serde_json::from_slice(text);
    let choices = read.ok().and_then(|answer| Some(answer.get("choices")?.as_array()?.len()));
    choices.is_some_and(|choices| choices > 0)
}

#[cfg(test)]
mod tests;
