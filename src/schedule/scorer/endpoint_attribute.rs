//! Prefers endpoints by one number of their metrics pages.
//!
//! `score = (value - min) / (max - min)`, clamped to 0.0 ..= 1.0, for `linear_higher_is_better`, and 1 less that for
//! `linear_lower_is_better`. The range is that of the candidates (`adaptiveRange`; all equal score 1.0) or a fixed one
//! (`fixedRange`). A stale or unknown value is taken to be the median of the known ones; when none is known all are
//! equal. (The reference scores an endpoint without the value 0, and one with a stale value as if it were fresh.)

use serde::Deserialize;

use crate::pool::Slot;
use crate::schedule::readings::{fill, lower_is_better};
use crate::schedule::registry::{BadParameters, Build, Plugin, parameters};
use crate::schedule::{Needs, PickContext, Scorer};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "endpoint-attribute-scorer",
    summary: "Prefers endpoints with a low or a high value of a metric, one of `customMetrics` or such as `WaitingQueueSize`.",
    needs: Needs::NONE,
    build: Build::Scorer(|raw| Ok(Box::new(parameters::<Parameters>(raw)?.scorer()?))),
};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Parameters {
    /// The number's name; required.
    attribute_key: String,
    /// Whose number it is; the configuration checks it. Default `core-metrics-extractor`.
    #[serde(rename = "producer")]
    _producer: Option<String>,
    /// How it is made a score; required.
    algorithm: Option<Algorithm>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Algorithm {
    #[serde(rename = "type")]
    direction: Direction,
    #[serde(default)]
    normalization: Normalization,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Direction {
    LinearLowerIsBetter,
    LinearHigherIsBetter,
}

/// At most one of the two; none is adaptive.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Normalization {
    fixed_range: Option<Range>,
    adaptive_range: Option<Nothing>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    min: f32,
    max: f32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl Parameters {
    fn scorer(self) -> Result<EndpointAttribute, BadParameters> {
        let refused = |message: &str| Err(BadParameters(message.to_owned()));
        if self.attribute_key.is_empty() {
            return refused("attributeKey is missing, give the name of a metric");
        }
        if self.attribute_key.contains('/') {
            return refused("attributeKey holds a `/`, give what is before it as producer");
        }
        let Some(Algorithm { direction, normalization }) = self.algorithm else {
            return refused(
                "algorithm is missing, give a type: linear_lower_is_better or linear_higher_is_better",
            );
        };
        let Normalization { fixed_range, adaptive_range } = normalization;
        if fixed_range.is_some() && adaptive_range.is_some() {
            return refused(
                "algorithm.normalization has two ranges, give fixedRange or adaptiveRange",
            );
        }
        if let Some(Range { min, max }) = fixed_range
            && !(min < max && (max - min).is_finite())
        {
            return Err(BadParameters(format!(
                "algorithm.normalization.fixedRange is {min} to {max}, give a min below max"
            )));
        }
        Ok(EndpointAttribute { key: self.attribute_key, direction, range: fixed_range })
    }
}

#[derive(Debug)]
struct EndpointAttribute {
    key: String,
    direction: Direction,
    /// None for that of the candidates.
    range: Option<Range>,
}

impl Scorer for EndpointAttribute {
    fn score(&self, cx: PickContext<'_>, candidates: &[Slot], scores: &mut [f32]) {
        let read = |slot, now| cx.snapshot.attribute(slot, &self.key, now);
        fill(cx, candidates, scores, read, |_| None);
        let higher = self.direction == Direction::LinearHigherIsBetter;
        let Some(Range { min, max }) = self.range else {
            let sign = if higher { -1.0 } else { 1.0 };
            for value in &mut *scores {
                *value *= sign;
            }
            return lower_is_better(scores);
        };
        for value in scores {
            let share = ((*value - min) / (max - min)).clamp(0.0, 1.0);
            *value = if higher { share } else { 1.0 - share };
        }
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

    const LOWER: &str = "linear_lower_is_better";
    const HIGHER: &str = "linear_higher_is_better";

    fn scores(direction: &str, range: &Value, depths: &[Option<f32>], age: Duration) -> Vec<f32> {
        let raw = json!({"attributeKey": "depth",
                         "algorithm": {"type": direction, "normalization": range}});
        let scorer = parameters::<Parameters>(raw).unwrap().scorer().unwrap();
        let read = clock::now();
        let sample = |depth: &Option<f32>| {
            depth.map(|depth| Sample {
                attributes: [("depth".into(), depth)].into_iter().collect(),
                ..Sample::default()
            })
        };
        let snapshot = fixture::sampled(&depths.iter().map(sample).collect::<Vec<_>>(), read);
        let (asked, mut rated) = (fixture::Asked::of(&snapshot), vec![0.0; depths.len()]);
        scorer.score(asked.cx(read + age), snapshot.ready(), &mut rated);
        rated
    }

    #[test]
    fn the_range_of_the_candidates_is_the_range_unless_one_is_given() {
        let depths = [Some(-10.0), Some(0.0), Some(30.0)];
        let (adaptive, now) = (json!({}), Duration::ZERO);
        assert_eq!(scores(LOWER, &adaptive, &depths, now), [1.0, 0.75, 0.0]);
        assert_eq!(scores(HIGHER, &json!({"adaptiveRange": {}}), &depths, now), [0.0, 0.25, 1.0]);
        let fixed = json!({"fixedRange": {"min": 0, "max": 40}});
        assert_eq!(scores(LOWER, &fixed, &depths, now), [1.0, 1.0, 0.25]);
        assert_eq!(scores(HIGHER, &fixed, &depths, now), [0.0, 0.0, 0.75]);
    }

    #[test]
    fn equal_ones_and_a_single_one_score_one() {
        for direction in [LOWER, HIGHER] {
            assert_eq!(scores(direction, &json!({}), &[Some(7.0)], Duration::ZERO), [1.0]);
            assert_eq!(scores(direction, &json!({}), &[Some(7.0); 2], Duration::ZERO), [1.0; 2]);
        }
    }

    #[test]
    fn what_is_not_known_is_the_median_and_what_is_stale_tells_nothing_apart() {
        let depths = [Some(0.0), None, Some(1.0), Some(4.0)];
        assert_eq!(scores(LOWER, &json!({}), &depths, Duration::ZERO), [1.0, 0.75, 0.75, 0.0]);
        assert_eq!(scores(LOWER, &json!({}), &depths, Duration::from_mins(1)), [1.0; 4]);
        assert_eq!(scores(HIGHER, &json!({}), &[None, None], Duration::ZERO), [1.0; 2]);
    }

    #[test]
    fn parameters_that_say_nothing_are_refused_by_name() {
        let lower = || json!({"type": LOWER});
        let ranged = |range| json!({"attributeKey": "x", "algorithm": {"type": LOWER, "normalization": range}});
        for (raw, want) in [
            (json!({"algorithm": lower()}), "attributeKey is missing"),
            (json!({"attributeKey": "x/core-metrics-extractor", "algorithm": lower()}), "producer"),
            (json!({"attributeKey": "x"}), "algorithm is missing"),
            (
                json!({"attributeKey": "x", "algorithm": {"type": "cubic"}}),
                "linear_lower_is_better",
            ),
            (
                ranged(json!({"fixedRange": {"min": 0, "max": 1}, "adaptiveRange": {}})),
                "two ranges",
            ),
            (ranged(json!({"fixedRange": {"min": 1, "max": 1}})), "1 to 1, give a min below max"),
            (ranged(json!({"fixedRange": {"min": 1}})), "max"),
        ] {
            let read = parameters::<Parameters>(raw).and_then(Parameters::scorer);
            let error = read.map(drop).unwrap_err();
            assert!(error.0.contains(want), "{error}");
        }
    }
}
