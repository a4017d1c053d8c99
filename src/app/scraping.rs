//! The scraper that runs, and its change for one of other sources.

use std::sync::Arc;
use std::time::Duration;

use prometheus::IntCounterVec;
use tokio::sync::{mpsc, watch};

use crate::config::{Flags, MetricNames, Sources};
use crate::pool::{Event, Snapshot};
use crate::scrape::{ClientError, Counters, Probing, Scraper};

/// What scrapers are made of, and the one that runs.
#[derive(Debug)]
pub(super) struct Scraping {
    names: MetricNames,
    interval: Option<Duration>,
    events: mpsc::Sender<Event>,
    counters: Arc<Counters>,
    /// None where nobody is probed.
    probing: Option<Probing>,
    sources: Sources,
    /// None where no metrics page is to be read.
    scraper: watch::Sender<Option<Arc<Scraper>>>,
}

/// A scraper that does not run yet, with its sources.
#[derive(Debug)]
pub(super) struct Prepared {
    sources: Sources,
    scraper: Option<Arc<Scraper>>,
}

impl Scraping {
    /// Scraping of these sources into `events`.
    pub(super) fn new(
        flags: &Flags,
        sources: Sources,
        events: mpsc::Sender<Event>,
        counters: Arc<Counters>,
        probes: IntCounterVec,
    ) -> Result<Self, ClientError> {
        let interval = flags.life.probe_interval;
        let interval = Some(interval).filter(|interval| !interval.is_zero());
        let probing = Probing { interval, results: probes };
        let mut scraping = Self {
            names: flags.scrape.names.clone(),
            interval: flags.scrape.refresh_metrics_interval,
            events,
            counters,
            probing: flags.life.probe.then_some(probing),
            sources,
            scraper: watch::Sender::default(),
        };
        let first = scraping.scraper(&scraping.sources)?;
        scraping.scraper = watch::Sender::new(first);
        Ok(scraping)
    }

    /// Makes a scraper of other sources; none where they are those that are read.
    pub(super) fn prepare(&self, sources: &Sources) -> Result<Option<Prepared>, ClientError> {
        if *sources == self.sources {
            return Ok(None);
        }
        Ok(Some(Prepared { scraper: self.scraper(sources)?, sources: sources.clone() }))
    }

    /// Ends the scraper that runs; what it has read stays in the pool until it is stale.
    pub(super) fn adopt(&mut self, Prepared { sources, scraper }: Prepared) {
        self.sources = sources;
        self.scraper.send_replace(scraper);
    }

    fn scraper(&self, sources: &Sources) -> Result<Option<Arc<Scraper>>, ClientError> {
        let mut sources = sources.clone();
        sources.engines.rename(&self.names);
        let counters = Arc::clone(&self.counters);
        let scraper = Scraper::new(&sources, self.interval, self.events.clone(), counters)?;
        let scraper = match (scraper, &self.probing) {
            (Some(scraper), Some(probing)) => Some(scraper.probing(probing.clone())?),
            (scraper, _) => scraper,
        };
        Ok(scraper.map(Arc::new))
    }

    /// Scrapes the members of the pool, by the newest scraper, for ever.
    pub(super) fn run(
        &self,
        members: watch::Receiver<Arc<Snapshot>>,
    ) -> impl Future<Output = ()> + Send + use<> {
        follow(self.scraper.subscribe(), members)
    }
}

async fn follow(
    mut newest: watch::Receiver<Option<Arc<Scraper>>>,
    members: watch::Receiver<Arc<Snapshot>>,
) {
    loop {
        let scraper = newest.borrow_and_update().clone();
        tokio::select! {
            () = scrape(scraper, members.clone()) => return,
            // Without a sender there will be no other.
            Ok(()) = newest.changed() => {}
        }
    }
}

async fn scrape(scraper: Option<Arc<Scraper>>, members: watch::Receiver<Arc<Snapshot>>) {
    match scraper {
        Some(scraper) => scraper.run(members).await,
        None => std::future::pending().await,
    }
}
