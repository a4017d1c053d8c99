//! Why a connection was not let in, as a metric label and a log line now and then.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::time::Duration;

use prometheus::IntCounterVec;
use rustls::{Error as TlsError, PeerMisbehaved};
use tokio::time::Instant;
use tracing::{debug, warn};

/// The least time between two log lines of one reason.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// Why a connection was not let in.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("the peer closed before it sent anything of use")]
    Closed,
    #[error("the handshake was not done in time")]
    Slow,
    #[error("too many handshakes in progress, the oldest was ended")]
    Crowded,
    #[error("too many connections")]
    Full,
    #[error("cannot accept: raise the limit of open files")]
    Accept(#[source] io::Error),
    #[error(
        "TLS on a port that serves plaintext only: make the gateway speak plaintext, or set --secure-serving"
    )]
    Tls,
    #[error(
        "plaintext on a port that serves TLS only: make the gateway speak TLS, or set --secure-serving=false"
    )]
    Plaintext,
    #[error("not HTTP/2")]
    NotHttp2,
    #[error(
        "the TLS server name is no host name, Istio sends its cluster name unless told otherwise: \
         set `sni` in the tls settings of the DestinationRule, or make the gateway speak plaintext"
    )]
    ServerName(#[source] io::Error),
    #[error("TLS handshake failed")]
    Handshake(#[source] io::Error),
    #[error("connection broke")]
    Io(#[source] io::Error),
}

impl Refusal {
    pub(super) fn of_tls(error: io::Error) -> Self {
        let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
        match cause {
            Some(TlsError::PeerMisbehaved(PeerMisbehaved::ServerNameMustContainOneHostName)) => {
                Self::ServerName(error)
            }
            None if error.kind() == io::ErrorKind::UnexpectedEof => Self::Closed,
            _ => Self::Handshake(error),
        }
    }

    pub(super) fn of_preface(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof { Self::Closed } else { Self::Io(error) }
    }

    /// The value of the label `reason`.
    fn reason(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Slow => "timeout",
            Self::Crowded => "handshakes",
            Self::Full => "connections",
            Self::Accept(_) => "accept",
            Self::Tls => "unexpected_tls",
            Self::Plaintext => "unexpected_plaintext",
            Self::NotHttp2 => "not_http2",
            Self::ServerName(_) => "server_name",
            Self::Handshake(_) => "tls",
            Self::Io(_) => "io",
        }
    }

    /// Whether this is what port probes and dying peers look like, nothing to tell a human.
    fn harmless(&self) -> bool {
        matches!(self, Self::Closed | Self::Io(_))
    }
}

/// Counts every refusal, and logs each reason at most once in [`LOG_INTERVAL`].
#[derive(Debug)]
pub(super) struct Refusals {
    refused: IntCounterVec,
    /// Last log line and how many were left out since, by reason.
    logged: HashMap<&'static str, (Instant, u64)>,
}

impl Refusals {
    pub(super) fn new(refused: IntCounterVec) -> Self {
        Self { refused, logged: HashMap::new() }
    }

    pub(super) fn report(&mut self, refusal: &Refusal) {
        let reason = refusal.reason();
        self.refused.with_label_values(&[reason]).inc();
        let error: &dyn Error = refusal;
        if refusal.harmless() {
            return debug!(reason, error, "connection refused");
        }
        if let Some(omitted) = self.due(reason, Instant::now()) {
            warn!(reason, error, omitted, "connection refused");
        }
    }

    /// The number of lines left out since the last one, when a line is due again.
    fn due(&mut self, reason: &'static str, now: Instant) -> Option<u64> {
        match self.logged.get_mut(reason) {
            Some((last, omitted)) if now.duration_since(*last) < LOG_INTERVAL => {
                *omitted += 1;
                None
            }
            _ => Some(self.logged.insert(reason, (now, 0)).map_or(0, |(_, omitted)| omitted)),
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus::Opts;

    use super::*;

    // FR-124
    #[test]
    fn a_reason_is_logged_once_a_minute_with_the_number_left_out() {
        let counter = IntCounterVec::new(Opts::new("refused", "help"), &["reason"]).unwrap();
        let mut refusals = Refusals::new(counter);
        let start = Instant::now();
        assert_eq!(refusals.due("tls", start), Some(0));
        assert_eq!(refusals.due("tls", start + LOG_INTERVAL / 2), None);
        assert_eq!(refusals.due("timeout", start + LOG_INTERVAL / 2), Some(0));
        assert_eq!(refusals.due("tls", start + LOG_INTERVAL), Some(1));
    }
}
