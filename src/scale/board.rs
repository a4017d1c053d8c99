//! The history with those who write and read it.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::pool::{Endpoint, Snapshot};
use crate::scale::estimate::Goal;
use crate::scale::history::{History, Unplaced};
use crate::scale::query::{Query, WINDOW};
use crate::scale::signals::{Signals, Wanted};

/// What is asked of the replicas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aims {
    /// The targets. Default 2 s to the first token of nine of ten requests, and engines that are busy for 0.8 of the time.
    pub goal: Goal,
    /// The time that a further replica takes to be ready; so far a growing load is foreseen. Default 1 m.
    pub lead: Duration,
}

/// Where the demand is told: one task looks, autoscalers read. No decision comes here.
#[derive(Debug)]
pub struct Board {
    kept: Mutex<(History, Aims)>,
    /// Told of each look, and of requests without an endpoint.
    changed: watch::Sender<()>,
}

impl Board {
    /// An empty one.
    pub fn new(aims: Aims) -> Self {
        Self { kept: Mutex::new((History::default(), aims)), changed: watch::Sender::default() }
    }

    /// Other aims from now on.
    pub fn aim(&self, aims: Aims) {
        self.kept.lock().1 = aims;
    }

    /// Takes a look at the pool, once a second; what all endpoints say.
    pub fn look(&self, snapshot: &Snapshot, unplaced: Unplaced, now: Instant) -> Signals {
        let mut kept = self.kept.lock();
        let (history, aims) = &mut *kept;
        history.look(snapshot, unplaced, now);
        let wanted = Wanted { window: WINDOW, counts: &|_| true, aims: *aims };
        let signals = history.signals(wanted, now);
        drop(kept);
        self.changed.send_replace(());
        signals
    }

    /// So many requests have found no endpoint by now.
    pub fn lack(&self, total: u64, now: Instant) {
        self.kept.lock().0.lack(total, now);
        self.changed.send_replace(());
    }

    /// Told when there may be something new.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// The value that a trigger asks for, over the replicas.
    pub fn value(&self, query: &Query, snapshot: &Snapshot, now: Instant) -> f64 {
        self.over(query, snapshot, |history, wanted| query.metric.of(&history.signals(wanted, now)))
    }

    /// Whether there is work for the endpoints that a trigger is for.
    pub fn active(&self, query: &Query, snapshot: &Snapshot, now: Instant) -> bool {
        self.over(query, snapshot, |history, wanted| {
            history.active(wanted, query.activation, now)
                || query.metric.of(&history.signals(wanted, now)) > query.activation
        })
    }

    fn over<T>(
        &self,
        query: &Query,
        snapshot: &Snapshot,
        read: impl FnOnce(&History, Wanted<'_>) -> T,
    ) -> T {
        let serves = query.model.as_deref().map(|model| snapshot.servers(model));
        let counts = |endpoint: &Endpoint| {
            let lacks = |serves: &dyn Fn(_) -> Option<bool>| {
                snapshot.by_id(endpoint.id).is_some() && serves(endpoint.id.slot) == Some(false)
            };
            query.variant.matches(&endpoint.spec.labels)
                && !serves.as_ref().is_some_and(|serves| lacks(serves))
        };
        let kept = self.kept.lock();
        read(&kept.0, Wanted { window: query.window, counts: &counts, aims: kept.1 })
    }
}
