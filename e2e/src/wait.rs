//! Time and conditions: the one place that reads the clock.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::net::TcpStream;

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

/// Waits until a server accepts connections at `address`.
///
/// # Errors
/// When it does not within `deadline`.
pub async fn accepts(address: SocketAddr, deadline: Duration) -> Result<()> {
    eventually(deadline, async || {
        let stream = TcpStream::connect(address).await;
        stream.map(drop).with_context(|| format!("could not connect to {address}"))
    })
    .await
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

#[cfg(test)]
mod tests {
    use anyhow::{bail, ensure};

    use super::*;

    #[tokio::test]
    async fn condition_is_tried_until_it_holds() {
        let mut attempts = 0;
        let tried = eventually(Duration::from_secs(10), async || {
            attempts += 1;
            ensure!(attempts == 3, "attempt {attempts}");
            Ok(attempts)
        });
        assert_eq!(tried.await.unwrap(), 3);
    }

    #[tokio::test]
    async fn last_failure_is_shown_when_time_is_up() {
        let tried =
            eventually(Duration::ZERO, async || -> Result<()> { bail!("3 of 4 are ready") });
        assert_eq!(format!("{:#}", tried.await.unwrap_err()), "not within 0ns: 3 of 4 are ready");
    }

    #[tokio::test]
    async fn only_a_listening_address_accepts() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        accepts(listener.local_addr().unwrap(), Duration::from_secs(10)).await.unwrap();
        let free = free_address().unwrap();
        let error = accepts(free, Duration::ZERO).await.unwrap_err();
        assert!(format!("{error:#}").contains(&free.to_string()), "{error:#}");
    }
}
