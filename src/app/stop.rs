//! The stop, in order.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::app::supervisor::Ended;
use crate::app::{Parts, Running, recording, traces};
use crate::flow::Flow;
use crate::metrics::Metrics;
use crate::pool::readiness::Readiness;

/// The task that serves streams; the stop waits for it.
pub(super) const STREAMS: &str = "ext_proc port";

/// The task that finds endpoints.
pub(super) const DISCOVERY: &str = "discovery";

/// How long open streams may go on once no new ones are taken: longer than any answer. In Kubernetes the pod's grace
/// period ends it earlier.
const LAST_STREAMS: Duration = Duration::from_mins(10);

/// How often it is looked whether streams are open.
const LOOK: Duration = Duration::from_millis(100);

/// After so many looks without a stream (5 s) the gateways are taken to have gone elsewhere.
const QUIET_LOOKS: u32 = 50;

/// A task that should run for ever has ended.
#[derive(Debug, thiserror::Error)]
#[error("{name} ended{}", cause.as_ref().map(|cause| format!(": {cause:#}")).unwrap_or_default())]
pub struct Failed {
    name: &'static str,
    cause: Option<Arc<anyhow::Error>>,
}

/// What a stop changes and looks at.
#[derive(Debug)]
pub(super) struct Stopping {
    /// Ends the taking of new streams.
    close: CancellationToken,
    readiness: watch::Sender<Readiness>,
    /// Holds requests without an endpoint.
    flow: Arc<Flow>,
    metrics: Arc<Metrics>,
    drain_timeout: Duration,
}

impl Failed {
    /// Whether the user can mend it: what was named as the source of endpoints gives none.
    pub fn is_setup(&self) -> bool {
        self.name == DISCOVERY
    }
}

impl Running {
    /// Serves until `stop`, then stops in order; a second `stop` cuts that short.
    ///
    /// # Errors
    /// When a task ended that should not have.
    pub async fn stop_on(
        mut self,
        stop: CancellationToken,
        at_once: CancellationToken,
    ) -> Result<(), Failed> {
        tokio::select! {
            ended = self.supervisor.ended() => return Err(ended.into()),
            () = stop.cancelled() => {}
        }
        tracing::info!(
            elapsed_ms = 0,
            "draining: not ready any more, open and new streams are served"
        );
        self.stopping.readiness.send_modify(|readiness| readiness.draining = true);
        tokio::select! {
            () = at_once.cancelled() => {
                cut_short();
                return Ok(());
            }
            () = self.stopping.drained() => {}
        }
        tracing::info!("closing: no new streams, and no request waits for an endpoint");
        self.stopping.flow.close();
        self.stopping.close.cancel();
        let ended = tokio::select! {
            () = at_once.cancelled() => {
                cut_short();
                return Ok(());
            }
            ended = self.supervisor.wait_for(STREAMS, LAST_STREAMS) => ended,
        };
        tell_end(ended);
        drop(self.supervisor);
        recording::end(self.recording).await;
        traces::end(self.tracing).await;
        Ok(())
    }
}

fn cut_short() {
    tracing::warn!("stopped at once by a second signal; open streams are cut");
}

/// Says whether all streams have ended.
fn tell_end(ended: bool) {
    if ended {
        tracing::info!("stopped");
    } else {
        tracing::warn!("stopped with open streams, which are cut");
    }
}

impl Stopping {
    pub(super) fn of(parts: &Parts, drain_timeout: Duration) -> Self {
        Self {
            close: parts.close.clone(),
            readiness: parts.readiness.clone(),
            flow: Arc::clone(&parts.flow),
            metrics: Arc::clone(&parts.metrics),
            drain_timeout,
        }
    }

    /// Waits for the drain time-out, or until there has been no stream for a while.
    async fn drained(&self) {
        tokio::select! {
            () = tokio::time::sleep(self.drain_timeout) => {}
            () = self.quiet() => {}
        }
    }

    /// Waits until there has been no stream for a while.
    async fn quiet(&self) {
        let mut looks = 0;
        while looks < QUIET_LOOKS {
            looks = if self.metrics.streams.open() == 0 { looks + 1 } else { 0 };
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl From<Option<Ended>> for Failed {
    fn from(ended: Option<Ended>) -> Self {
        match ended {
            Some(Ended { name, error }) => Self { name, cause: error },
            None => Self { name: "everything", cause: None },
        }
    }
}
