//! One loop per endpoint: reads a model server's metrics page and its list of models into the pool, and asks it for a token
//! where that is in doubt.
//!
//! The loops follow the members of the pool. A loop scrapes fast while requests of ours are in flight on its endpoint
//! and slowly else, never more than half of the time, and backs off from an endpoint that fails. A loop that panics is
//! started again and disturbs no other.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinError, JoinSet};

use crate::config::Sources;
use crate::config::sources::{Page, Scheme};
use crate::pool::{Endpoint, EndpointId, Event, Snapshot};

use self::client::Client;
use self::endpoint::Watch;
use self::pace::{FAST, LONGEST_REST};
use self::probe::Prober;

pub use self::client::ClientError;
pub use self::counters::{Counters, ScrapeError};
pub use self::dialect::{Choice, Dialect, Dialects};
pub use self::pace::Pace;
pub use self::probe::Probing;

mod client;
mod counters;
pub mod dialect;
mod endpoint;
pub mod exposition;
mod found;
pub mod look;
mod models;
mod pace;
mod probe;
mod series;

/// Scrapes all endpoints of a pool.
#[derive(Debug)]
pub struct Scraper {
    metrics: Client,
    models: Client,
    dialects: Dialects,
    pace: Pace,
    list_interval: Duration,
    /// Where the list of models is.
    lists: Page,
    /// None where nobody is probed.
    prober: Option<Prober>,
    events: mpsc::Sender<Event>,
    counters: Arc<Counters>,
}

/// The loops that run.
#[derive(Default)]
struct Loops {
    tasks: JoinSet<()>,
    /// As many as the pool has members.
    by_endpoint: HashMap<EndpointId, (Arc<Endpoint>, AbortHandle)>,
}

impl Scraper {
    /// A scraper that sends what it reads to `events`; where that is full, it is dropped and counted. `interval` holds
    /// for a metrics page that has none of its own. None where no metrics page is to be read.
    ///
    /// # Errors
    /// When an HTTP client cannot be set up, most likely for a bad certificate file.
    pub fn new(
        sources: &Sources,
        interval: Option<Duration>,
        events: mpsc::Sender<Event>,
        counters: Arc<Counters>,
    ) -> Result<Option<Self>, ClientError> {
        let Some(page) = &sources.metrics else { return Ok(None) };
        let models = sources.models.clone().unwrap_or_else(|| beside(page));
        Ok(Some(Self {
            metrics: Client::new(page, "/metrics")?,
            models: Client::new(&models, "/v1/models")?,
            dialects: Dialects::new(&sources.engines),
            pace: Pace::new(page.interval().or(interval)),
            list_interval: models.interval().unwrap_or(models::INTERVAL),
            lists: models,
            prober: None,
            events,
            counters,
        }))
    }

    /// Probes endpoints too, where their lists of models are.
    ///
    /// # Errors
    /// As those of [`new`](Self::new).
    pub fn probing(self, probing: Probing) -> Result<Self, ClientError> {
        let prober = Some(Prober::new(&self.lists, probing)?);
        Ok(Self { prober, ..self })
    }

    /// Runs until the sender of `pool` is gone. `pool` has to change when the members do, and may change more often.
    pub async fn run(self: Arc<Self>, mut pool: watch::Receiver<Arc<Snapshot>>) {
        let mut loops = Loops::default();
        loop {
            let snapshot = Arc::clone(&pool.borrow_and_update());
            loops.follow(&self, &snapshot);
            tokio::select! {
                changed = pool.changed() => if changed.is_err() { return },
                Some(Err(error)) = loops.tasks.join_next() => loops.ended(&error, &self),
            }
        }
    }

    fn send(&self, event: Event) {
        if self.events.try_send(event).is_err() {
            self.counters.drop_sample();
        }
    }
}

/// The list of models beside a metrics page: on the endpoint's own port, by TLS if the metrics page is there too.
fn beside(metrics: &Page) -> Page {
    let same_port = metrics.port.is_none();
    let scheme = if same_port { metrics.scheme } else { Scheme::Http };
    Page { scheme, path: None, port: None, interval: None, ..metrics.clone() }
}

impl Loops {
    /// Ends the loops of endpoints that are gone or were relabeled, and begins those of new ones, at random moments of
    /// the interval.
    fn follow(&mut self, scraper: &Arc<Scraper>, snapshot: &Snapshot) {
        self.by_endpoint.retain(|id, (endpoint, task)| {
            let stays = snapshot.by_id(*id).is_some_and(|now| Arc::ptr_eq(now, endpoint));
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
        let task = self.tasks.spawn(Watch::new(scraper, endpoint).run(first));
        self.by_endpoint.insert(endpoint.id, (Arc::clone(endpoint), task));
    }

    /// A loop was ended, or panicked and is begun again.
    fn ended(&mut self, error: &JoinError, scraper: &Arc<Scraper>) {
        if !error.is_panic() {
            return;
        }
        let panicked = self.by_endpoint.values().find(|(_, task)| task.id() == error.id());
        if let Some((endpoint, _)) = panicked.cloned() {
            let endpoint_name = endpoint.spec.name.as_str();
            tracing::error!(
                endpoint = endpoint_name,
                "scraping panicked, and begins again; report this"
            );
            self.begin(scraper, &endpoint, LONGEST_REST);
        }
    }
}

#[cfg(test)]
mod tests;
