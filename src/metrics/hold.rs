//! The families of requests that wait for an endpoint.

use prometheus::{Histogram, IntCounterVec, IntGauge};

use super::{Families, buckets};

/// Requests that wait because the pool has no endpoint.
#[derive(Debug)]
pub struct HoldMetrics {
    /// That wait now; told each second.
    pub held: IntGauge,
    ended: IntCounterVec,
    /// How long those waited that were let go, in seconds.
    pub duration: Histogram,
}

impl HoldMetrics {
    pub(super) fn new(new: &Families<'_>) -> prometheus::Result<Self> {
        Ok(Self {
            held: new.gauge(
                "lodesman_held_requests",
                "Requests that wait because the pool has no endpoint.",
            )?,
            ended: new.counters(
                "lodesman_held_requests_total",
                "What became of requests that came while the pool had no endpoint: released, expired, left (by the client), refused (for another reason), or not held, as too many were (full) or the wait would be too_long.",
                &["result"],
            )?,
            duration: new.ours_histogram(
                "lodesman_hold_duration_seconds",
                "How long requests waited for an endpoint that were let go.",
                buckets::LATENCY,
            )?,
        })
    }

    /// One waits no more, or may not.
    pub fn ended(&self, result: &str) {
        self.ended.with_label_values(&[result]).inc();
    }
}
