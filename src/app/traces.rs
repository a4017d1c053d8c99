//! The sending of traces, where that is asked for.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::app::Parts;
use crate::config::Traces;
use crate::spans::Tracer;

/// How long the stop waits for the last spans.
const LAST_SPANS: Duration = Duration::from_secs(5);

/// Begins to send on `control`; none where no traces are wanted, or none can be sent, which is logged.
#[cfg(feature = "otel")]
pub(super) fn begin(
    traces: Option<&Traces>,
    parts: &Parts,
    control: &Handle,
) -> Option<(Arc<Tracer>, JoinHandle<()>)> {
    use crate::server::clock;
    use crate::telemetry::otlp::{Clocks, Exporter};

    let (traces, metrics) = (traces?, parts.metrics.traces.clone());
    let clocks = Clocks { now: clock::now, calendar: clock::calendar };
    let exporter = {
        let _on_control = control.enter();
        Exporter::new(traces, clocks, metrics.clone())
    };
    let exporter = match exporter {
        Ok(exporter) => exporter,
        Err(error) => {
            tracing::error!(%error, "no traces are sent");
            return None;
        }
    };
    tracing::info!(endpoint = traces.endpoint, "sending traces");
    let (begun, requests) = Tracer::new(traces.sampler, metrics);
    Some((Arc::new(begun), control.spawn(exporter.run(requests))))
}

/// Without the feature `otel` none are sent.
#[cfg(not(feature = "otel"))]
pub(super) fn begin(
    traces: Option<&Traces>,
    _: &Parts,
    _: &Handle,
) -> Option<(Arc<Tracer>, JoinHandle<()>)> {
    traces.inspect(|_| tracing::error!("no traces are sent: this build is without them"));
    None
}

/// Waits for the last spans to be sent, a while at most.
pub(super) async fn end(sending: Option<JoinHandle<()>>) {
    let Some(sending) = sending else { return };
    if tokio::time::timeout(LAST_SPANS, sending).await.is_err() {
        tracing::warn!("the last spans may be lost");
    }
}
