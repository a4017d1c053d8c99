//! Prefers endpoints with a short waiting queue.
//!
//! `score = (max - waiting) / (max - min)` over the candidates; 1.0 for all when they are equal. A stale queue is taken
//! to be what this process has in flight there, an unknown one to be the median of the known.

use serde::Deserialize;

use crate::pool::Slot;
use crate::schedule::readings::{lower_is_better, queues};
use crate::schedule::registry::{Build, Plugin, parameters};
use crate::schedule::{Needs, PickContext, Scorer};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "queue-scorer",
    summary: "Prefers endpoints with a short waiting queue.",
    needs: Needs::NONE,
    build: Build::Scorer(|raw| Ok(Box::new(parameters::<Queue>(raw)?))),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Queue {}

impl Scorer for Queue {
    fn score(&self, cx: PickContext<'_>, candidates: &[Slot], scores: &mut [f32]) {
        queues(cx, candidates, scores);
        lower_is_better(scores);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pool::{InFlight, Sample};
    use crate::schedule::fixture;
    use crate::server::clock;

    fn waiting(n: f32) -> Sample {
        Sample { waiting: Some(n), ..Sample::default() }
    }

    fn scores(samples: &[Option<Sample>], age: Duration, busy: Option<usize>) -> Vec<f32> {
        let read = clock::now();
        let snapshot = fixture::sampled(samples, read);
        let busy = busy.and_then(|at| snapshot.endpoint(snapshot.ready()[at]));
        let _in_flight = busy.map(|endpoint| InFlight::begin(&endpoint.live, 0));
        let mut scores = vec![0.0; samples.len()];
        let asked = fixture::Asked::of(&snapshot);
        let cx = asked.cx(read + age);
        Queue {}.score(cx, snapshot.ready(), &mut scores);
        scores
    }

    #[test]
    fn the_shortest_queue_scores_one_and_the_longest_zero() {
        assert_eq!(
            scores(
                &[Some(waiting(0.0)), Some(waiting(5.0)), Some(waiting(10.0))],
                Duration::ZERO,
                None
            ),
            [1.0, 0.5, 0.0]
        );
    }

    #[test]
    fn a_server_never_read_is_neither_idle_nor_busy() {
        let samples = [Some(waiting(0.0)), None, Some(waiting(4.0)), Some(waiting(8.0))];
        assert_eq!(scores(&samples, Duration::ZERO, None), [1.0, 0.5, 0.5, 0.0]);
    }

    #[test]
    fn a_stale_queue_counts_as_our_own_requests_there() {
        let old = Duration::from_mins(1);
        assert_eq!(scores(&[Some(waiting(0.0)), Some(waiting(9.0))], old, Some(0)), [0.0, 1.0]);
    }

    #[test]
    fn one_endpoint_scores_one() {
        assert_eq!(scores(&[Some(waiting(7.0))], Duration::ZERO, None), [1.0]);
    }
}
