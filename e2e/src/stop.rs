//! How a demonstration ends: by itself, or by a signal.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

/// Ctrl-C reaches the parts as well: the end of one of them may be seen this long before the signal.
const GRACE: Duration = Duration::from_millis(200);

/// Whether the environment asks for an end by itself: `ONCE=1`.
pub fn once() -> bool {
    std::env::var("ONCE").is_ok_and(|once| !matches!(once.as_str(), "" | "0"))
}

/// Runs a demonstration until it is done or a signal stops it, which is its usual end unless it was to end by itself
/// (`once`).
///
/// # Errors
/// Its own, and when it is interrupted before its end.
pub async fn until_stopped(once: bool, demo: impl Future<Output = Result<()>>) -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let stopped = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    tokio::pin!(stopped);
    let result = tokio::select! {
        () = &mut stopped => return interrupted(once),
        result = demo => result,
    };
    if result.is_err() && timeout(GRACE, stopped).await.is_ok() {
        return interrupted(once);
    }
    result
}

fn interrupted(once: bool) -> Result<()> {
    ensure!(!once, "interrupted");
    Ok(())
}
