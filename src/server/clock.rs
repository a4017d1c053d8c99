//! The one place that reads the clock; the core is told the time.

use std::time::Instant;

/// The time now.
#[expect(clippy::disallowed_methods, reason = "the shell's clock")]
pub fn now() -> Instant {
    Instant::now()
}
