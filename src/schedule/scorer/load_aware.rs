//! Prefers endpoints with a short waiting queue, by its length alone and not by that of others.
//!
//! `score = 0.5 * (1 - min(waiting, threshold) / threshold)`: half of the range by design, so that a short queue counts
//! for less than what other scorers know. A stale queue is taken to be what this process has in flight there, an unknown
//! one to be the median of the known; all are empty when none is known.

use serde::Deserialize;

use crate::pool::Slot;
use crate::schedule::readings::queues;
use crate::schedule::registry::{BadParameters, Build, Plugin, parameters};
use crate::schedule::{Needs, PickContext, Scorer};

/// The score of an empty queue; the reference's.
const EMPTY: f32 = 0.5;

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "load-aware-scorer",
    summary: "Prefers endpoints with a short waiting queue: 0.5 for an empty one, 0 from `threshold` on.",
    needs: Needs::NONE,
    build: Build::Scorer(|raw| Ok(Box::new(parameters::<LoadAware>(raw)?.checked()?))),
};

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct LoadAware {
    /// Waiting requests from which on an endpoint scores 0, more than 0; default 128.
    threshold: f32,
}

impl Default for LoadAware {
    fn default() -> Self {
        Self { threshold: 128.0 }
    }
}

impl LoadAware {
    fn checked(self) -> Result<Self, BadParameters> {
        let Self { threshold } = self;
        let good = threshold.is_finite() && threshold > 0.0;
        let refused = || BadParameters(format!("threshold is {threshold}, give more than 0"));
        good.then_some(self).ok_or_else(refused)
    }
}

impl Scorer for LoadAware {
    fn score(&self, cx: PickContext<'_>, candidates: &[Slot], scores: &mut [f32]) {
        queues(cx, candidates, scores);
        for score in scores {
            *score = EMPTY * (1.0 - score.min(self.threshold) / self.threshold);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pool::{InFlight, Sample};
    use crate::schedule::fixture;
    use crate::server::clock;

    /// The scores of endpoints with these queues, of which the first has a request of ours in flight.
    fn scores(waiting: &[Option<f32>], age: Duration) -> Vec<f32> {
        let read = clock::now();
        let sample = |waiting: &Option<f32>| {
            waiting.map(|n| Sample { waiting: Some(n), ..Sample::default() })
        };
        let snapshot = fixture::sampled(&waiting.iter().map(sample).collect::<Vec<_>>(), read);
        let first = snapshot.endpoints().next().unwrap();
        let _ours = InFlight::begin(&first.live, 0);
        let (asked, mut rated) = (fixture::Asked::of(&snapshot), vec![0.0; waiting.len()]);
        LoadAware { threshold: 10.0 }.score(asked.cx(read + age), snapshot.ready(), &mut rated);
        rated
    }

    #[test]
    fn an_empty_queue_scores_a_half_and_the_threshold_nothing() {
        let queues = [Some(0.0), Some(5.0), Some(10.0), Some(1e9)];
        assert_eq!(scores(&queues, Duration::ZERO), [0.5, 0.25, 0.0, 0.0]);
    }

    #[test]
    fn one_endpoint_scores_by_its_own_queue_and_equal_ones_are_equal() {
        assert_eq!(scores(&[Some(5.0)], Duration::ZERO), [0.25]);
        assert_eq!(scores(&[Some(5.0), Some(5.0)], Duration::ZERO), [0.25, 0.25]);
    }

    #[test]
    fn an_unread_server_is_the_median_and_a_stale_one_what_we_sent_there() {
        assert_eq!(scores(&[Some(0.0), None, Some(5.0)], Duration::ZERO), [0.5, 0.5, 0.25]);
        assert_eq!(scores(&[None, None], Duration::ZERO), [0.5, 0.5]);
        assert_eq!(scores(&[Some(9.0), Some(9.0)], Duration::from_mins(1)), [0.45, 0.5]);
    }

    #[test]
    fn a_threshold_out_of_range_is_refused_with_the_range() {
        for threshold in [0.0, -3.0, f32::NAN, f32::INFINITY] {
            let error = LoadAware { threshold }.checked().unwrap_err();
            assert_eq!(error.0, format!("threshold is {threshold}, give more than 0"));
        }
    }
}
