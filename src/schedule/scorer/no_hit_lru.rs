//! Spreads requests whose prompt nobody has in its cache: prefers the endpoint that has waited longest for one.
//!
//! Such a request is cold. The candidates are ordered: those that were never given a cold request first, by what this
//! process has in flight there and then by slot, after them the others, the longest ago first. `score = 1 - place /
//! (candidates - 1)`; 1.0 for a single one. Where a candidate has the beginning of the prompt all score 0.5.
//!
//! Places are counted among the candidates alone, so that who left the pool or was filtered out shifts nobody's. Own
//! decisions are never missing and never stale; a prompt of which nothing is known is cold.

use parking_lot::Mutex;
use serde::Deserialize;
use smallvec::SmallVec;

use crate::pool::{Endpoint, EndpointId, Slot};
use crate::schedule::registry::{BadParameters, Build, Plugin, parameters};
use crate::schedule::{Needs, PickContext, Scorer};

/// The score of all where the prompt is in somebody's cache.
const WARM: f32 = 0.5;

/// Candidates that are ordered on the stack.
const USUAL_POOL: usize = 64;

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "no-hit-lru-scorer",
    summary: "Spreads requests whose prompt nobody has cached: prefers endpoints that were given such a one longest ago.",
    needs: Needs::PREFIX,
    build: Build::Scorer(|raw| Ok(Box::new(parameters::<Parameters>(raw)?.scorer()?))),
};

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Parameters {
    /// Endpoints that are remembered, 1 or more; default 1,024.
    lru_size: usize,
    /// Name of the producer whose index is asked; the configuration finds it. Default: the approximate one.
    #[serde(rename = "prefixMatchInfoProducerName")]
    _producer: Option<String>,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { lru_size: 1024, _producer: None }
    }
}

impl Parameters {
    fn scorer(self) -> Result<NoHitLru, BadParameters> {
        let Self { lru_size: most, .. } = self;
        if most == 0 {
            return Err(BadParameters("lruSize is 0, give 1 or more".to_owned()));
        }
        Ok(NoHitLru { most, given: Mutex::default() })
    }
}

#[derive(Debug)]
struct NoHitLru {
    most: usize,
    /// Locked for a walk over the candidates.
    given: Mutex<Given>,
}

impl Scorer for NoHitLru {
    fn score(&self, cx: PickContext<'_>, candidates: &[Slot], scores: &mut [f32]) {
        if !cold(cx, candidates) {
            return scores.fill(WARM);
        }
        let given = self.given.lock();
        let rank = |(at, &slot): (usize, &Slot)| {
            let last = cx.snapshot.endpoint(slot).and_then(|endpoint| given.last(endpoint.id));
            (last.unwrap_or(NEVER), cx.snapshot.in_flight(slot), at)
        };
        let mut order: SmallVec<[_; USUAL_POOL]> =
            candidates.iter().enumerate().map(rank).collect();
        drop(given);
        order.sort_unstable();
        let last = order.len().saturating_sub(1).max(1) as f32;
        for (place, (.., at)) in order.into_iter().enumerate() {
            if let Some(score) = scores.get_mut(at) {
                *score = 1.0 - place as f32 / last;
            }
        }
    }

    fn placed(&self, cx: PickContext<'_>, candidates: &[Slot], endpoint: &Endpoint) {
        if cold(cx, candidates) {
            self.given.lock().note(endpoint.id, self.most);
        }
    }
}

/// Before any request.
const NEVER: u64 = 0;

/// When endpoints were last given a cold request, counted in such requests.
#[derive(Debug, Default)]
struct Given {
    requests: u64,
    /// By slot, of whoever had it last. Bounded by the slots of a pool.
    last: Vec<Option<(EndpointId, u64)>>,
    /// Those that are not none. Bounded by `lruSize`: beyond it the one that was given none for the longest is forgotten.
    remembered: usize,
}

impl Given {
    fn last(&self, id: EndpointId) -> Option<u64> {
        let (of, last) = (*self.last.get(id.slot.index())?)?;
        (of == id).then_some(last)
    }

    fn note(&mut self, id: EndpointId, most: usize) {
        self.requests += 1;
        let at = id.slot.index();
        if self.last.len() <= at {
            self.last.resize(at + 1, None);
        }
        let before = self.last.get_mut(at).and_then(|last| last.replace((id, self.requests)));
        self.remembered += usize::from(before.is_none());
        if self.remembered > most {
            let given = self.last.iter_mut().filter(|last| last.is_some());
            let oldest = given.min_by_key(|last| last.map(|(_, last)| last));
            self.remembered -= usize::from(oldest.is_some_and(|oldest| oldest.take().is_some()));
        }
    }
}

