//! Keeps the endpoints that have most of the prompt in their cache, unless they are too busy.
//!
//! Sticky are the endpoints with `matched blocks / all blocks >= affinityThreshold`. They alone are kept, if there are any,
//! except: with the probability `explorationProbability` all are; and so are they where the least busy of the sticky ones
//! would begin later than the least busy of the others by more than `maxTTFTPenaltyMs`, an endpoint beginning after
//! `tokens in flight / peakPrefillThroughput * 1000` ms. The request's own prompt does not count. All are kept where
//! nothing is known of the prompt or of caches. What is in flight is our own count, never missing or stale. It never leaves
//! nobody.

use serde::Deserialize;

use crate::pool::Slot;
use crate::schedule::readings::tokens_in_flight;
use crate::schedule::registry::{BadParameters, Build, Empty, Plugin, parameters};
use crate::schedule::{Filter, Needs, PickContext};

/// Tells its draw from those of other plugins.
const SALT: u64 = 0x5052_4546_4958_0001;

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "prefix-cache-affinity-filter",
    summary: "Keeps the endpoints that have at least `affinityThreshold` of the prompt in their cache, if there are any and \
              the least busy of them is no more than `maxTTFTPenaltyMs` behind the least busy of the others.",
    needs: Needs::PREFIX,
    build: Build::Filter(
        |raw| Ok(Box::new(parameters::<PrefixCacheAffinity>(raw)?.checked()?)),
        Empty::Load,
    ),
};

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct PrefixCacheAffinity {
    /// Share of the prompt from which an endpoint is sticky, at most 1.0; default 0.8. 0 or less switches the filter off.
    affinity_threshold: f64,
    /// Probability that all are kept, 0.0 ..= 1.0; default 0.0.
    exploration_probability: f64,
    /// Milliseconds that affinity may cost, 0.0 or more; default 18,000. 0 lets it cost what it will.
    #[serde(rename = "maxTTFTPenaltyMs")]
    max_ttft_penalty_ms: f64,
    /// What tells when an endpoint would begin; default the throughput.
    ttft_source: TtftSource,
    /// Prompt tokens that an endpoint computes in a second, more than 0; default 15,928, the reference's.
    peak_prefill_throughput: f64,
    /// Name of the producer whose index is asked; the configuration finds it. Default: the approximate one.
    #[serde(rename = "prefixMatchInfoProducerName")]
    _prefix: Option<String>,
    /// Whose count of tokens in flight it is; there is one.
    #[serde(rename = "inFlightLoadProducerName")]
    _in_flight: Option<String>,
    /// Who predicts latency: nobody yet.
    #[serde(rename = "latencyPredictionInfoProducerName")]
    _prediction: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum TtftSource {
    PrefillThroughput,
    LatencyPredictor,
}

impl Default for PrefixCacheAffinity {
    fn default() -> Self {
        Self {
            affinity_threshold: 0.8,
            exploration_probability: 0.0,
            max_ttft_penalty_ms: 18_000.0,
            ttft_source: TtftSource::PrefillThroughput,
            peak_prefill_throughput: 15_928.0,
            _prefix: None,
            _in_flight: None,
            _prediction: None,
        }
    }
}

impl PrefixCacheAffinity {
    fn checked(self) -> Result<Self, BadParameters> {
        let refused = |text: String| Err(BadParameters(text));
        let (threshold, probability) = (self.affinity_threshold, self.exploration_probability);
        let (penalty, throughput) = (self.max_ttft_penalty_ms, self.peak_prefill_throughput);
        if self.ttft_source == TtftSource::LatencyPredictor {
            return refused("ttftSource: latencyPredictor is not supported yet".to_owned());
        }
        if threshold > 1.0 {
            return refused(format!("affinityThreshold is {threshold}, give at most 1"));
        }
        if !(0.0..=1.0).contains(&probability) {
            return refused(format!(
                "explorationProbability is {probability}, give a number from 0 to 1"
            ));
        }
        if penalty < 0.0 {
            return refused(format!("maxTTFTPenaltyMs is {penalty}, give 0 or more"));
        }
        if throughput <= 0.0 {
            return refused(format!("peakPrefillThroughput is {throughput}, give more than 0"));
        }
        Ok(self)
    }

    /// Whether affinity costs more than it may.
    fn costs_too_much(
        &self,
        cx: PickContext<'_>,
        candidates: &[Slot],
        sticky: impl Fn(&Slot) -> bool,
    ) -> bool {
        let begins = |slot: &Slot| {
            tokens_in_flight(cx, *slot) as f64 / self.peak_prefill_throughput * 1000.0
        };
        let (mut first_sticky, mut first_other) = (f64::INFINITY, f64::INFINITY);
        for slot in candidates {
            let first = if sticky(slot) { &mut first_sticky } else { &mut first_other };
            *first = first.min(begins(slot));
        }
        self.max_ttft_penalty_ms > 0.0 && first_sticky - first_other > self.max_ttft_penalty_ms
    }
}

impl Filter for PrefixCacheAffinity {
    fn filter(&self, cx: PickContext<'_>, candidates: &mut Vec<Slot>) {
        let hits = &cx.signals.prefix;
        let off = self.affinity_threshold <= 0.0 || hits.total() == 0;
        if off || candidates.len() < 2 || cx.chance(self.exploration_probability, SALT) {
            return;
        }
        let share = |slot: Slot| f64::from(hits.blocks(slot)) / f64::from(hits.total());
        let sticky = |slot: &Slot| share(*slot) >= self.affinity_threshold;
        if candidates.iter().any(sticky) && !self.costs_too_much(cx, candidates, sticky) {
            candidates.retain(sticky);
        }
    }

    fn reason(&self, cx: PickContext<'_>, slot: Slot) -> Option<String> {
        let hits = &cx.signals.prefix;
        let (has, all, share) = (hits.blocks(slot), hits.total(), self.affinity_threshold);
        Some(format!(
            "it has {has} of the {all} blocks of the prompt, kept are those with {share} of them"
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pool::InFlight;
    use crate::prefix::{Index, Settings};
    use crate::request::PromptPart;
    use crate::schedule::{Signals, fixture};
    use crate::server::clock;

    fn filter(raw: Value) -> Result<PrefixCacheAffinity, String> {
        let read = parameters::<PrefixCacheAffinity>(raw).and_then(PrefixCacheAffinity::checked);
        read.map_err(|error| error.0)
    }

    /// Positions that are kept of endpoints that have so many tokens of a prompt of 1,024, and so many in flight.
    fn kept(raw: Value, cached: &[usize], in_flight: &[u64], dice: u64) -> Vec<usize> {
        let snapshot = fixture::snapshot(u16::try_from(cached.len()).unwrap());
        let index = Index::new(Settings::default(), 0);
        let chain = |tokens: usize| {
            let mut hashing = index.hashing();
            hashing.feed(PromptPart::Text(&vec![b'x'; tokens * 4]));
            hashing.end(None, None)
        };
        for (endpoint, &tokens) in snapshot.endpoints().zip(cached) {
            index.record(endpoint.id, &chain(tokens), None);
        }
        let charge = |(endpoint, &tokens): (&std::sync::Arc<crate::pool::Endpoint>, _)| {
            InFlight::begin(&endpoint.live, tokens)
        };
        let _in_flight: Vec<_> = snapshot.endpoints().zip(in_flight).map(charge).collect();
        let mut signals = Signals::default();
        index.longest(&chain(1024), snapshot.ready(), &mut signals.prefix);
        let asked = fixture::Asked::of(&snapshot);
        let cx = PickContext { signals: &signals, dice, ..asked.cx(clock::now()) };
        fixture::kept_for(&filter(raw).unwrap(), cx)
    }

    #[test]
    fn those_that_have_enough_of_the_prompt_are_kept() {
        let cached = [1024, 832, 768, 0];
        assert_eq!(kept(Value::Null, &cached, &[], 0), [0, 1], "0.8125 and not 0.75 of it");
        assert_eq!(kept(json!({"affinityThreshold": 1.0}), &cached, &[], 0), [0]);
        assert_eq!(kept(json!({"affinityThreshold": 0.75}), &cached, &[], 0), [0, 1, 2]);
    }

    #[test]
    fn all_are_kept_where_nobody_has_enough_or_it_is_off_or_only_one_is_there() {
        assert_eq!(kept(Value::Null, &[512, 0], &[], 0), [0, 1]);
        assert_eq!(kept(json!({"affinityThreshold": 0}), &[1024, 0], &[], 0), [0, 1]);
        assert_eq!(kept(Value::Null, &[0], &[], 0), [0]);
        assert_eq!(
            fixture::kept(&filter(Value::Null).unwrap(), &fixture::snapshot(1000)).len(),
            1000
        );
    }

    #[test]
    fn affinity_gives_way_once_it_costs_more_than_it_may() {
        let penalty = json!({"maxTTFTPenaltyMs": 1000, "peakPrefillThroughput": 1000});
        let cached = [1024, 1024, 0, 0];
        assert_eq!(kept(penalty.clone(), &cached, &[3000, 1500, 500, 900], 0), [0, 1]);
        assert_eq!(kept(penalty.clone(), &cached, &[3000, 1501, 500, 900], 0), [0, 1, 2, 3]);
        assert_eq!(kept(penalty, &[1024, 1024], &[9000, 9000], 0), [0, 1], "there is no other");
        let never = json!({"maxTTFTPenaltyMs": 0, "peakPrefillThroughput": 1000});
        assert_eq!(kept(never, &cached, &[90_000, 90_000, 0, 0], 0), [0, 1]);
    }

    #[test]
    fn all_are_kept_as_often_as_is_to_be_explored() {
        let explores = |probability: f64| {
            let raw = json!({"explorationProbability": probability});
            let all = |dice| kept(raw.clone(), &[1024, 0], &[], dice).len() == 2;
            (0..1000).filter(|dice| all(*dice)).count()
        };
        assert_eq!((explores(0.0), explores(1.0)), (0, 1000));
        assert!((200..300).contains(&explores(0.25)), "{}", explores(0.25));
    }

    #[test]
    fn parameters_out_of_range_are_refused_with_the_range() {
        for (raw, want) in [
            (json!({"affinityThreshold": 1.1}), "affinityThreshold is 1.1, give at most 1"),
            (json!({"explorationProbability": 2}), "is 2, give a number from 0 to 1"),
            (json!({"maxTTFTPenaltyMs": -1}), "is -1, give 0 or more"),
            (json!({"peakPrefillThroughput": 0}), "is 0, give more than 0"),
            (json!({"ttftSource": "latencyPredictor"}), "latencyPredictor is not supported yet"),
            (json!({"ttftSource": "guess"}), "unknown variant `guess`"),
        ] {
            let error = filter(raw).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }
}
