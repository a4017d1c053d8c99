//! What autoscalers would have been told in a run.

use std::time::{Duration, Instant};

use crate::pool::Snapshot;
use crate::scale::{Aims, History, Unplaced, WINDOW, Wanted};

/// Between two looks, as in a process.
const LOOK: Duration = Duration::from_secs(1);

/// Looks at the pool, and keeps how many replicas its load needed.
#[derive(Debug)]
pub(super) struct Looks {
    history: History,
    aims: Aims,
    next: Duration,
    /// From when on how many.
    told: Vec<(Duration, u32)>,
}

impl Looks {
    /// None yet.
    pub(super) fn new(aims: Aims) -> Self {
        Self { history: History::default(), aims, next: Duration::ZERO, told: Vec::new() }
    }

    /// Whether it is time for another.
    pub(super) fn due(&self, now: Duration) -> bool {
        now >= self.next
    }

    /// Looks at the pool, `now` since the start of the run.
    pub(super) fn look(&mut self, snapshot: &Snapshot, now: Duration, at: Instant) {
        self.next = now + LOOK;
        self.history.look(snapshot, Unplaced::default(), at);
        let wanted = Wanted { window: WINDOW, counts: &|_| true, aims: self.aims };
        let needed = self.history.signals(wanted, at).recommended;
        if self.told.last().is_none_or(|(_, told)| *told != needed) {
            self.told.push((now, needed));
        }
    }

    /// How many replicas were needed from when on.
    pub(super) fn told(&mut self) -> Vec<(Duration, u32)> {
        std::mem::take(&mut self.told)
    }
}
