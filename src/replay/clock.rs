//! Virtual time for the production code, which tells it by [`Instant`]s.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Stands until it is set.
#[derive(Clone, Debug)]
pub(super) struct VirtualClock {
    origin: Instant,
    nanoseconds: Arc<AtomicU64>,
}

impl VirtualClock {
    /// A clock at the start of a run.
    #[expect(
        clippy::disallowed_methods,
        reason = "an instant to count from: nothing but differences to it matters"
    )]
    pub(super) fn new() -> Self {
        Self { origin: Instant::now(), nanoseconds: Arc::default() }
    }

    /// Lets it be `since` the start of the run.
    pub(super) fn set(&self, since: Duration) {
        let nanoseconds = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.store(nanoseconds, Ordering::Relaxed);
    }

    /// The time.
    pub(super) fn now(&self) -> Instant {
        self.origin + Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }
}
