//! Whether an endpoint answers at all: an empty queue means nothing when nobody is there.
//!
//! A server that refuses connections, or answers requests with errors at once, never has anything in flight and would
//! draw every request. It is *suspect*: a last resort, taken only where no other endpoint is left. So is one that is held
//! for what was seen of it over time (see `life/vitals.rs`).

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::pool::{Phase, Reason};

/// So many failed answers in a row are no accident.
const FAILURES: u32 = 3;

/// How long failed answers are held against an endpoint; then it is tried again.
const REST: Duration = Duration::from_secs(5);

/// What speaks against an endpoint.
#[derive(Debug, Default)]
pub(in crate::pool) struct Health {
    unreachable: AtomicBool,
    failures: AtomicU32,
    /// The newest failed answer.
    failed: Mutex<Option<Instant>>,
    /// It is in quarantine.
    held: AtomicBool,
    /// It drains.
    draining: AtomicBool,
    /// Probes that failed in a row, and one more; 0 where no probe can tell.
    probes: AtomicU32,
    /// Told when something new speaks against it.
    doubt: Notify,
}

impl Health {
    /// Whether connections to it fail, as the scraper sees it.
    pub(in crate::pool) fn reach(&self, unreachable: bool) {
        self.unreachable.store(unreachable, Ordering::Relaxed);
    }

    /// A request was answered, by an error of the server's or not.
    pub(in crate::pool) fn answered(&self, failed: bool, now: Instant) {
        if failed {
            *self.failed.lock() = Some(now);
            self.failures.fetch_add(1, Ordering::Relaxed);
        } else if self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// Whether connections to it fail.
    pub(in crate::pool) fn unreachable(&self) -> bool {
        self.unreachable.load(Ordering::Relaxed)
    }

    /// It stands there now.
    pub(in crate::pool) fn stands(&self, phase: Phase) {
        self.held.store(phase == Phase::Quarantined, Ordering::Relaxed);
        self.draining.store(phase == Phase::Draining, Ordering::Relaxed);
    }

    pub(in crate::pool) fn draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(in crate::pool) fn held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    /// Something new speaks against it.
    pub(in crate::pool) fn doubt(&self) {
        self.doubt.notify_one();
    }

    /// Waits until something new speaks against it; what came since the last call counts.
    pub(in crate::pool) async fn doubted(&self) {
        self.doubt.notified().await;
    }

    /// Probes that failed in a row since the last good one; none where no probe can tell.
    pub(in crate::pool) fn strikes(&self) -> Option<u32> {
        self.probes.load(Ordering::Relaxed).checked_sub(1)
    }

    /// A probe ended so. Only whoever probes writes it.
    pub(in crate::pool) fn probed(&self, strikes: Option<u32>) {
        let probes = strikes.map_or(0, |strikes| strikes.saturating_add(1));
        self.probes.store(probes, Ordering::Relaxed);
    }

    /// What speaks against it by itself now.
    pub(in crate::pool) fn suspicion(&self, now: Instant) -> Option<Reason> {
        let fails = || {
            let failed = *self.failed.lock();
            failed.is_some_and(|at| now.saturating_duration_since(at) < REST)
        };
        if self.unreachable() {
            return Some(Reason::Unreachable);
        }
        let failing = self.failures.load(Ordering::Relaxed) >= FAILURES && fails();
        failing.then_some(Reason::Errors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::clock;

    #[test]
    fn failed_answers_in_a_row_make_an_endpoint_suspect_for_a_while() {
        let (health, now) = (Health::default(), clock::now());
        (0..2).for_each(|_| health.answered(true, now));
        assert!(health.suspicion(now).is_none());
        health.answered(true, now);
        assert!(health.suspicion(now).is_some());
        assert!(health.suspicion(now + REST).is_none(), "it is tried again");
        health.answered(true, now + REST);
        assert!(health.suspicion(now + REST).is_some(), "and one more failure is enough");
        health.answered(false, now + REST);
        assert!(health.suspicion(now + REST).is_none());
    }

    #[test]
    fn an_endpoint_that_cannot_be_reached_is_suspect_until_it_can() {
        let (health, now) = (Health::default(), clock::now());
        health.reach(true);
        assert!(health.suspicion(now + REST).is_some());
        health.reach(false);
        assert!(health.suspicion(now).is_none());
    }
}
