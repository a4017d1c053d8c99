//! What plugins take, for the manual and for configurations that are written out.
//!
//! The plugins themselves read their parameters; tests hold this table against what they accept and what they do
//! without.

use serde_json::Value;

mod filters;
mod scorers;

/// One parameter of plugin types.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The types that take it.
    pub plugins: &'static [&'static str],
    /// Its name.
    pub name: &'static str,
    /// What its absence means, as JSON, null where the summary says it; none where it must be given.
    pub default: Option<&'static str>,
    /// One sentence for the manual.
    pub summary: &'static str,
}

/// Pickers of several endpoints.
const PICKERS: &[&str] = &["max-score-picker", "random-picker", "weighted-random-picker"];

/// Sources that are a page of each endpoint.
const PAGES: &[&str] = &["metrics-data-source", "models-data-source"];

/// Parameters by type, but for those of filters and scorers, in the order in which the type has them.
static PARAMETERS: &[Parameter] = &[
    Parameter {
        plugins: &["agent-identity"],
        name: "additionalSessionHeaders",
        default: Some("[]"),
        summary: "Headers to look for before the known ones, in any case.",
    },
    Parameter {
        plugins: &["approx-prefix-cache-producer"],
        name: "autoTune",
        default: Some("true"),
        summary: "Whether the size of an endpoint's own cache counts where it is known.",
    },
    Parameter {
        plugins: &["approx-prefix-cache-producer"],
        name: "blockSizeTokens",
        default: Some("16"),
        summary: "Tokens of a block, 1 or more; fewer than 64 are taken for 64.",
    },
    Parameter {
        plugins: &["approx-prefix-cache-producer"],
        name: "maxPrefixTokensToMatch",
        default: Some("131072"),
        summary: "Tokens of a prompt that are looked at; 0 leaves it to `maxPrefixBlocksToMatch`.",
    },
    Parameter {
        plugins: &["approx-prefix-cache-producer"],
        name: "maxPrefixBlocksToMatch",
        default: Some("2048"),
        summary: "Blocks of a prompt that are looked at, without a limit of tokens; 0 is no limit.",
    },
    Parameter {
        plugins: &["approx-prefix-cache-producer"],
        name: "lruCapacityPerServer",
        default: Some("31250"),
        summary: "Blocks of `blockSizeTokens` that an endpoint caches where its own size does not count.",
    },
    Parameter {
        plugins: &["concurrency-detector"],
        name: "concurrencyMode",
        default: Some("\"requests\""),
        summary: "What counts: `requests`, `tokens` (of prompts still to be computed) or `hybrid`, the greater share.",
    },
    Parameter {
        plugins: &["concurrency-detector"],
        name: "maxConcurrency",
        default: Some("100"),
        summary: "Requests in flight on a full endpoint, more than 0.",
    },
    Parameter {
        plugins: &["concurrency-detector"],
        name: "maxTokenConcurrency",
        default: Some("1000000"),
        summary: "Tokens in flight on a full endpoint, more than 0.",
    },
    Parameter {
        plugins: &["concurrency-detector"],
        name: "headroom",
        default: Some("0.0"),
        summary: "As a filter, keeps endpoints that are less full than 1 + `headroom`; 0 or more.",
    },
    Parameter {
        plugins: &["concurrency-detector"],
        name: "inFlightLoadProducerName",
        default: Some("null"),
        summary: "Name of the producer that counts; there is one count.",
    },
    Parameter {
        plugins: &["core-metrics-extractor"],
        name: "engineLabelKey",
        default: Some("null"),
        summary: "Label of an endpoint that names its engine; `llm-d.ai/engine-type` when absent.",
    },
    Parameter {
        plugins: &["core-metrics-extractor"],
        name: "defaultEngine",
        default: Some("null"),
        summary: "Engine of an endpoint without that label; its metrics page tells when absent.",
    },
    Parameter {
        plugins: &["core-metrics-extractor"],
        name: "engineConfigs",
        default: Some("[]"),
        summary: "Engines, each with a `name` and the metrics to read, in place of the known one of that name; `customMetrics` are up to 16 more, `attributeKey` and `metricSpec` each, for `endpoint-attribute-scorer`.",
    },
    Parameter {
        plugins: &["data-parallel-profile-handler"],
        name: "primaryPort",
        default: Some("8000"),
        summary: "Port of the side car, 0 to 65535; 0 leaves the destination as it was chosen.",
    },
    Parameter {
        plugins: &["file-discovery"],
        name: "path",
        default: None,
        summary: "The file with the endpoints.",
    },
    Parameter {
        plugins: &["file-discovery"],
        name: "watchFile",
        default: Some("false"),
        summary: "Whether changes of the file are followed.",
    },
    Parameter {
        plugins: &["header-profile-handler"],
        name: "headerName",
        default: Some("\"EPP-Profile\""),
        summary: "Header that names the profile, in any case.",
    },
    Parameter {
        plugins: &["header-profile-handler"],
        name: "defaultProfile",
        default: Some("\"decode\""),
        summary: "Profile of requests without it.",
    },
    Parameter {
        plugins: &["inflight-load-producer"],
        name: "addEstimatedOutputTokens",
        default: Some("false"),
        summary: "Whether tokens to be generated count as load of an endpoint as well.",
    },
    Parameter {
        plugins: &["inflight-load-producer"],
        name: "outputRatio",
        default: Some("null"),
        summary: "Tokens to be generated for each of the prompt, 0 or more; 1.5 when absent.",
    },
    Parameter {
        plugins: &["inflight-load-producer"],
        name: "maxEstimatedOutputTokens",
        default: Some("null"),
        summary: "The most tokens to be generated that are counted, 0 or more; no limit but the client's when absent.",
    },
    Parameter {
        plugins: &["inflight-load-producer"],
        name: "prefixMatchInfoProducerName",
        default: Some("null"),
        summary: "No effect: there is one prefix index.",
    },
    Parameter {
        plugins: &["inflight-load-producer"],
        name: "syncCrossReplicaState",
        default: Some("null"),
        summary: "No effect yet: whether sibling replicas are told.",
    },
    Parameter {
        plugins: PAGES,
        name: "scheme",
        default: Some("\"http\""),
        summary: "`http` or `https`.",
    },
    Parameter {
        plugins: PAGES,
        name: "path",
        default: Some("null"),
        summary: "Path of the page; `/metrics` or `/v1/models` when absent.",
    },
    Parameter {
        plugins: PAGES,
        name: "port",
        default: Some("null"),
        summary: "Its port; the endpoint's own when absent.",
    },
    Parameter {
        plugins: PAGES,
        name: "insecureSkipVerify",
        default: Some("null"),
        summary: "Whether certificates are left unverified; true when absent, false with a CA.",
    },
    Parameter {
        plugins: PAGES,
        name: "caCertPath",
        default: Some("null"),
        summary: "PEM file of the authorities to trust; the system's when absent.",
    },
    Parameter {
        plugins: PAGES,
        name: "clientCertPath",
        default: Some("null"),
        summary: "PEM file of our own certificate.",
    },
    Parameter {
        plugins: PAGES,
        name: "clientKeyPath",
        default: Some("null"),
        summary: "PEM file of its key.",
    },
    Parameter {
        plugins: PAGES,
        name: "interval",
        default: Some("null"),
        summary: "Time between two readings, at least 50ms; adaptive when absent.",
    },
    Parameter {
        plugins: PICKERS,
        name: "maxNumOfEndpoints",
        default: Some("1"),
        summary: "Endpoints to choose, best first; 0 or less is 1. More than one is told to the gateway with `lodesman.destinationList: multi`.",
    },
    Parameter {
        plugins: &["mm-embeddings-cache-producer"],
        name: "cacheSizeInMBPerServer",
        default: Some("4096"),
        summary: "Megabytes of the cache of an endpoint's encoder, 2 for each medium.",
    },
    Parameter {
        plugins: &["probabilistic-admitter"],
        name: "queueDepthThreshold",
        default: Some("5.0"),
        summary: "Waiting requests of an endpoint whose load is 1, more than 0.",
    },
    Parameter {
        plugins: &["probabilistic-admitter"],
        name: "kvCacheUtilThreshold",
        default: Some("0.8"),
        summary: "Used share of the KV cache of an endpoint whose load is 1, more than 0.",
    },
    Parameter {
        plugins: &["probabilistic-admitter"],
        name: "power",
        default: Some("5.0"),
        summary: "How steeply the probability grows, more than 0.",
    },
    Parameter {
        plugins: &["probabilistic-admitter"],
        name: "k",
        default: Some("300.0"),
        summary: "The factor of the probability, which is 1 at most; more than 0.",
    },
    Parameter {
        plugins: &["session-id-producer"],
        name: "headerName",
        default: Some("null"),
        summary: "The header with the id of the session; this or the cookie.",
    },
    Parameter {
        plugins: &["session-id-producer"],
        name: "cookieName",
        default: Some("null"),
        summary: "The cookie with the id of the session; this or the header.",
    },
    Parameter {
        plugins: &["token-producer"],
        name: "estimate",
        default: Some("null"),
        summary: "No effect: media cost what the defaults say.",
    },
    Parameter {
        plugins: &["token-producer"],
        name: "vllm",
        default: Some("null"),
        summary: "Not supported yet: a tokenizer service.",
    },
    Parameter {
        plugins: &["token-producer"],
        name: "modelName",
        default: Some("null"),
        summary: "Not supported yet: the model that it tokenizes for.",
    },
    Parameter {
        plugins: &["token-producer"],
        name: "udsTokenizerConfig",
        default: Some("null"),
        summary: "Not supported yet: a tokenizer behind a Unix socket.",
    },
    Parameter {
        plugins: &["utilization-detector"],
        name: "queueDepthThreshold",
        default: Some("5"),
        summary: "Waiting requests of a full endpoint, more than 0.",
    },
    Parameter {
        plugins: &["utilization-detector"],
        name: "kvCacheUtilThreshold",
        default: Some("0.8"),
        summary: "Used share of the KV cache of a full endpoint, more than 0 and at most 1.",
    },
    Parameter {
        plugins: &["utilization-detector"],
        name: "metricsStalenessThreshold",
        default: Some("null"),
        summary: "Age from which metrics are stale, at least four scrape intervals; `--metrics-staleness-threshold` holds too.",
    },
    Parameter {
        plugins: &["utilization-detector"],
        name: "headroom",
        default: Some("0.0"),
        summary: "As a filter, keeps endpoints that are less full than 1 + `headroom`; 0 or more.",
    },
];