/// Whether no candidate has any of the prompt.
fn cold(cx: PickContext<'_>, candidates: &[Slot]) -> bool {
    candidates.iter().all(|&slot| cx.signals.prefix.blocks(slot) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{InFlight, Snapshot};
    use crate::prefix::{Index, Settings};
    use crate::request::PromptPart;
    use crate::schedule::{Signals, fixture};
    use crate::server::clock;

    fn scorer(most: usize) -> NoHitLru {
        NoHitLru { most, given: Mutex::default() }
    }

    fn scores(scorer: &NoHitLru, snapshot: &Snapshot, candidates: &[Slot]) -> Vec<f32> {
        let (asked, mut rated) = (fixture::Asked::of(snapshot), vec![0.0; candidates.len()]);
        scorer.score(asked.cx(clock::now()), candidates, &mut rated);
        rated
    }

    /// Places a cold request at the best of all candidates, and says which that was.
    fn spread(scorer: &NoHitLru, snapshot: &Snapshot, candidates: &[Slot]) -> usize {
        let rated = scores(scorer, snapshot, candidates);
        let best = rated.iter().position(|score| (score - 1.0).abs() < f32::EPSILON).unwrap();
        let asked = fixture::Asked::of(snapshot);
        let endpoint = snapshot.endpoint(candidates[best]).unwrap();
        scorer.placed(asked.cx(clock::now()), candidates, endpoint);
        candidates[best].index()
    }

    #[test]
    fn cold_requests_go_round_all_endpoints() {
        let (scorer, snapshot) = (scorer(1024), fixture::snapshot(4));
        let went: Vec<_> = (0..10).map(|_| spread(&scorer, &snapshot, snapshot.ready())).collect();
        assert_eq!(went, [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]);
    }

    #[test]
    fn of_the_unused_the_least_loaded_comes_first_and_the_last_place_scores_nothing() {
        let (scorer, snapshot) = (scorer(1024), fixture::snapshot(3));
        let first = snapshot.endpoint(snapshot.ready()[0]).unwrap();
        let _ours = InFlight::begin(&first.live, 0);
        assert_eq!(scores(&scorer, &snapshot, snapshot.ready()), [0.0, 1.0, 0.5]);
    }

    #[test]
    fn who_is_no_candidate_shifts_no_place() {
        let (scorer, snapshot) = (scorer(1024), fixture::snapshot(4));
        let ready = snapshot.ready();
        for _ in 0..4 {
            spread(&scorer, &snapshot, ready);
        }
        assert_eq!(scores(&scorer, &snapshot, &[ready[1], ready[3]]), [1.0, 0.0]);
        assert_eq!(scores(&scorer, &snapshot, &ready[2..3]), [1.0]);
    }

    #[test]
    fn a_thousand_endpoints_are_each_given_one_before_any_a_second() {
        let (scorer, snapshot) = (scorer(1024), fixture::snapshot(1000));
        let mut went: Vec<_> =
            (0..1000).map(|_| spread(&scorer, &snapshot, snapshot.ready())).collect();
        went.sort_unstable();
        assert_eq!(went, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn beyond_its_size_the_oldest_is_forgotten() {
        let (scorer, snapshot) = (scorer(2), fixture::snapshot(4));
        let went: Vec<_> = (0..6).map(|_| spread(&scorer, &snapshot, snapshot.ready())).collect();
        assert_eq!(went, [0, 1, 2, 0, 1, 2], "never used again, the first slot comes first");
        assert_eq!(scorer.given.lock().remembered, 2);
    }

    #[test]
    fn a_warm_request_scores_a_half_everywhere_and_leaves_no_trace() {
        let (scorer, snapshot) = (scorer(1024), fixture::snapshot(2));
        let index = Index::new(Settings::default(), 0);
        let mut hashing = index.hashing();
        hashing.feed(PromptPart::Text(&[b'x'; 256]));
        let chain = hashing.end(None, None);
        let second = snapshot.endpoint(snapshot.ready()[1]).unwrap();
        index.record(second.id, &chain, None);
        let mut signals = Signals::default();
        index.longest(&chain, snapshot.ready(), &mut signals.prefix);
        let (asked, mut rated) = (fixture::Asked::of(&snapshot), [0.0; 2]);
        let cx = PickContext { signals: &signals, ..asked.cx(clock::now()) };
        scorer.score(cx, snapshot.ready(), &mut rated);
        assert_eq!(rated.map(f32::to_bits), [WARM.to_bits(); 2]);
        scorer.placed(cx, snapshot.ready(), second);
        assert_eq!(scorer.given.lock().remembered, 0);
    }

    #[test]
    fn a_size_of_none_is_refused() {
        let error = Parameters { lru_size: 0, ..Parameters::default() }.scorer().unwrap_err();
        assert_eq!(error.0, "lruSize is 0, give 1 or more");
    }
}
