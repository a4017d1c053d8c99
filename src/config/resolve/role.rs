//! What the plugin types of the reference are for, whether this build has them or not.

/// A part that a plugin may play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Filter,
    Scorer,
    Picker,
    /// Chooses among profiles.
    Handler,
    /// Source of signals.
    Source,
    /// Reads what a source gives.
    Extractor,
    /// Source of endpoints.
    Discovery,
    Parser,
    /// Says how full the pool is.
    Detector,
    /// Policy between flows.
    Fairness,
    /// Policy within a flow.
    Ordering,
    /// Policy of how far a band may fill the pool.
    UsageLimit,
}

impl Role {
    /// What a plugin of this role is called.
    pub(super) const fn noun(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Scorer => "scorer",
            Self::Picker => "picker",
            Self::Handler => "profile handler",
            Self::Source => "data source",
            Self::Extractor => "extractor",
            Self::Discovery => "source of endpoints",
            Self::Parser => "parser",
            Self::Detector => "saturation detector",
            Self::Fairness => "fairness policy",
            Self::Ordering => "ordering policy",
            Self::UsageLimit => "usage limit policy",
        }
    }

    /// Whether the reference lets plugins of this type play the role.
    pub(super) fn has(self, type_name: &str) -> bool {
        TYPES.iter().any(|(role, types)| *role == self && types.contains(&type_name))
    }
}

/// Types by what they may be referred to as; one may stand in several lists. Filters, scorers, pickers and detectors go by
/// what they are in the table of plugins; here are those that have another role.
const TYPES: &[(Role, &[&str])] = &[
    (
        Role::Handler,
        &[
            "data-parallel-profile-handler",
            "disagg-profile-handler",
            "header-profile-handler",
            "pd-profile-handler",
            "single-profile-handler",
        ],
    ),
    (
        Role::Source,
        &[
            "dcgm-data-source",
            "endpoint-notification-source",
            "k8s-notification-source",
            "metrics-data-source",
            "models-data-source",
            "multicluster-metrics-data-source",
        ],
    ),
    (
        Role::Extractor,
        &[
            "approx-prefix-cache-producer",
            "burst-prefix-cache-producer",
            "core-metrics-extractor",
            "dcgm-extractor",
            "disaggregatedset-rollout-screener",
            "inflight-load-producer",
            "mm-embeddings-cache-producer",
            "models-data-extractor",
            "multicluster-approx-prefix-cache-producer",
            "multicluster-metrics-extractor",
            "p2p-source-producer",
            "precise-prefix-cache-producer",
            "precise-prefix-cache-scorer",
            "predicted-latency-producer",
            "topology-extractor",
        ],
    ),
    (Role::Discovery, &["file-discovery", "multicluster-file-discovery"]),
    (
        Role::Fairness,
        &["global-strict-fairness-policy", "program-aware-fairness", "round-robin-fairness-policy"],
    ),
    (
        Role::Ordering,
        &["edf-ordering-policy", "fcfs-ordering-policy", "slo-deadline-ordering-policy"],
    ),
    (
        Role::UsageLimit,
        &[
            "priority-holdback-policy",
            "soft-reflective-ceiling-policy",
            "static-usage-limit-policy",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::resolve::instances::FILE_DISCOVERY;
    use crate::config::resolve::reference::NOT_YET;
    use crate::config::sources;
    use crate::schedule::registry::{PLUGINS, find};

    #[test]
    fn every_type_with_a_role_is_a_type() {
        for type_name in TYPES.iter().flat_map(|(_, types)| *types) {
            let known = find(&[PLUGINS], type_name).is_some() || NOT_YET.contains(type_name);
            let source = sources::TYPES.iter().any(|(source, _)| source == type_name);
            assert!(known || source || *type_name == FILE_DISCOVERY, "{type_name}");
        }
    }
}
