//! Prefers endpoints that compute few requests.
//!
//! `score = (max - running) / (max - min)` over the candidates; 1.0 for all when they are equal. A stale count is taken
//! to be what this process has in flight there, an unknown one to be the median of the known.

use serde::Deserialize;

use crate::pool::Slot;
use crate::schedule::readings::{fill, lower_is_better};
use crate::schedule::registry::{Build, Plugin, parameters};
use crate::schedule::{Needs, PickContext, Scorer};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "running-requests-size-scorer",
    summary: "Prefers endpoints that compute few requests.",
    needs: Needs::NONE,
    build: Build::Scorer(|raw| Ok(Box::new(parameters::<RunningRequests>(raw)?))),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunningRequests {}

impl Scorer for RunningRequests {
    fn score(&self, cx: PickContext<'_>, candidates: &[Slot], scores: &mut [f32]) {
        let running = |slot, now| cx.snapshot.running(slot, now);
        fill(cx, candidates, scores, running, |slot| Some(cx.snapshot.in_flight(slot) as f32));
        lower_is_better(scores);
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::pool::Sample;
    use crate::schedule::fixture;
    use crate::server::clock;

    #[test]
    fn the_emptiest_server_scores_one() {
        let running = |n| Some(Sample { running: Some(n), ..Sample::default() });
        let now = clock::now();
        let snapshot = fixture::sampled(&[running(8.0), running(2.0), running(4.0)], now);
        let mut scores = [0.0; 3];
        let asked = fixture::Asked::of(&snapshot);
        let cx = asked.cx(now);
        RunningRequests {}.score(cx, snapshot.ready(), &mut scores);
        assert!(scores[0] < scores[2] && scores[2] < scores[1], "{scores:?}");
    }
}
