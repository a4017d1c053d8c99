//! Time and conditions: the one place that reads the clock.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Pause between two attempts of [`eventually`].
const PAUSE: Duration = Duration::from_millis(10);

/// Repeats `attempt` until it succeeds.
///
/// # Errors
/// When it has not succeeded within `deadline`: the last failure, which should tell the state seen.
pub async fn eventually<T>(
    deadline: Duration,
    mut attempt: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    let end = now() + deadline;
    loop {
        match attempt().await {
            Ok(value) => return Ok(value),
            Err(last) if now() >= end => {
                return Err(last).with_context(|| format!("not within {deadline:?}"));
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// A loopback address on which nothing listens: for servers that cannot report a port of the
/// kernel's choice, and for peers that refuse connections.
///
/// # Errors
/// When the machine has no free port.
pub fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// The present instant.
#[expect(clippy::disallowed_methods, reason = "the one place of this crate that reads the clock")]
pub fn now() -> Instant {
    Instant::now()
}
