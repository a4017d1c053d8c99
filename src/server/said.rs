//! What keeps a log line that could come with every request from flooding the log.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::server::clock;

/// Between two lines; what happened meanwhile is in the metrics.
const PAUSE: Duration = Duration::from_secs(10);

/// When a line was last written.
#[derive(Debug)]
pub struct Said {
    began: Instant,
    /// Milliseconds from `began` to the next line that may be written.
    next: AtomicU64,
}

impl Said {
    /// Whether the line may be written now; then it may not for a while.
    pub fn may_speak(&self) -> bool {
        let elapsed = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let now = clock::now().saturating_duration_since(self.began);
        let next = self.next.load(Ordering::Relaxed);
        let later = elapsed(now + PAUSE);
        elapsed(now) >= next
            && self.next.compare_exchange(next, later, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Default for Said {
    fn default() -> Self {
        Self { began: clock::now(), next: AtomicU64::new(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // FR-147
    #[test]
    fn a_line_is_written_once_in_a_while() {
        let said = Said::default();
        assert!(said.may_speak());
        assert!(!said.may_speak());
    }
}
