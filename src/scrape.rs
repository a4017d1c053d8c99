//! One polling loop per endpoint: reads a model server's metrics page into the pool.
//!
//! The loops follow the members of the pool. A loop scrapes fast while requests of ours are in flight on its endpoint
//! and slowly else, never more than half of the time, and backs off from an endpoint that fails. A loop that panics is
//! started again and disturbs no other.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::redirect::Policy;
use rustls::crypto::ring;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::pool::{Endpoint, EndpointId, Event, Sample, Snapshot};

pub use self::counters::{Counters, ScrapeError};
pub use self::dialect::Dialect;
use self::exposition::Scan;

mod counters;
pub mod dialect;
pub mod exposition;

/// The interval while requests are in flight: the reference's only one.
const FAST: Duration = Duration::from_millis(50);

/// The interval while none are: half of the age at which a sample is stale.
const SLOW: Duration = Duration::from_secs(1);

/// A page takes at most this long, as in the reference: a busy Python server needs hundreds of milliseconds.
const TIME_OUT: Duration = Duration::from_secs(1);

/// The longest rest after failures: an endpoint that recovers is seen again within it.
const LONGEST_REST: Duration = Duration::from_secs(5);

/// So many failures in a row are a change of state and no accident.
const UNREACHABLE_AFTER: u32 = 3;

/// The longest page. That of a vLLM server has 50 kB; the reference sets 8 MiB where it sets a limit.
const LONGEST_PAGE: usize = 8 << 20;

/// How often an endpoint is scraped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At this interval.
    Fixed(Duration),
    /// Every 50 ms while requests of ours are in flight there, else every second.
    Adaptive,
}

/// Scrapes all endpoints of a pool.
#[derive(Debug)]
pub struct Scraper {
    client: reqwest::Client,
    dialect: Dialect,
    pace: Pace,
    events: mpsc::Sender<Event>,
    counters: Arc<Counters>,
}

