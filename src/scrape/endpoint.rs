//! The loop of one endpoint: its metrics page, and beside it its list of models and its probes.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::pool::{Endpoint, Event, Models, Sample};
use crate::scrape::client::{Client, whole};
use crate::scrape::counters::ScrapeError;
use crate::scrape::dialect::Choice;
use crate::scrape::exposition::Scan;
use crate::scrape::pace::{LONGEST_REST, SLOW, back_off, busy};
use crate::scrape::probe::Model;
use crate::scrape::{Scraper, models};

/// A page takes at most this long, as in the reference: a busy Python server needs hundreds of milliseconds.
pub(in crate::scrape) const TIME_OUT: Duration = Duration::from_secs(1);

/// So many failures in a row are a change of state and no accident.
const UNREACHABLE_AFTER: u32 = 3;

/// The longest page. That of a vLLM server has 50 kB; the reference sets 8 MiB where it sets a limit.
pub(in crate::scrape) const LONGEST_PAGE: usize = 8 << 20;

/// Reads one endpoint.
#[derive(Debug)]
pub(in crate::scrape) struct Watch {
    scraper: Arc<Scraper>,
    endpoint: Arc<Endpoint>,
    scan: Scan,
    /// The engine that the endpoint runs; none until a page has told.
    engine: Option<usize>,
    /// Whether the last page showed requests.
    busy: bool,
    /// Failures in a row.
    failures: u32,
    /// Whether it ever answered anything.
    heard: bool,
    /// Pages in a row that lack something of the engine's.
    gaps: u32,
    model: Model,
}

impl Watch {
    pub(in crate::scrape) fn new(scraper: &Arc<Scraper>, endpoint: &Arc<Endpoint>) -> Self {
        let choice = scraper.dialects.of(&endpoint.spec.labels);
        if let Choice::Misnamed(engine) = choice {
            let endpoint = endpoint.spec.name.as_str();
            tracing::warn!(endpoint, engine, "label names an unknown engine; its page will tell");
        }
        let engine = choice.engine();
        Self {
            scraper: Arc::clone(scraper),
            endpoint: Arc::clone(endpoint),
            scan: Scan::new(scraper.dialects.dialect(engine)),
            engine,
            busy: false,
            failures: 0,
            heard: false,
            gaps: 0,
            model: Model::default(),
        }
    }

    /// Reads for ever, after a first rest.
    pub(in crate::scrape) async fn run(self, first: Duration) {
        sleep(first).await;
        let (scraper, endpoint) = (Arc::clone(&self.scraper), Arc::clone(&self.endpoint));
        let model = self.model.clone();
        let probes = async {
            if let Some(prober) = &scraper.prober {
                prober.watch(&endpoint, &model).await;
            }
        };
        tokio::join!(self.pages(), lists(&scraper, &endpoint, &model), probes);
    }

    async fn pages(mut self) {
        let scraper = Arc::clone(&self.scraper);
        let Some(url) = scraper.metrics.url(self.endpoint.spec.address) else { return };
        loop {
            let begun = Instant::now();
            let read = timeout(TIME_OUT, self.read(&scraper.metrics, &url)).await;
            self.note(read.unwrap_or(Err(ScrapeError::TimedOut)), begun);
            self.rest(begun).await;
        }
    }

    /// Reads one page, to its end so that the connection can be used again. One that tells nothing in the endpoint's
    /// dialect is the last one that is read in it: the next may be of another engine.
    async fn read(&mut self, client: &Client, url: &Url) -> Result<Sample, ScrapeError> {
        let mut response = client.ask(url).await?;
        self.scan.begin(self.scraper.dialects.dialect(self.engine));
        let mut room = LONGEST_PAGE;
        while let Some(chunk) = response.chunk().await.map_err(ScrapeError::Broken)? {
            room = room.checked_sub(chunk.len()).ok_or(ScrapeError::TooLong)?;
            self.scan.feed(&chunk);
        }
        let found = self.scan.finish();
        let engine = found.as_ref().map(|(engine, _)| *engine);
        if engine != self.engine {
            self.recognized(engine);
        }
        found.map(|(_, sample)| sample).ok_or(ScrapeError::NothingKnown)
    }

