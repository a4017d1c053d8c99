//! The parameters of filters.

use crate::config::parameters::Parameter;

/// What keeps sessions on their endpoints.
const SESSIONS: &[&str] = &["session-affinity-filter", "session-affinity-scorer"];

/// By type and in the order in which the type has them.
pub(super) static PARAMETERS: &[Parameter] = &[
    Parameter {
        plugins: &["by-label"],
        name: "label",
        default: None,
        summary: "Key of the label.",
    },
    Parameter {
        plugins: &["by-label"],
        name: "validValues",
        default: Some("[]"),
        summary: "Values of endpoints that are kept.",
    },
    Parameter {
        plugins: &["by-label"],
        name: "allowsNoLabel",
        default: Some("false"),
        summary: "Whether endpoints without the label are kept; needed where `validValues` is empty.",
    },
    Parameter {
        plugins: &["context-length-aware"],
        name: "label",
        default: Some("\"llm-d.ai/context-length-range\""),
        summary: "Key of the label that names the range, `min-max` in tokens, both included.",
    },
    Parameter {
        plugins: &["context-length-aware"],
        name: "enableFiltering",
        default: Some("false"),
        summary: "Whether endpoints of other ranges are left out too.",
    },
    Parameter {
        plugins: &["endpoint-attribute-filter"],
        name: "attribute",
        default: None,
        summary: "Name of the metric.",
    },
    Parameter {
        plugins: &["endpoint-attribute-filter"],
        name: "producer",
        default: Some("null"),
        summary: "Whose metric it is: `core-metrics-extractor` when absent, empty for anybody's.",
    },
    Parameter {
        plugins: &["endpoint-attribute-filter"],
        name: "onMissing",
        default: Some("\"Pass\""),
        summary: "Whether an endpoint of which it is not known is kept: `Pass` or `Fail`.",
    },
    Parameter {
        plugins: &["endpoint-attribute-filter"],
        name: "fallbackOnEmpty",
        default: Some("false"),
        summary: "Whether all are kept where none passes.",
    },
    Parameter {
        plugins: &["endpoint-attribute-filter"],
        name: "algorithm",
        default: None,
        summary: "`type: threshold` with a `threshold`: its `operator` (`LessThan`, `LessThanOrEqual`, `GreaterThan`, `GreaterThanOrEqual`, `Equal`, `NotEqual`) and its `value`.",
    },
    Parameter {
        plugins: &["label-selector-filter"],
        name: "matchLabels",
        default: Some("{}"),
        summary: "Labels that an endpoint has, each with its value.",
    },
    Parameter {
        plugins: &["label-selector-filter"],
        name: "matchExpressions",
        default: Some("[]"),
        summary: "Requirements beside them, each with a `key`, an `operator` (`In`, `NotIn`, `Exists`, `DoesNotExist`) and `values`.",
    },
    Parameter {
        plugins: &["prefix-cache-affinity-filter"],
        name: "affinityThreshold",
        default: Some("0.8"),
        summary: "Share of the prompt that an endpoint must have in its cache, at most 1; 0 or less switches the filter off.",
    },
    Parameter {
        plugins: &["prefix-cache-affinity-filter"],
        name: "explorationProbability",
        default: Some("0.0"),
        summary: "Probability that all are kept, 0 to 1.",
    },
    Parameter {
        plugins: &["prefix-cache-affinity-filter"],
        name: "maxTTFTPenaltyMs",
        default: Some("18000.0"),
        summary: "Milliseconds that affinity may cost, 0 or more; 0 lets it cost what it will.",
    },
    Parameter {
        plugins: &["prefix-cache-affinity-filter"],
        name: "ttftSource",
        default: Some("\"prefillThroughput\""),
        summary: "What tells when an endpoint would begin: `prefillThroughput`; `latencyPredictor` is not supported yet.",
    },
    Parameter {
        plugins: &["prefix-cache-affinity-filter"],
        name: "peakPrefillThroughput",
        default: Some("15928.0"),
        summary: "Prompt tokens that an endpoint computes in a second, more than 0.",
    },
    Parameter {
        plugins: &["prefix-cache-affinity-filter"],
        name: "prefixMatchInfoProducerName",
        default: Some("null"),
        summary: "Name of the producer to ask; the listed one when absent.",
    },
    Parameter {
        plugins: &["prefix-cache-affinity-filter"],
        name: "inFlightLoadProducerName",
        default: Some("null"),
        summary: "Name of the producer that counts tokens in flight; there is one count.",
    },
    Parameter {
        plugins: &["prefix-cache-affinity-filter"],
        name: "latencyPredictionInfoProducerName",
        default: Some("null"),
        summary: "No effect yet: name of the producer that predicts latency.",
    },
    Parameter {
        plugins: SESSIONS,
        name: "strategy",
        default: Some("\"encoded_endpoint_header\""),
        summary: "What tells the endpoint of a session: `encoded_endpoint_header`, a header that answers carry and the client sends back, or `session_id`, this replica's memory of the session that the client names.",
    },
    Parameter {
        plugins: SESSIONS,
        name: "profileName",
        default: Some("null"),
        summary: "Name of the profile that lists it: a request runs one profile.",
    },
    Parameter {
        plugins: SESSIONS,
        name: "encodedEndpointHeaderConfig",
        default: Some("{\"header\": \"x-session-token\"}"),
        summary: "The `header` of the one strategy; its value is base64 of `namespace/name`.",
    },
    Parameter {
        plugins: SESSIONS,
        name: "sessionIdConfig",
        default: Some(
            "{\"sources\": [{\"header\": \"x-session-id\"}], \"evictionTtlSeconds\": 300, \"evictionSweepSeconds\": 10}",
        ),
        summary: "`sources` of the other, each a `header`, or `attribute: SessionID` of the `producer` `session-id-producer`, of which the first that is not blank names the session; `evictionTtlSeconds` after which an unused session is forgotten; `evictionSweepSeconds` has no effect.",
    },
    Parameter {
        plugins: &["utilization-filter"],
        name: "conditions",
        default: None,
        summary: "At least one, each with a `metric` (`active-requests`, `running-requests`, `waiting-queue`, `kv-cache-utilization`) and its `maxValue`, 0 or more, at most 1 for the KV cache.",
    },
    Parameter {
        plugins: &["utilization-filter"],
        name: "fallbackOnEmpty",
        default: Some("false"),
        summary: "Whether all are kept where none meets the conditions.",
    },
    Parameter {
        plugins: &["utilization-filter"],
        name: "inFlightLoadProducerName",
        default: Some("null"),
        summary: "Name of the producer that counts active requests; there is one count.",
    },
];