/// Why the HTTP client cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Its TLS.
    #[error("TLS of the scraping client")]
    Tls(#[source] Box<rustls::Error>),
    /// Anything else of it.
    #[error("scraping client")]
    Http(#[from] reqwest::Error),
}

/// The loops that run.
#[derive(Default)]
struct Loops {
    tasks: JoinSet<()>,
    /// As many as the pool has members.
    by_endpoint: HashMap<EndpointId, AbortHandle>,
}

impl Scraper {
    /// A scraper that sends what it reads to `events`; where that is full, the sample is dropped and counted.
    ///
    /// # Errors
    /// When the HTTP client cannot be set up.
    pub fn new(
        dialect: Dialect,
        pace: Pace,
        events: mpsc::Sender<Event>,
        counters: Arc<Counters>,
    ) -> Result<Self, ClientError> {
        Ok(Self { client: client()?, dialect, pace, events, counters })
    }

    /// Runs until the sender of `pool` is gone. `pool` has to change when the members do, and may change more often.
    pub async fn run(self, mut pool: watch::Receiver<Arc<Snapshot>>) {
        let scraper = Arc::new(self);
        let mut loops = Loops::default();
        loop {
            let snapshot = Arc::clone(&pool.borrow_and_update());
            loops.follow(&scraper, &snapshot);
            tokio::select! {
                changed = pool.changed() => if changed.is_err() { return },
                Some(Err(error)) = loops.tasks.join_next() => loops.ended(&error, &scraper, &snapshot),
            }
        }
    }

    async fn watch(self: Arc<Self>, endpoint: Arc<Endpoint>, first: Duration) {
        let url = format!("http://{}/metrics", endpoint.spec.address);
        let mut failures = 0;
        sleep(first).await;
        loop {
            let begun = Instant::now();
            let read = timeout(TIME_OUT, self.read(&url)).await;
            failures = self.note(&endpoint, read.unwrap_or(Err(ScrapeError::TimedOut)), failures);
            self.rest(&endpoint, begun, failures).await;
        }
    }

    /// Reads one page, to its end so that the connection can be used again.
    async fn read(&self, url: &str) -> Result<Sample, ScrapeError> {
        let mut response = self.client.get(url).send().await.map_err(ScrapeError::NoAnswer)?;
        if response.status() != http::StatusCode::OK {
            return Err(ScrapeError::Status(response.status().as_u16()));
        }
        let mut scan = Scan::new(&self.dialect);
        let mut room = LONGEST_PAGE;
        while let Some(chunk) = response.chunk().await.map_err(ScrapeError::Broken)? {
            room = room.checked_sub(chunk.len()).ok_or(ScrapeError::TooLong)?;
            scan.feed(&chunk);
        }
        let sample = scan.finish();
        if sample.is_empty() { Err(ScrapeError::NothingKnown) } else { Ok(sample) }
    }

    /// Sends the sample, or counts the failure; the number of failures in a row.
    fn note(&self, endpoint: &Endpoint, read: Result<Sample, ScrapeError>, failures: u32) -> u32 {
        let name = endpoint.spec.name.as_str();
        match read {
            Ok(sample) => {
                if failures >= UNREACHABLE_AFTER {
                    tracing::info!(endpoint = name, "endpoint reachable again");
                }
                let interval = self.pace.interval(endpoint);
                let scraped = Event::Scraped { id: endpoint.id, sample, interval };
                if self.events.try_send(scraped).is_err() {
                    self.counters.drop_sample();
                }
                0
            }
            Err(error) => {
                self.counters.count(&error);
                let failures = failures.saturating_add(1);
                if failures == UNREACHABLE_AFTER {
                    let (reason, error) = (error.reason(), error.chain());
                    tracing::warn!(endpoint = name, reason, error, "endpoint unreachable");
                }
                failures
            }
        }
    }

    /// Waits until the next scrape is due; looks every [`FAST`] whether requests have come that make it due earlier.
    async fn rest(&self, endpoint: &Endpoint, begun: Instant, failures: u32) {
        if failures > 0 {
            return sleep(back_off(self.pace.interval(endpoint), failures, fastrand::f32())).await;
        }
        let ended = Instant::now();
        let half = ended + (ended - begun);
        loop {
            let due = half.max(begun + self.pace.interval(endpoint));
            let now = Instant::now();
            if now >= due {
                return;
            }
            sleep_until(due.min(now + FAST)).await;
        }
    }
}

impl Pace {
    /// The given interval, else adaptive.
    pub fn new(interval: Option<Duration>) -> Self {
        interval.map_or(Self::Adaptive, Self::Fixed)
    }

    /// The time between two scrapes of `endpoint` as things are.
    fn interval(self, endpoint: &Endpoint) -> Duration {
        match self {
            Self::Fixed(interval) => interval,
            Self::Adaptive if endpoint.live.requests() > 0 => FAST,
            Self::Adaptive => SLOW,
        }
    }
}

impl Loops {
    /// Ends the loops of endpoints that are gone, and begins those of new ones, at random moments of the interval.
    fn follow(&mut self, scraper: &Arc<Scraper>, snapshot: &Snapshot) {
        self.by_endpoint.retain(|id, task| {
            let stays = snapshot.by_id(*id).is_some();
            if !stays {
                task.abort();
            }
            stays
        });
        for endpoint in snapshot.endpoints() {
            if !self.by_endpoint.contains_key(&endpoint.id) {
                self.begin(scraper, endpoint, FAST.mul_f32(fastrand::f32()));
            }
        }
    }

    fn begin(&mut self, scraper: &Arc<Scraper>, endpoint: &Arc<Endpoint>, first: Duration) {
        let task = Arc::clone(scraper).watch(Arc::clone(endpoint), first);
        self.by_endpoint.insert(endpoint.id, self.tasks.spawn(task));
    }

    /// A loop was ended, or panicked and is begun again.
    fn ended(&mut self, error: &JoinError, scraper: &Arc<Scraper>, snapshot: &Snapshot) {
        if !error.is_panic() {
            return;
        }
        let panicked = self.by_endpoint.iter().find(|(_, task)| task.id() == error.id());
        if let Some(endpoint) = panicked.and_then(|(id, _)| snapshot.by_id(*id)) {
            tracing::error!(
                endpoint = endpoint.spec.name,
                "scraping panicked, and begins again; report this"
            );
            self.begin(scraper, endpoint, LONGEST_REST);
        }
    }
}

/// The rest after `failures` in a row: the interval, doubled with each but at most [`LONGEST_REST`], of which `dice`
/// (0.0 .. 1.0) takes up to a half, so that endpoints that failed together do not return together.
fn back_off(interval: Duration, failures: u32, dice: f32) -> Duration {
    let doubled = interval.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX));
    doubled.min(LONGEST_REST.max(interval)).mul_f32(1.0 - dice / 2.0)
}

/// A client that keeps a connection per endpoint, follows no redirect and asks no proxy.
fn client() -> Result<reqwest::Client, ClientError> {
    let provider = Arc::new(ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ClientError::Tls(error.into()))?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let identity = http::HeaderValue::from_static("identity");
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .default_headers([(http::header::ACCEPT_ENCODING, identity)].into_iter().collect())
        .redirect(Policy::none())
        .no_proxy()
        .http1_only()
        .referer(false)
        .tcp_nodelay(true)
        .pool_max_idle_per_host(1)
        .build()?;
    Ok(client)
}

#[cfg(test)]
mod tests;
