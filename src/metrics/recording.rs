//! The families of the recording of requests.

use prometheus::{IntCounter, IntGauge};

use super::Families;

/// What becomes of requests that are to be recorded.
#[derive(Clone, Debug)]
pub struct RecordingMetrics {
    /// 1 while requests are recorded.
    pub active: IntGauge,
    /// Requests that are in the file.
    pub written: IntCounter,
    /// Requests left out because the writer did not keep up, or the settings of blocks changed while they passed.
    pub dropped: IntCounter,
    /// Requests left out because the file could not be written; nothing is recorded afterwards.
    pub failed: IntCounter,
}

impl RecordingMetrics {
    pub(super) fn new(new: &Families<'_>) -> prometheus::Result<Self> {
        let requests = new.counters(
            "lodesman_recorded_requests_total",
            "Requests that were to be recorded: written, dropped because the writer did not keep up or the settings of blocks changed meanwhile, failed because the file could not be written.",
            &["result"],
        )?;
        let of = |result: &str| requests.with_label_values(&[result]);
        Ok(Self {
            active: new.gauge(
                "lodesman_recording",
                "1 while requests are recorded (--record-trace), 0 when they are not or no longer.",
            )?,
            written: of("written"),
            dropped: of("dropped"),
            failed: of("failed"),
        })
    }
}
