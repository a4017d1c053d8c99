//! Whether an endpoint answers at all: an empty queue means nothing when nobody is there.
//!
//! A server that refuses connections, or answers requests with errors at once, never has anything in flight and would
//! draw every request. It is *suspect*: a last resort, taken only where no other endpoint is left.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

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

    pub(in crate::pool) fn suspect(&self, now: Instant) -> bool {
        let fails = || {
            let failed = *self.failed.lock();
            failed.is_some_and(|at| now.saturating_duration_since(at) < REST)
        };
        self.unreachable.load(Ordering::Relaxed)
            || (self.failures.load(Ordering::Relaxed) >= FAILURES && fails())
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
        assert!(!health.suspect(now));
        health.answered(true, now);
        assert!(health.suspect(now));
        assert!(!health.suspect(now + REST), "it is tried again");
        health.answered(true, now + REST);
        assert!(health.suspect(now + REST), "and one more failure is enough");
        health.answered(false, now + REST);
        assert!(!health.suspect(now + REST));
    }

    #[test]
    fn an_endpoint_that_cannot_be_reached_is_suspect_until_it_can() {
        let (health, now) = (Health::default(), clock::now());
        health.reach(true);
        assert!(health.suspect(now + REST));
        health.reach(false);
        assert!(!health.suspect(now));
    }
}
