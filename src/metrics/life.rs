//! The families of the lives of endpoints.

use prometheus::{IntCounterVec, IntGauge, IntGaugeVec};

use super::Families;

/// Where endpoints stand.
#[derive(Clone, Debug)]
pub struct LifeMetrics {
    /// Endpoints of the pool by state.
    pub endpoints: IntGaugeVec,
    /// Changes of state.
    pub transitions: IntCounterVec,
    /// Probes of one token, by result.
    pub probes: IntCounterVec,
    /// Requests that are still in flight on endpoints that drain.
    pub draining_in_flight: IntGauge,
}

impl LifeMetrics {
    pub(super) fn new(new: &Families<'_>) -> prometheus::Result<Self> {
        Ok(Self {
            endpoints: new.our_gauges(
                "lodesman_endpoints",
                "Endpoints of the pool by state: `new`, `warming`, `ready`, `draining`, `quarantined`.",
                &["state"],
            )?,
            transitions: new.counters(
                "lodesman_endpoint_transitions_total",
                "Changes of the state of endpoints, by the state before and after and by reason.",
                &["from", "to", "reason"],
            )?,
            probes: new.counters(
                "lodesman_probes_total",
                "Probes of one token: `token`, `failed` (an error, or none in 2 s), `busy` (429), `declined` (not to be probed).",
                &["result"],
            )?,
            draining_in_flight: new.gauge(
                "lodesman_draining_inflight_requests",
                "Requests of this replica in flight on endpoints that drain.",
            )?,
        })
    }
}
