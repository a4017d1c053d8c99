//! The task that owns the view: sees what is listed, tells what that means.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::Outlets;
use super::convert::Member;
use super::follow::{Listing, changed};
use super::view::{Outcome, Said, View};
use crate::pool::Event;

/// How long changes are gathered, so that a burst of them is one.
pub(super) const BURST: Duration = Duration::from_millis(20);

/// What the view is made of.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) view: View,
    pub(super) pool: watch::Receiver<Listing<Said>>,
    pub(super) pods: watch::Receiver<Listing<Member>>,
    /// Which pods are to be listed.
    pub(super) labels: watch::Sender<Option<Arc<str>>>,
}

impl Keeper {
    /// Tells what holds, at every change, until nobody listens.
    pub(super) async fn run(mut self, outlets: Outlets) {
        loop {
            let outcome = self.look();
            let again = outcome.again;
            if self.tell(outcome, &outlets).await.is_none() {
                return;
            }
            tokio::select! {
                () = changed(&mut self.pool) => {}
                () = changed(&mut self.pods) => {}
                () = until(again) => {}
                () = outlets.events.closed() => return,
            }
            sleep(BURST).await;
        }
    }

    fn look(&mut self) -> Outcome {
        let now = Instant::now();
        let (pool, pods) = (self.pool.borrow_and_update(), self.pods.borrow_and_update());
        let problem = self.view.problem().map(str::to_owned);
        self.view.pool(&pool, now);
        if let Some(error) = self.view.problem().filter(|new| Some(*new) != problem.as_deref()) {
            tracing::error!(error, "pool not valid, the last valid state of it stays");
        }
        self.view.outcome(&pool, &pods, now)
    }

    /// None when nobody listens.
    async fn tell(&self, outcome: Outcome, outlets: &Outlets) -> Option<()> {
        let Outcome { labels, endpoints, failure_mode, missing, again: _ } = outcome;
        self.labels.send_if_modified(|now| {
            let changed = *now != labels;
            if changed {
                tracing::info!(labels = labels.as_deref(), "pods to be listed");
                *now = labels;
            }
            changed
        });
        outlets.events.send(Event::FailureMode(failure_mode)).await.ok()?;
        if let Some(endpoints) = endpoints {
            outlets.events.send(Event::Endpoints(endpoints)).await.ok()?;
        }
        outlets.readiness.send_if_modified(|readiness| {
            let changed = readiness.missing.as_deref() != missing.as_deref();
            if changed {
                log(missing.as_deref());
                readiness.missing = missing.map(Arc::from);
            }
            changed
        });
        Some(())
    }
}

fn log(missing: Option<&str>) {
    if let Some(reason) = missing {
        tracing::warn!(reason, "no pool to serve");
    } else {
        tracing::info!("pool and pods known");
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
