//! How a director decides, and what it tells the time by.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::pool::{FailureMode, Snapshot};

/// Tells the time; virtual where time is.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Instant + Send + Sync>);

impl Clock {
    /// A clock that asks `now`.
    pub fn new(now: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub(super) fn now(&self) -> Instant {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// How the director decides.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What a failed filter means, whatever the pool says; none unless the command line says so.
    pub forced_failure_mode: Option<FailureMode>,
    /// What it means while the pool says nothing.
    pub failure_mode: FailureMode,
    /// The time that a decision may take.
    pub deadline: Duration,
    /// Whether decisions carry the scores of all candidates.
    pub scores: bool,
    /// Tells the time: asked when a decision begins, before each scorer, and at the end.
    pub clock: Clock,
}

impl Settings {
    /// What a fault means as things are.
    pub(super) fn mode(&self, snapshot: &Snapshot) -> FailureMode {
        let told = || snapshot.failure_mode();
        self.forced_failure_mode.or_else(told).unwrap_or(self.failure_mode)
    }

    /// Whether a filter that fails is left out.
    pub(super) fn opens(&self, snapshot: &Snapshot) -> bool {
        self.mode(snapshot) == FailureMode::FailOpen
    }
}