impl Parameter {
    /// What its absence means; none where it must be given.
    pub fn default(&self) -> Option<Value> {
        self.default.and_then(|default| serde_json::from_str(default).ok())
    }
}

/// The parameters of a type.
pub fn of(plugin: &str) -> impl Iterator<Item = &'static Parameter> {
    all().filter(move |parameter| parameter.plugins.contains(&plugin))
}

fn all() -> impl Iterator<Item = &'static Parameter> {
    PARAMETERS.iter().chain(filters::PARAMETERS).chain(scorers::PARAMETERS)
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use serde_json::json;

    use super::*;
    use crate::config::{FileDiscovery, sources};
    use crate::schedule::fixture;
    use crate::schedule::registry::{Build, PLUGINS, Parameters, Plugin, parameters};

    /// What a plugin is, built with `raw`, or why it is not.
    fn built(plugin: &Plugin, raw: Parameters) -> Result<String, String> {
        fn shown(built: Result<impl Debug, impl ToString>) -> Result<String, String> {
            built.map(|plugin| format!("{plugin:?}")).map_err(|error| error.to_string())
        }
        match plugin.build {
            Build::Filter(build, _) => shown(build(raw)),
            Build::Scorer(build) => shown(build(raw)),
            Build::Both(build, _) => shown(build(raw)),
            Build::Picker(build) => shown(build(raw)),
            Build::Detector(build, _) => shown(build(raw)),
            Build::Admitter(build) => shown(build(raw)),
            Build::Producer(build) => shown(build(raw)),
            Build::Handler(build) => shown(build(raw)),
            Build::ServedVerifier | Build::Parser => Ok(String::new()),
        }
    }

    /// What a source is, read with `raw`, or why it is not.
    fn source(type_name: &str, raw: Parameters) -> Result<sources::Source, String> {
        sources::Source::read(type_name, raw).unwrap().map_err(|error| error.to_string())
    }

    /// The parameters of a type with what their absence means.
    fn written(type_name: &str) -> Parameters {
        let given = of(type_name).filter_map(|p| Some((p.name.to_owned(), p.default()?)));
        given.collect::<serde_json::Map<_, _>>().into()
    }

    /// The names that the refusal of an unknown parameter tells.
    fn accepted(refusal: &str) -> Vec<String> {
        let names = refusal.split("expected").nth(1).unwrap_or_default().split('`');
        names.skip(1).step_by(2).map(str::to_owned).collect()
    }

    fn documented(plugin: &str) -> Vec<String> {
        of(plugin).map(|parameter| parameter.name.to_owned()).collect()
    }

    #[test]
    fn every_parameter_that_a_plugin_takes_is_in_the_table_and_no_other() {
        for plugin in PLUGINS {
            let Err(refusal) = built(plugin, json!({"nonsense": 1})) else { continue };
            assert_eq!(documented(plugin.name), accepted(&refusal), "{}", plugin.name);
        }
        for (name, _) in sources::TYPES {
            let refusal = source(name, json!({"nonsense": 1})).unwrap_err();
            assert_eq!(documented(name), accepted(&refusal), "{name}");
        }
        let refusal = parameters::<FileDiscovery>(json!({"nonsense": 1})).unwrap_err().to_string();
        assert_eq!(documented("file-discovery"), accepted(&refusal));
    }

    /// Those that say whom a plugin asks, which is found out when all are known, and those that count in place of another.
    const ELSEWHERE: &[&str] = &[
        "producer",
        "producerName",
        "profileName",
        "prefixMatchInfoProducerName",
        "inFlightLoadProducerName",
        "maxPrefixBlocksToMatch",
        "cookieName",
    ];

    /// Values of which every parameter takes one besides its default.
    fn others() -> Vec<Value> {
        let words = ["x-a", "5s", "tokens", "prefix", "queue"].map(Value::from);
        let numbers = [json!(1), json!(2), json!(0.5), json!(128)];
        let more = [
            json!(true),
            json!(false),
            json!("Fail"),
            json!("session_id"),
            json!(["x-a"]),
            json!({"a": "b"}),
            json!([{"key": "a", "operator": "Exists"}]),
            json!([{"metric": "waiting-queue", "maxValue": 5}]),
            json!({"type": "linear_higher_is_better"}),
            json!({"type": "threshold", "threshold": {"operator": "LessThan", "value": 5}}),
        ];
        words.into_iter().chain(numbers).chain(more).collect()
    }

    /// Parameters with one more.
    fn with(raw: &Value, name: &str, value: Value) -> Value {
        let mut raw = raw.as_object().cloned().unwrap_or_default();
        raw.insert(name.to_owned(), value);
        raw.into()
    }

    // FR-128
    #[test]
    fn every_parameter_changes_its_plugin_or_says_that_it_has_no_effect() {
        let mut idle = Vec::new();
        for plugin in PLUGINS {
            let needed = fixture::required(plugin.name);
            let usual = built(plugin, needed.clone()).unwrap();
            let changes = |parameter: &&Parameter| {
                let with = |other| built(plugin, with(&needed, parameter.name, other));
                others().into_iter().any(|other| with(other).is_ok_and(|built| built != usual))
            };
            let still = of(plugin.name).filter(|parameter| !changes(parameter));
            let known = |it: &Parameter| {
                ELSEWHERE.contains(&it.name)
                    || ["o effect", "upported"].iter().any(|word| it.summary.contains(word))
            };
            let silent = still.filter(|parameter| !known(parameter));
            idle.extend(silent.map(|parameter| format!("{} {}", plugin.name, parameter.name)));
        }
        assert_eq!(idle, [""; 0]);
    }

    // FR-070
    #[test]
    fn the_defaults_in_the_table_are_those_of_the_plugins() {
        for plugin in PLUGINS {
            let (absent, given) = (built(plugin, Value::Null), built(plugin, written(plugin.name)));
            assert_eq!(absent, given, "{}", plugin.name);
        }
        for (name, _) in sources::TYPES {
            assert_eq!(source(name, Value::Null), source(name, written(name)), "{name}");
        }
        assert!(all().all(|p| p.default.is_some() == p.default().is_some()), "JSON");
    }
}
