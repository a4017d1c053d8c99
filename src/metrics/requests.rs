//! The families of what is told of single requests: lines of the log, traces.

use prometheus::IntCounter;

use super::Families;

/// What becomes of requests that the request log is to tell of.
#[derive(Clone, Debug)]
pub struct RequestLogMetrics {
    /// Those with a line.
    pub written: IntCounter,
    /// Those left out, as there were too many in one second.
    pub dropped: IntCounter,
}

/// What becomes of requests that are traced.
#[derive(Clone, Debug)]
pub struct TraceMetrics {
    /// Those whose spans a receiver has taken.
    pub exported: IntCounter,
    /// Those left out because the exporter did not keep up.
    pub dropped: IntCounter,
    /// Those whose spans no receiver has taken.
    pub failed: IntCounter,
}

impl RequestLogMetrics {
    pub(super) fn new(new: &Families<'_>) -> prometheus::Result<Self> {
        let requests = new.counters(
            "lodesman_logged_requests_total",
            "Requests that the request log was to tell of: written, dropped because there were more than 100 a second.",
            &["result"],
        )?;
        let of = |result: &str| requests.with_label_values(&[result]);
        Ok(Self { written: of("written"), dropped: of("dropped") })
    }
}

impl TraceMetrics {
    pub(super) fn new(new: &Families<'_>) -> prometheus::Result<Self> {
        let requests = new.counters(
            "lodesman_traced_requests_total",
            "Requests whose spans were to be sent: exported, dropped because the exporter did not keep up, failed because the receiver did not take them.",
            &["result"],
        )?;
        let of = |result: &str| requests.with_label_values(&[result]);
        Ok(Self { exported: of("exported"), dropped: of("dropped"), failed: of("failed") })
    }
}
