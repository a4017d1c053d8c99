//! The task that owns the view: sees what is listed, tells what that means.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::Outlets;
use super::convert::{Emptied, Leaving, Member, Said};
use super::events::Notice;
use super::follow::{Listing, changed};
use super::view::{Outcome, Trouble, View};
use crate::pool::readiness::Readiness;
use crate::pool::{Drain, Event};

/// How long changes are gathered, so that a burst of them is one.
pub(super) const BURST: Duration = Duration::from_millis(20);

/// What the view is made of.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) view: View,
    pub(super) pool: watch::Receiver<Listing<Said>>,
    pub(super) pods: watch::Receiver<Listing<Member>>,
    /// Those that are about to be emptied; none come where nodes are not watched.
    pub(super) nodes: watch::Receiver<Listing<Emptied>>,
    /// Which pods are to be listed.
    pub(super) labels: watch::Sender<Option<Arc<str>>>,
    /// The pool, for notices.
    pub(super) regarding: ObjectReference,
    /// What was noticed last.
    pub(super) noticed: Option<Trouble>,
    /// How many endpoints were told last.
    pub(super) endpoints: usize,
}

impl Keeper {
    /// Tells what holds, at every change, until nobody listens.
    pub(super) async fn run(mut self, outlets: Outlets) {
        loop {
            let outcome = self.look();
            let again = outcome.again;
            self.notice(&outlets);
            if self.tell(outcome, &outlets).await.is_none() {
                return;
            }
            tokio::select! {
                () = changed(&mut self.pool) => {}
                () = changed(&mut self.pods) => {}
                () = changed(&mut self.nodes) => {}
                () = until(again) => {}
                () = outlets.events.closed() => return,
            }
            sleep(BURST).await;
        }
    }

    fn look(&mut self) -> Outcome {
        let now = Instant::now();
        let (pool, pods) = (self.pool.borrow_and_update(), self.pods.borrow_and_update());
        self.view.pool(&pool, now);
        self.view.nodes(&self.nodes.borrow_and_update());
        self.view.outcome(&pool, &pods, now)
    }

    /// Sends a notice of new trouble; where nobody takes it, it is lost.
    fn notice(&mut self, outlets: &Outlets) {
        let trouble = self.view.trouble();
        if trouble == self.noticed {
            return;
        }
        if let Some(Trouble { uid, reason, note }) = trouble.clone() {
            let regarding = ObjectReference { uid: Some(uid), ..self.regarding.clone() };
            outlets.notices.try_send(Notice { regarding, reason, note }).ok();
        }
        self.noticed = trouble;
    }

    /// None when nobody listens.
    async fn tell(&mut self, outcome: Outcome, outlets: &Outlets) -> Option<()> {
        let Outcome { labels, endpoints, leaving, failure_mode, missing, asking, warning, .. } =
            outcome;
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
            // First, so that no new endpoint is taken for one that stays.
            outlets.events.send(Event::Drains(drains(leaving))).await.ok()?;
            self.endpoints = endpoints.len();
            outlets.events.send(Event::Endpoints(endpoints)).await.ok()?;
        }
        outlets.readiness.send_if_modified(|readiness| {
            let lacks = changed_to(&mut readiness.missing, missing);
            let warns = changed_to(&mut readiness.warning, warning);
            if lacks || warns {
                log(readiness, asking, self.endpoints);
            }
            lacks || warns
        });
        Some(())
    }
}

/// What the pool is to know of pods that leave. The time of day is the pods' own; a clock that is wrong ends a drain early
/// or late.
fn drains(leaving: Vec<(Box<str>, Leaving)>) -> HashMap<Box<str>, Drain> {
    let (now, today) = (Instant::now(), Timestamp::now());
    let drain = |Leaving { reason, until, serves }: Leaving| {
        let left = until.map(|until| until.duration_since(today).try_into().unwrap_or_default());
        let until = left.map(|left: Duration| now.checked_add(left).unwrap_or(now).into_std());
        Drain { reason, until, serves }
    };
    leaving.into_iter().map(|(uid, leaving)| (uid, drain(leaving))).collect()
}

/// True when the text is another one now.
fn changed_to(place: &mut Option<Arc<str>>, text: Option<String>) -> bool {
    let changed = place.as_deref() != text.as_deref();
    if changed {
        *place = text.map(Arc::from);
    }
    changed
}

fn log(Readiness { missing, warning, .. }: &Readiness, asking: bool, endpoints: usize) {
    match (missing, warning) {
        (Some(reason), _) if asking => tracing::info!(reason = &**reason, "API server asked"),
        (Some(reason), _) => tracing::warn!(reason = &**reason, "no pool to serve"),
        (None, Some(reason)) => {
            tracing::warn!(reason = &**reason, endpoints, "pool served, look after it");
        }
        (None, None) => tracing::info!(endpoints, "pool and pods known"),
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
