//! Faults that a test or a demo can order.

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// What is wrong with a server; one thing at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Fault {
    /// Nothing.
    #[default]
    None,
    /// Every step takes `factor` times as long.
    Slow {
        /// Above 0.
        factor: f64,
    },
    /// The engine stands still; health and metrics are answered.
    Wedged,
    /// The metrics page stays as it was when first read under this fault.
    MetricsFrozen,
    /// A request for the metrics page gets no answer.
    MetricsHanging,
    /// A request for the metrics page is answered 500.
    #[serde(rename = "metrics-error-500")]
    MetricsError500,
    /// The metrics page is no text.
    MetricsGarbage,
    /// The metrics page does not end.
    MetricsEndless,
    /// Each request to the API is answered 500 at once.
    #[serde(rename = "error-500")]
    Error500,
    /// The process is gone: connections are reset, new ones refused, the cache is lost.
    Down,
}

impl Fault {
    pub(super) fn stops_the_engine(&self) -> bool {
        matches!(self, Self::Wedged | Self::Down)
    }

    /// Factor on the duration of a step.
    pub(super) fn slowdown(&self) -> f64 {
        if let Self::Slow { factor } = self { *factor } else { 1.0 }
    }
}

/// Body of `POST /sim/fault`: a fault, and where it goes.
#[derive(Debug, Deserialize)]
pub(super) struct FaultOrder {
    #[serde(flatten)]
    fault: Fault,
    /// All servers of the fleet.
    #[serde(default)]
    all: bool,
    /// This server, counted from 0; if absent the one that was asked.
    server: Option<usize>,
}

impl FaultOrder {
    /// Sets the fault. `asked` is the server that was asked, none on the port of the fleet.
    pub(super) fn carry_out(
        &self,
        asked: Option<usize>,
        faults: &[watch::Sender<Fault>],
    ) -> Result<(), FaultError> {
        if !matches!(self.fault.slowdown(), factor if factor > 0.0 && factor.is_finite()) {
            return Err(FaultError::Factor);
        }
        if self.all {
            for fault in faults {
                fault.send_replace(self.fault);
            }
            return Ok(());
        }
        let server = self.server.or(asked).ok_or(FaultError::NoServer)?;
        faults.get(server).ok_or(FaultError::NoServer)?.send_replace(self.fault);
        Ok(())
    }
}

/// Why an order was not carried out.
#[derive(Debug, thiserror::Error)]
pub(super) enum FaultError {
    #[error("factor must be above 0")]
    Factor,
    #[error("name a server of the fleet, or all")]
    NoServer,
}
