//! The one place that reads the clock; the core is told the time.

use std::time::{Duration, Instant, SystemTime};

/// The time now.
#[expect(clippy::disallowed_methods, reason = "the shell's clock")]
pub fn now() -> Instant {
    Instant::now()
}

/// The time of the calendar: since 1970.
#[expect(clippy::disallowed_methods, reason = "the shell's clock")]
pub fn calendar() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// The same in seconds.
pub fn unix_seconds() -> u64 {
    calendar().as_secs()
}
