//! Prefers endpoints on which this process has few requests in flight.
//!
//! `score = 1` where `active <= idleThreshold`, else `(max - active) / max * maxBusyScore`, with the maximum over the
//! candidates. Own counts are never missing and never stale.

use serde::Deserialize;

use crate::pool::Slot;
use crate::schedule::registry::{BadParameters, Build, Plugin, parameters};
use crate::schedule::{Needs, PickContext, Scorer};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "active-request-scorer",
    summary: "Prefers endpoints on which this picker has few requests in flight.",
    needs: Needs::NONE,
    build: Build::Scorer(|raw| Ok(Box::new(parameters::<ActiveRequest>(raw)?.checked()?))),
};

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ActiveRequest {
    /// Requests in flight up to which an endpoint counts as idle; default 0.
    idle_threshold: u32,
    /// The score of the least busy endpoint that is not idle, 0.0 ..= 1.0; default 1.0.
    max_busy_score: f32,
}

impl Default for ActiveRequest {
    fn default() -> Self {
        Self { idle_threshold: 0, max_busy_score: 1.0 }
    }
}

impl ActiveRequest {
    fn checked(self) -> Result<Self, BadParameters> {
        if (0.0..=1.0).contains(&self.max_busy_score) {
            return Ok(self);
        }
        Err(BadParameters(format!(
            "maxBusyScore is {}, give a number from 0 to 1",
            self.max_busy_score
        )))
    }
}

impl Scorer for ActiveRequest {
    fn score(&self, cx: PickContext<'_>, candidates: &[Slot], scores: &mut [f32]) {
        let mut max = 0;
        for &slot in candidates {
            max = max.max(cx.snapshot.in_flight(slot));
        }
        for (score, &slot) in scores.iter_mut().zip(candidates) {
            let active = cx.snapshot.in_flight(slot);
            let busy = max.saturating_sub(active) as f32 / max.max(1) as f32;
            *score = if active <= self.idle_threshold { 1.0 } else { busy * self.max_busy_score };
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::pool::InFlight;
    use crate::schedule::fixture;
    use crate::server::clock;

    fn scores(scorer: &ActiveRequest, active: &[u32]) -> Vec<f32> {
        let snapshot = fixture::snapshot(u16::try_from(active.len()).unwrap());
        let charge = |(endpoint, &count): (_, &u32)| {
            let endpoint: &std::sync::Arc<crate::pool::Endpoint> = endpoint;
            (0..count).map(|_| InFlight::begin(&endpoint.live, 0)).collect::<Vec<_>>()
        };
        let _in_flight: Vec<_> = snapshot.endpoints().zip(active).map(charge).collect();
        let mut rated = vec![0.0; active.len()];
        let asked = fixture::Asked::of(&snapshot);
        let cx = asked.cx(clock::now());
        scorer.score(cx, snapshot.ready(), &mut rated);
        rated
    }

    #[test]
    fn the_busiest_scores_zero_and_an_idle_one_scores_one() {
        assert_eq!(scores(&ActiveRequest::default(), &[0, 1, 4]), [1.0, 0.75, 0.0]);
        assert_eq!(scores(&ActiveRequest::default(), &[0, 0]), [1.0, 1.0]);
    }

    #[test]
    fn the_idle_threshold_and_the_busy_score_shape_the_rest() {
        let scorer = ActiveRequest { idle_threshold: 1, max_busy_score: 0.5 };
        assert_eq!(scores(&scorer, &[1, 2, 4]), [1.0, 0.25, 0.0]);
    }

    // FR-070
    #[test]
    fn a_busy_score_out_of_range_is_refused_with_the_range() {
        let error = ActiveRequest { idle_threshold: 0, max_busy_score: 2.0 }.checked().unwrap_err();
        assert!(error.0.contains("from 0 to 1"), "{error}");
    }
}
