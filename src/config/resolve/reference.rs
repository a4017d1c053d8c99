//! Plugin types that the reference has and this build has not.

/// They are no spelling mistakes: a configuration that names one is refused with other words. Sorted.
pub(in crate::config) const NOT_YET: &[&str] = &[
    "always-disagg-multimodal-decider",
    "always-disagg-pd-decider",
    "burst-prefix-cache-producer",
    "dcgm-data-source",
    "dcgm-extractor",
    "disagg-headers-handler",
    "disagg-profile-handler",
    "disaggregatedset-rollout-screener",
    "edf-ordering-policy",
    "endpoint-notification-source",
    "fcfs-ordering-policy",
    "global-strict-fairness-policy",
    "k8s-notification-source",
    "latency-scorer",
    "latency-slo-admitter",
    "multicluster-approx-prefix-cache-producer",
    "multicluster-file-discovery",
    "multicluster-kv-cache-utilization-scorer",
    "multicluster-metrics-data-source",
    "multicluster-metrics-extractor",
    "multicluster-prefix-cache-scorer",
    "multicluster-queue-scorer",
    "multicluster-session-affinity-filter",
    "p2p-source-producer",
    "pd-profile-handler",
    "precise-prefix-cache-producer",
    "precise-prefix-cache-scorer",
    "predicted-latency-producer",
    "prefill-header-handler",
    "prefix-based-pd-decider",
    "priority-holdback-policy",
    "priority-then-time-eviction-order-policy",
    "program-aware-fairness",
    "request-attribute-reporter",
    "round-robin-fairness-policy",
    "sheddable-eviction-filter",
    "slo-deadline-ordering-policy",
    "slo-headroom-tier-filter",
    "soft-reflective-ceiling-policy",
    "static-usage-limit-policy",
    "topology-affinity-filter",
    "topology-affinity-scorer",
    "topology-extractor",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::registry::PLUGINS;

    #[test]
    fn what_is_supported_is_not_in_the_list() {
        let supported: Vec<_> = PLUGINS
            .iter()
            .map(|plugin| plugin.name)
            .filter(|name| NOT_YET.contains(name))
            .collect();
        assert_eq!(supported, Vec::<&str>::new(), "remove them here");
        assert!(NOT_YET.is_sorted());
    }
}
