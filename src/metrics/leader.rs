//! The families of what one replica does for all.

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use super::Families;

/// Leadership, and what a leader writes.
#[derive(Clone, Debug)]
pub struct LeaderMetrics {
    /// 1 while this replica holds the lease.
    pub leads: IntGauge,
    /// How often this replica began or ceased to lead.
    pub transitions: IntCounter,
    /// Writes of a status, by kind of objects and result.
    pub status_writes: IntCounterVec,
    /// 1 after a write of a status failed, until one succeeds, by kind of objects.
    pub status_blocked: IntGaugeVec,
    /// Kubernetes Events, by result.
    pub events: IntCounterVec,
    /// Writes of the deletion cost of pods, by result.
    pub deletion_costs: IntCounterVec,
}

impl LeaderMetrics {
    pub(super) fn new(new: &Families<'_>) -> prometheus::Result<Self> {
        Ok(Self {
            leads: new.gauge(
                "lodesman_leader",
                "1 while this replica holds the lease and writes status and Events, else 0.",
            )?,
            transitions: new.counter(
                "lodesman_leader_transitions_total",
                "How often this replica began or ceased to lead.",
            )?,
            status_writes: new.counters(
                "lodesman_status_writes_total",
                "Writes of the status of objectives, rewrites and models.",
                &["kind", "result"],
            )?,
            status_blocked: new.our_gauges(
                "lodesman_status_blocked",
                "1 after a write of the status of a kind of objects failed, until one succeeds.",
                &["kind"],
            )?,
            events: new.counters(
                "lodesman_events_total",
                "Kubernetes Events that were written, or were not.",
                &["result"],
            )?,
            deletion_costs: new.counters(
                "lodesman_pod_deletion_cost_writes_total",
                "Writes of the deletion cost of a pod (--pod-deletion-cost-interval).",
                &["result"],
            )?,
        })
    }
}
