//! Keeps the endpoints of which one number of their metrics pages passes a threshold.
//!
//! Kept is an endpoint with `value operator threshold`, such as `3 LessThan 5`. Where the value is stale or unknown,
//! `onMissing` says whether it passes. (The reference takes a stale value for fresh.) Where nobody passes, none is kept:
//! 429; or all with `fallbackOnEmpty`.

use serde::Deserialize;

use crate::pool::{Reading, Slot};
use crate::schedule::registry::{BadParameters, Build, Empty, Plugin, parameters};
use crate::schedule::{Filter, Needs, PickContext};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "endpoint-attribute-filter",
    summary: "Keeps the endpoints of which a metric, one of `customMetrics` or such as `WaitingQueueSize`, passes a \
              threshold. Where none does: 429, or all with `fallbackOnEmpty`.",
    needs: Needs::NONE,
    build: Build::Filter(
        |raw| Ok(Box::new(parameters::<EndpointAttribute>(raw)?.checked()?)),
        Empty::Load,
    ),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct EndpointAttribute {
    /// The number's name.
    attribute: String,
    /// Whose number it is; the configuration checks it. Default `core-metrics-extractor`, empty for anybody's.
    #[serde(default, rename = "producer")]
    _producer: Option<String>,
    /// Whether an endpoint passes of which the number is not known; default that it does.
    #[serde(default)]
    on_missing: OnMissing,
    /// Whether all are kept where none passes; default false.
    #[serde(default)]
    fallback_on_empty: bool,
    algorithm: Algorithm,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
enum OnMissing {
    #[default]
    Pass,
    Fail,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Algorithm {
    #[serde(rename = "type")]
    _kind: Kind,
    threshold: Threshold,
}

/// There is one.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Threshold,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Threshold {
    operator: Operator,
    value: f32,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum Operator {
    LessThan,
    LessThanOrEqual,
    GreaterThan,
    GreaterThanOrEqual,
    Equal,
    NotEqual,
}

impl EndpointAttribute {
    fn checked(self) -> Result<Self, BadParameters> {
        let refused = |message: &str| Err(BadParameters(message.to_owned()));
        if self.attribute.is_empty() {
            return refused("attribute is empty, give the name of a metric");
        }
        if self.attribute.contains('/') {
            return refused("attribute holds a `/`, give what is after it as producer");
        }
        Ok(self)
    }
}

impl Threshold {
    #[expect(clippy::float_cmp, reason = "to be equal is what is asked for")]
    fn passes(self, value: f32) -> bool {
        match self.operator {
            Operator::LessThan => value < self.value,
            Operator::LessThanOrEqual => value <= self.value,
            Operator::GreaterThan => value > self.value,
            Operator::GreaterThanOrEqual => value >= self.value,
            Operator::Equal => value == self.value,
            Operator::NotEqual => value != self.value,
        }
    }
}

impl Filter for EndpointAttribute {
    fn filter(&self, cx: PickContext<'_>, candidates: &mut Vec<Slot>) {
        let passes = |slot: &Slot| match cx.snapshot.attribute(*slot, &self.attribute, cx.now) {
            Reading::Fresh(value) => self.algorithm.threshold.passes(value),
            Reading::Stale | Reading::Unknown => self.on_missing == OnMissing::Pass,
        };
        if !self.fallback_on_empty || candidates.iter().any(passes) {
            candidates.retain(passes);
        }
    }

    fn reason(&self, cx: PickContext<'_>, slot: Slot) -> Option<String> {
        let Self { attribute, algorithm: Algorithm { threshold, .. }, .. } = self;
        let Threshold { operator, value: limit } = threshold;
        Some(match cx.snapshot.attribute(slot, attribute, cx.now) {
            Reading::Fresh(value) => {
                format!("its {attribute} is {value}, not {operator:?} {limit}")
            }
            Reading::Stale | Reading::Unknown => format!("its {attribute} is not known"),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;
    use crate::pool::Sample;
    use crate::schedule::fixture;
    use crate::server::clock;

    fn filter(raw: Value) -> Result<EndpointAttribute, String> {
        let read = parameters::<EndpointAttribute>(raw).and_then(EndpointAttribute::checked);
        read.map_err(|error| error.0)
    }

    fn asked(attribute: &str, operator: &str, value: f64) -> Value {
        let threshold = json!({"operator": operator, "value": value});
        json!({"attribute": attribute, "algorithm": {"type": "threshold", "threshold": threshold}})
    }

    /// Positions that are kept, a while after these depths were read.
    fn kept(raw: Value, depths: &[Option<f32>], age: Duration) -> Vec<usize> {
        let sample = |depth: f32| Sample {
            attributes: [("depth".into(), depth)].into_iter().collect(),
            waiting: Some(depth),
            ..Sample::default()
        };
        let read = clock::now();
        let samples: Vec<_> = depths.iter().map(|depth| depth.map(sample)).collect();
        let snapshot = fixture::sampled(&samples, read);
        let asked = fixture::Asked::of(&snapshot);
        fixture::kept_for(&filter(raw).unwrap(), asked.cx(read + age))
    }

    const NOW: Duration = Duration::ZERO;
    const LATER: Duration = Duration::from_mins(1);

    #[test]
    fn each_operator_compares_the_value_with_the_threshold() {
        let depths = [Some(1.0), Some(2.0), Some(3.0)];
        for (operator, expected) in [
            ("LessThan", vec![0]),
            ("LessThanOrEqual", vec![0, 1]),
            ("GreaterThan", vec![2]),
            ("GreaterThanOrEqual", vec![1, 2]),
            ("Equal", vec![1]),
            ("NotEqual", vec![0, 2]),
        ] {
            assert_eq!(kept(asked("depth", operator, 2.0), &depths, NOW), expected, "{operator}");
        }
        assert_eq!(kept(asked("WaitingQueueSize", "LessThan", 2.0), &depths, NOW), [0]);
    }

    #[test]
    fn what_is_not_known_passes_unless_it_is_told_to_fail() {
        let mut raw = asked("depth", "LessThan", 2.0);
        assert_eq!(kept(raw.clone(), &[Some(1.0), None, Some(3.0)], NOW), [0, 1]);
        assert_eq!(kept(raw.clone(), &[Some(1.0), Some(3.0)], LATER), [0, 1]);
        raw["onMissing"] = json!("Fail");
        assert_eq!(kept(raw.clone(), &[Some(1.0), None, Some(3.0)], NOW), [0]);
        assert_eq!(kept(raw, &[Some(1.0)], LATER), Vec::<usize>::new());
    }

    #[test]
    fn where_nobody_passes_none_is_kept_or_all() {
        let mut raw = asked("depth", "GreaterThan", 2.0);
        assert!(kept(raw.clone(), &[Some(1.0); 1000], NOW).is_empty());
        raw["fallbackOnEmpty"] = json!(true);
        assert_eq!(kept(raw, &[Some(1.0), Some(2.0)], NOW), [0, 1]);
    }

    #[test]
    fn what_is_no_comparison_is_refused_by_name() {
        let mut shape = asked("depth", "LessThan", 1.0);
        shape["algorithm"]["type"] = json!("curve");
        for (raw, want) in [
            (json!({}), "missing field `attribute`"),
            (json!({"attribute": "depth"}), "missing field `algorithm`"),
            (asked("", "LessThan", 1.0), "attribute is empty"),
            (asked("depth/core-metrics-extractor", "LessThan", 1.0), "as producer"),
            (asked("depth", "Below", 1.0), "unknown variant `Below`"),
            (shape, "unknown variant `curve`"),
        ] {
            let error = filter(raw).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }
}
