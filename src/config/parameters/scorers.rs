//! The parameters of scorers.

use crate::config::parameters::Parameter;

/// By type and in the order in which the type has them.
pub(super) static PARAMETERS: &[Parameter] = &[
    Parameter {
        plugins: &["active-request-scorer"],
        name: "idleThreshold",
        default: Some("0"),
        summary: "Requests in flight up to which an endpoint counts as idle and scores 1.",
    },
    Parameter {
        plugins: &["active-request-scorer"],
        name: "maxBusyScore",
        default: Some("1.0"),
        summary: "The score that an endpoint which is not idle comes up to, 0 to 1.",
    },
    Parameter {
        plugins: &["endpoint-attribute-scorer"],
        name: "attributeKey",
        default: None,
        summary: "Name of the number: an `attributeKey` of `customMetrics`, or `WaitingQueueSize`, `RunningRequestsSize`, `KVCacheUsagePercent`, `CacheBlockSize`, `CacheNumBlocks`, `MaxActiveModels`.",
    },
    Parameter {
        plugins: &["endpoint-attribute-scorer"],
        name: "producer",
        default: Some("null"),
        summary: "Who tells the number; `core-metrics-extractor` when absent.",
    },
    Parameter {
        plugins: &["endpoint-attribute-scorer"],
        name: "algorithm",
        default: None,
        summary: "`type`, `linear_lower_is_better` or `linear_higher_is_better`, and `normalization`: `fixedRange` with `min` and `max`, or `adaptiveRange: {}`, the range of the candidates, when absent.",
    },
    Parameter {
        plugins: &["header-label-affinity-scorer"],
        name: "headerName",
        default: None,
        summary: "The request header, in any case.",
    },
    Parameter {
        plugins: &["header-label-affinity-scorer"],
        name: "labelKey",
        default: None,
        summary: "The label of endpoints that it is compared with.",
    },
    Parameter {
        plugins: &["load-aware-scorer"],
        name: "threshold",
        default: Some("128.0"),
        summary: "Waiting requests from which on an endpoint scores 0, more than 0.",
    },
    Parameter {
        plugins: &["mm-embeddings-cache-scorer"],
        name: "producerName",
        default: Some("null"),
        summary: "Name of the producer that says how much is remembered; the listed one when absent.",
    },
    Parameter {
        plugins: &["no-hit-lru-scorer"],
        name: "lruSize",
        default: Some("1024"),
        summary: "Endpoints that are remembered, 1 or more.",
    },
    Parameter {
        plugins: &["no-hit-lru-scorer"],
        name: "prefixMatchInfoProducerName",
        default: Some("null"),
        summary: "Name of the producer to ask; the listed one when absent.",
    },
    Parameter {
        plugins: &["prefix-cache-scorer"],
        name: "prefixMatchInfoProducerName",
        default: Some("null"),
        summary: "Name of the producer to ask; the listed one when absent.",
    },
    Parameter {
        plugins: &["prefix-cache-scorer"],
        name: "matchLengthWeight",
        default: Some("0.0"),
        summary: "Share of the score that the length of a match decides, 0 to 1.",
    },
    Parameter {
        plugins: &["prefix-cache-scorer"],
        name: "matchLengthScaleTokens",
        default: Some("8192.0"),
        summary: "Tokens of a match that is worth the whole of that share.",
    },
    Parameter {
        plugins: &["token-load-scorer"],
        name: "queueThresholdTokens",
        default: Some("4194304.0"),
        summary: "Tokens from which on an endpoint scores 0, more than 0.",
    },
    Parameter {
        plugins: &["token-load-scorer"],
        name: "inFlightLoadProducerName",
        default: Some("null"),
        summary: "Name of the producer that counts; there is one count.",
    },
];
