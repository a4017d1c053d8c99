//! Prefers endpoints that have the request's LoRA adapter loaded, then those that have room for it.
//!
//! `score` = 1.0 where the adapter is resident, 0.8 where a slot has no active adapter, 0.6 where requests for the
//! adapter wait already, else 0.0. An endpoint whose page tells of no adapters, or is stale, scores 1.0 where we
//! ourselves sent the adapter last, else the median of those that tell. A request for a base model, or for a model while
//! nobody tells of adapters, scores 0.0 everywhere.

use serde::Deserialize;

use crate::pool::{Reading, Slot, Standing};
use crate::schedule::readings::fill;
use crate::schedule::registry::{Build, Plugin, parameters};
use crate::schedule::{Needs, PickContext, Scorer};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "lora-affinity-scorer",
    summary: "Prefers endpoints that have the LoRA adapter loaded, then those with room for it.",
    needs: Needs::NONE,
    build: Build::Scorer(|raw| Ok(Box::new(parameters::<LoraAffinity>(raw)?))),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LoraAffinity {}

impl Scorer for LoraAffinity {
    fn score(&self, cx: PickContext<'_>, candidates: &[Slot], scores: &mut [f32]) {
        let Some(adapter) = cx.model.filter(|model| cx.snapshot.adapts(model)) else { return };
        let standing = |slot| cx.snapshot.standing(slot, adapter, cx.now);
        let tells = |slot| cx.snapshot.adapters(slot, cx.now).is_some();
        let read = |slot, _| match standing(slot).filter(|_| tells(slot)) {
            Some(standing) => Reading::Fresh(worth(standing)),
            None => Reading::Unknown,
        };
        fill(cx, candidates, scores, read, |_| None);
        for (score, &slot) in scores.iter_mut().zip(candidates) {
            if !tells(slot) && standing(slot) == Some(Standing::Resident) {
                *score = worth(Standing::Resident);
            }
        }
    }
}

fn worth(standing: Standing) -> f32 {
    match standing {
        Standing::Resident => 1.0,
        Standing::Room => 0.8,
        Standing::Waiting => 0.6,
        Standing::Full => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::pool::{Adapters, InFlight, Sample, Snapshot};
    use crate::schedule::fixture;
    use crate::server::clock;

    /// An endpoint of base model `llama` with two slots.
    fn lora(running: &[&str], waiting: &[&str]) -> Sample {
        let adapters = Adapters {
            running: running.iter().copied().collect(),
            waiting: waiting.iter().copied().collect(),
            slots: Some(2),
        };
        Sample {
            adapters: Some(Arc::new(adapters)),
            models: Some(Arc::new(["llama"].into_iter().collect())),
            ..Sample::default()
        }
    }

    fn scores(snapshot: &Snapshot, model: Option<&str>, now: Instant) -> Vec<f32> {
        let (asked, mut scores) = (fixture::Asked::of(snapshot), vec![0.0; snapshot.ready().len()]);
        LoraAffinity {}.score(
            PickContext { model, ..asked.cx(now) },
            snapshot.ready(),
            &mut scores,
        );
        scores
    }

    #[test]
    fn resident_beats_room_beats_waiting_beats_full() {
        let now = clock::now();
        let samples = [
            Some(lora(&["sql"], &[])),
            Some(lora(&["a"], &[])),
            Some(lora(&["a", "b"], &["sql"])),
            Some(lora(&["a", "b"], &[])),
        ];
        let snapshot = fixture::sampled(&samples, now);
        assert_eq!(scores(&snapshot, Some("sql"), now), [1.0, 0.8, 0.6, 0.0]);
    }

    #[test]
    fn a_base_model_and_no_model_and_a_pool_without_adapters_are_neutral() {
        let now = clock::now();
        let snapshot = fixture::sampled(&[Some(lora(&["llama"], &[])), Some(lora(&[], &[]))], now);
        assert_eq!(scores(&snapshot, Some("llama"), now), [0.0, 0.0]);
        assert_eq!(scores(&snapshot, None, now), [0.0, 0.0]);
        let plain = fixture::sampled(&[Some(Sample::default()), None], now);
        let endpoint = plain.endpoint(plain.ready()[0]).unwrap();
        let _ours = InFlight::begin(&endpoint.live, 0).adapting("sql", now);
        assert_eq!(scores(&plain, Some("sql"), now), [0.0, 0.0]);
    }

    #[test]
    fn what_we_just_sent_counts_before_the_next_page() {
        let now = clock::now();
        let snapshot = fixture::sampled(&[Some(lora(&[], &[])), Some(lora(&[], &[]))], now);
        let second = snapshot.endpoint(snapshot.ready()[1]).unwrap();
        let ours = InFlight::begin(&second.live, 0).adapting("sql", now);
        assert_eq!(scores(&snapshot, Some("sql"), now), [0.8, 1.0]);
        drop(ours);
        assert_eq!(scores(&snapshot, Some("sql"), now), [0.8, 1.0], "still loaded");
    }

    #[test]
    fn an_endpoint_that_tells_nothing_is_neither_good_nor_bad() {
        let now = clock::now();
        let samples = [
            Some(lora(&["sql"], &[])),
            None,
            Some(lora(&["a"], &[])),
            Some(lora(&["a", "b"], &[])),
        ];
        let snapshot = fixture::sampled(&samples, now);
        assert_eq!(scores(&snapshot, Some("sql"), now), [1.0, 0.8, 0.8, 0.0]);
        let second = snapshot.endpoint(snapshot.ready()[1]).unwrap();
        let _ours = InFlight::begin(&second.live, 0).adapting("sql", now);
        assert_eq!(scores(&snapshot, Some("sql"), now), [1.0, 1.0, 0.8, 0.0]);
    }

    #[test]
    fn of_stale_pages_only_what_we_sent_is_left() {
        let now = clock::now();
        let snapshot = fixture::sampled(&[Some(lora(&["a"], &[])), Some(lora(&["a"], &[]))], now);
        let first = snapshot.endpoint(snapshot.ready()[0]).unwrap();
        let later = now + Duration::from_mins(1);
        let _ours = InFlight::begin(&first.live, 0).adapting("sql", later);
        assert_eq!(scores(&snapshot, Some("sql"), later), [1.0, 0.0]);
    }
}
