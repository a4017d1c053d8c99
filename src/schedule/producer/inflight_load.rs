//! Settings of the count of what this process has in flight. It is always kept; nothing has to list it.

use serde::Deserialize;
use serde_json::Value;

use crate::schedule::Needs;
use crate::schedule::producer::{Producer, Product, at_least};
use crate::schedule::registry::{BadParameters, Build, Plugin, parameters};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "inflight-load-producer",
    summary: "Counts what this picker has in flight on each endpoint.",
    needs: Needs::NONE,
    build: Build::Producer(|raw| parameters::<InflightLoad>(raw)?.producer()),
};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct InflightLoad {
    /// Whether tokens to be generated are counted as well; default false.
    add_estimated_output_tokens: bool,
    /// Tokens to be generated for each of the prompt, 0 or more; default 1.5.
    output_ratio: Option<f64>,
    /// The most that are counted, 0 or more; no limit when absent.
    max_estimated_output_tokens: Option<i64>,
    /// Name of the producer whose index tells what need not be computed; default the approximate one.
    prefix_match_info_producer_name: Option<String>,
    /// Whether sibling replicas are told; default true, without effect while there is no channel to them.
    #[serde(rename = "syncCrossReplicaState")]
    _sync: Option<Value>,
}

impl InflightLoad {
    fn producer(self) -> Result<Producer, BadParameters> {
        if let Some(ratio) = self.output_ratio.filter(|ratio| *ratio < 0.0) {
            return Err(BadParameters(format!("outputRatio is {ratio}, give 0 or more")));
        }
        if let Some(most) = self.max_estimated_output_tokens {
            at_least("maxEstimatedOutputTokens", most, 0)?;
        }
        let mut warnings = Vec::new();
        if self.add_estimated_output_tokens {
            let message = "addEstimatedOutputTokens has no effect yet: prompt tokens are counted";
            warnings.push(message.to_owned());
        }
        if self.prefix_match_info_producer_name.is_some() {
            let message = "prefixMatchInfoProducerName has no effect: there is one index";
            warnings.push(message.to_owned());
        }
        Ok(Producer { product: Product::InFlight, warnings })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn produced(raw: Value) -> Result<Producer, BadParameters> {
        parameters::<InflightLoad>(raw)?.producer()
    }

    #[test]
    fn parameters_are_checked_though_the_count_is_always_the_same() {
        let all = json!({"addEstimatedOutputTokens": true, "outputRatio": 2, "maxEstimatedOutputTokens": 10,
                         "prefixMatchInfoProducerName": "a", "syncCrossReplicaState": false});
        assert_eq!(produced(all).unwrap().warnings.len(), 2);
        assert!(produced(json!({})).unwrap().warnings.is_empty());
        for raw in [json!({"outputRatio": -1}), json!({"maxEstimatedOutputTokens": -1})] {
            assert!(produced(raw).unwrap_err().0.ends_with("give 0 or more"));
        }
    }
}
