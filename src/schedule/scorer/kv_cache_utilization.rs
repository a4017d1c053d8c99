//! Prefers endpoints with free KV cache.
//!
//! `score = 1 - utilization`, clamped to 0.0 ..= 1.0. A stale or unknown utilization is taken to be the median of the
//! known ones; 0.0 when none is known, which is the same for all.

use serde::Deserialize;

use crate::pool::Slot;
use crate::schedule::readings::fill;
use crate::schedule::registry::{Build, Plugin, parameters};
use crate::schedule::{Needs, PickContext, Scorer};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "kv-cache-utilization-scorer",
    summary: "Prefers endpoints with free KV cache.",
    needs: Needs::NONE,
    build: Build::Scorer(|raw| Ok(Box::new(parameters::<KvCacheUtilization>(raw)?))),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KvCacheUtilization {}

impl Scorer for KvCacheUtilization {
    fn score(&self, cx: PickContext<'_>, candidates: &[Slot], scores: &mut [f32]) {
        fill(cx, candidates, scores, |slot, now| cx.snapshot.kv_usage(slot, now), |_| None);
        for score in scores {
            *score = (1.0 - *score).clamp(0.0, 1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pool::Sample;
    use crate::schedule::fixture;
    use crate::server::clock;

    fn scores(usage: &[Option<f32>], age: Duration) -> Vec<f32> {
        let read = clock::now();
        let sample = |kv_usage: &Option<f32>| {
            kv_usage.map(|_| Sample { kv_usage: *kv_usage, ..Sample::default() })
        };
        let snapshot = fixture::sampled(&usage.iter().map(sample).collect::<Vec<_>>(), read);
        let mut scores = vec![0.0; usage.len()];
        let asked = fixture::Asked::of(&snapshot);
        let cx = asked.cx(read + age);
        KvCacheUtilization {}.score(cx, snapshot.ready(), &mut scores);
        scores
    }

    #[test]
    fn free_cache_is_the_score_and_an_unread_server_is_the_median() {
        assert_eq!(
            scores(&[Some(0.0), None, Some(0.5), Some(1.0)], Duration::ZERO),
            [1.0, 0.5, 0.5, 0.0]
        );
    }

    #[test]
    fn stale_utilization_tells_nothing_apart() {
        assert_eq!(scores(&[Some(0.1), Some(0.9)], Duration::from_mins(1)), [1.0, 1.0]);
    }
}
