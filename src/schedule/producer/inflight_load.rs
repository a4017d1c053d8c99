//! Settings of the count of what this process has in flight. It is always kept; nothing has to list it.

use serde::Deserialize;
use serde_json::Value;

use crate::schedule::Needs;
use crate::schedule::facts::OutputEstimate;
use crate::schedule::producer::{Producer, Product, at_least};
use crate::schedule::registry::{BadParameters, Build, Plugin, parameters};

/// Tokens to be generated for each of the prompt unless configured; the reference's.
const OUTPUT_RATIO: f64 = 1.5;

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
        let ratio = self.output_ratio.unwrap_or(OUTPUT_RATIO);
        if !(ratio.is_finite() && ratio >= 0.0) {
            return Err(BadParameters(format!("outputRatio is {ratio}, give 0 or more")));
        }
        let most = self.max_estimated_output_tokens;
        let most = most.map(|most| at_least("maxEstimatedOutputTokens", most, 0)).transpose()?;
        let estimate = self.add_estimated_output_tokens.then_some(OutputEstimate { ratio, most });
        let idle = |given: bool| given && estimate.is_none();
        let mut warnings = Vec::new();
        for (name, idle) in [
            ("outputRatio", idle(self.output_ratio.is_some())),
            ("maxEstimatedOutputTokens", idle(most.is_some())),
        ] {
            let message = || format!("{name} has no effect without addEstimatedOutputTokens: true");
            warnings.extend(idle.then(message));
        }
        if self.prefix_match_info_producer_name.is_some() {
            let message = "prefixMatchInfoProducerName has no effect: there is one index";
            warnings.push(message.to_owned());
        }
        Ok(Producer { product: Product::InFlight(estimate), warnings })
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
    fn output_counts_by_its_estimate_where_it_is_to_be_added() {
        let estimate = |raw| {
            let Product::InFlight(estimate) = produced(raw).unwrap().product else {
                panic!("another product")
            };
            estimate.map(|it| (it.ratio, it.most))
        };
        assert_eq!(estimate(json!({})), None);
        assert_eq!(estimate(json!({"addEstimatedOutputTokens": true})), Some((1.5, None)));
        let bounded = json!({"addEstimatedOutputTokens": true, "outputRatio": 2, "maxEstimatedOutputTokens": 10});
        assert_eq!(estimate(bounded), Some((2.0, Some(10))));
    }

    #[test]
    fn parameters_are_checked_and_those_without_effect_are_told() {
        let all = json!({"addEstimatedOutputTokens": true, "outputRatio": 2, "maxEstimatedOutputTokens": 10,
                         "prefixMatchInfoProducerName": "a", "syncCrossReplicaState": false});
        assert_eq!(produced(all).unwrap().warnings.len(), 1);
        let idle = json!({"outputRatio": 2, "maxEstimatedOutputTokens": 10});
        assert_eq!(produced(idle).unwrap().warnings.len(), 2);
        assert!(produced(json!({})).unwrap().warnings.is_empty());
        for raw in [json!({"outputRatio": -1}), json!({"maxEstimatedOutputTokens": -1})] {
            assert!(produced(raw).unwrap_err().0.ends_with("give 0 or more"));
        }
    }
}