    fn recognized(&mut self, engine: Option<usize>) {
        self.engine = engine;
        if let Some(engine) = engine {
            let engine = self.scraper.dialects.name(engine);
            tracing::debug!(endpoint = self.endpoint.spec.name, engine, "engine recognized");
        }
    }

    /// Sends the sample, or counts the failure.
    fn note(&mut self, read: Result<Sample, ScrapeError>, begun: Instant) {
        let name = self.endpoint.spec.name.as_str();
        match read {
            Ok(sample) => {
                if self.failures >= UNREACHABLE_AFTER {
                    tracing::info!(endpoint = name, "endpoint reachable again");
                }
                (self.failures, self.heard) = (0, true);
                self.endpoint.live.reach(false);
                self.busy = busy(&sample);
                self.look_for_gaps(&sample);
                if let Some(models) = &sample.models {
                    self.model.named(models);
                }
                let (id, at, interval) = (self.endpoint.id, begun.into_std(), self.interval());
                self.scraper.send(Event::Scraped { id, sample, at, interval });
            }
            Err(error) => {
                self.scraper.counters.count(&error);
                self.failures = self.failures.saturating_add(1);
                let refused = matches!(error, ScrapeError::NoAnswer(_));
                let silent = matches!(error, ScrapeError::TimedOut);
                self.heard |= !refused && !silent;
                let absent = refused || (silent && !self.heard);
                self.endpoint.live.reach(absent && self.failures >= UNREACHABLE_AFTER);
                if self.failures == UNREACHABLE_AFTER {
                    let (reason, error) = (error.reason(), error.chain());
                    tracing::warn!(endpoint = name, reason, error, "endpoint unreachable");
                }
            }
        }
    }

    /// Tells once of a metric that the engine should have: it may have another name in a newer version.
    fn look_for_gaps(&mut self, sample: &Sample) {
        let mut lacking = self.scraper.dialects.dialect(self.engine).lacking(sample).peekable();
        self.gaps = if lacking.peek().is_some() { self.gaps.saturating_add(1) } else { 0 };
        if self.gaps == UNREACHABLE_AFTER {
            let endpoint = self.endpoint.spec.name.as_str();
            let lacking = lacking.collect::<Vec<_>>().join(", ");
            tracing::warn!(endpoint, lacking, "metrics page does not tell all of its engine");
        }
    }

    /// Waits until the next scrape is due, at least as long as the last one took; the first request of ours on the
    /// endpoint may make that earlier.
    async fn rest(&self, begun: Instant) {
        if self.failures > 0 {
            let rest = back_off(self.interval(), self.failures, LONGEST_REST, fastrand::f32());
            return sleep(rest).await;
        }
        let half = Instant::now() + begun.elapsed();
        loop {
            let due = half.max(begun + self.interval());
            tokio::select! {
                biased;
                () = sleep_until(due) => return,
                () = self.endpoint.live.begun() => {}
            }
        }
    }

    fn interval(&self) -> Duration {
        self.scraper.pace.interval(&self.endpoint, self.busy)
    }
}

/// Reads the list of models for ever: often until it is known, then rarely.
async fn lists(scraper: &Scraper, endpoint: &Endpoint, model: &Model) {
    let Some(url) = scraper.models.url(endpoint.spec.address) else { return };
    let mut failures = 0;
    loop {
        let at = Instant::now().into_std();
        let read = timeout(TIME_OUT, list(&scraper.models, &url)).await;
        match read.unwrap_or(Err(ScrapeError::TimedOut)) {
            Ok(models) => {
                failures = 0;
                model.listed(&models.base);
                scraper.send(Event::Listed { id: endpoint.id, models, at });
            }
            Err(error) => {
                // A server without a list, or that tells only its clients, is no failure; that may change.
                if !matches!(error, ScrapeError::Status(400..500)) {
                    scraper.counters.count_list(&error);
                }
                failures += 1;
            }
        }
        let (known, longest) = (scraper.list_interval, scraper.list_interval.max(SLOW));
        let interval = if failures > 0 { SLOW } else { known };
        sleep(back_off(interval, failures, longest, fastrand::f32())).await;
    }
}

async fn list(client: &Client, url: &Url) -> Result<Models, ScrapeError> {
    let text = whole(client.ask(url).await?, models::LONGEST_LIST).await?;
    models::read(&text).ok_or(ScrapeError::NothingKnown)
}
