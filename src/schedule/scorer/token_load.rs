//! Prefers endpoints with few tokens to be computed, this request's included.
//!
//! `score = 1 - min(tokens, queueThresholdTokens) / queueThresholdTokens`, where the tokens are those that this process
//! has in flight on the endpoint, as the `inflight-load-producer` counts them, and those of this request that the
//! endpoint has not in its cache. Own counts are never missing and never stale; a prompt of which nothing is known counts
//! in full everywhere.

use serde::Deserialize;

use crate::pool::Slot;
use crate::schedule::readings::tokens_in_flight;
use crate::schedule::registry::{BadParameters, Build, Plugin, parameters};
use crate::schedule::{Needs, PickContext, Scorer};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "token-load-scorer",
    summary: "Prefers endpoints on which few tokens are to be computed, those of the request that they have not cached included.",
    needs: Needs::PREFIX,
    build: Build::Scorer(|raw| Ok(Box::new(parameters::<TokenLoad>(raw)?.checked()?))),
};

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct TokenLoad {
    /// Tokens from which on an endpoint scores 0, more than 0; default 4,194,304.
    queue_threshold_tokens: f32,
    /// Whose count it is; there is one.
    #[serde(rename = "inFlightLoadProducerName")]
    _producer: Option<String>,
}

impl Default for TokenLoad {
    fn default() -> Self {
        Self { queue_threshold_tokens: 4_194_304.0, _producer: None }
    }
}

impl TokenLoad {
    fn checked(self) -> Result<Self, BadParameters> {
        let tokens = self.queue_threshold_tokens;
        let good = tokens.is_finite() && tokens > 0.0;
        let refused =
            || BadParameters(format!("queueThresholdTokens is {tokens}, give more than 0"));
        good.then_some(self).ok_or_else(refused)
    }
}

impl Scorer for TokenLoad {
    fn score(&self, cx: PickContext<'_>, candidates: &[Slot], scores: &mut [f32]) {
        let threshold = self.queue_threshold_tokens;
        let prompt = cx.prompt_tokens();
        for (score, &slot) in scores.iter_mut().zip(candidates) {
            let uncached = prompt.saturating_sub(cx.signals.prefix.tokens(slot));
            let own = uncached.saturating_add(cx.signals.output_tokens.unwrap_or(0));
            let tokens = tokens_in_flight(cx, slot).saturating_add(own) as f32;
            *score = 1.0 - tokens.min(threshold) / threshold;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{InFlight, Snapshot};
    use crate::prefix::{Index, Settings};
    use crate::request::{Parsed, PromptPart};
    use crate::schedule::{Signals, fixture};
    use crate::server::clock;

    fn scores(snapshot: &Snapshot, request: &Parsed, signals: &Signals) -> Vec<f32> {
        let asked = fixture::Asked::of(snapshot);
        let scorer = TokenLoad { queue_threshold_tokens: 1024.0, ..TokenLoad::default() };
        let mut rated = vec![0.0; snapshot.ready().len()];
        let cx = PickContext { request, signals, ..asked.cx(clock::now()) };
        scorer.score(cx, snapshot.ready(), &mut rated);
        rated
    }

    /// A pool on which so many tokens of prompts are in flight.
    fn busy(tokens: &[u64]) -> (Snapshot, Vec<InFlight>) {
        let snapshot = fixture::snapshot(u16::try_from(tokens.len()).unwrap());
        let charge = |(endpoint, &tokens): (&std::sync::Arc<crate::pool::Endpoint>, _)| {
            InFlight::begin(&endpoint.live, tokens).decoding(100)
        };
        let in_flight = snapshot.endpoints().zip(tokens).map(charge).collect();
        (snapshot, in_flight)
    }

    /// A request for a prompt of so many tokens.
    fn prompt(tokens: u64) -> Parsed {
        let mut parsed = Parsed::default();
        parsed.prompt_tokens = tokens;
        parsed
    }

    #[test]
    fn fewer_tokens_score_more_and_the_threshold_nothing() {
        let (snapshot, _in_flight) = busy(&[0, 256, 256, 900, 5000]);
        let rated = scores(&snapshot, &prompt(256), &Signals::default());
        assert_eq!(rated, [0.75, 0.5, 0.5, 0.0, 0.0]);
    }

    #[test]
    fn nothing_to_compute_scores_one_and_one_endpoint_by_itself() {
        let (snapshot, _in_flight) = busy(&[0, 512]);
        assert_eq!(scores(&snapshot, &prompt(0), &Signals::default()), [1.0, 0.5]);
        let (one, _in_flight) = busy(&[512]);
        assert_eq!(scores(&one, &prompt(0), &Signals::default()), [0.5]);
    }

    #[test]
    fn what_an_endpoint_has_in_its_cache_need_not_be_computed() {
        let (snapshot, _in_flight) = busy(&[0, 0]);
        let index = Index::new(Settings::default(), 0);
        let chain = |tokens: usize| {
            let mut hashing = index.hashing();
            hashing.feed(PromptPart::Text(&vec![b'x'; tokens * 4]));
            hashing.end(None, None)
        };
        let second = snapshot.endpoint(snapshot.ready()[1]).unwrap();
        index.record(second.id, &chain(256), None);
        let mut signals = Signals::default();
        index.longest(&chain(512), snapshot.ready(), &mut signals.prefix);
        assert_eq!(scores(&snapshot, &prompt(512), &signals), [0.5, 0.75]);
    }

    #[test]
    fn output_counts_where_the_producer_adds_it() {
        let (snapshot, _in_flight) = busy(&[0, 256]);
        let signals = Signals { output_tokens: Some(50), ..Signals::default() };
        assert_eq!(scores(&snapshot, &prompt(106), &signals), [0.75, 0.5]);
    }

    #[test]
    fn a_threshold_out_of_range_is_refused_with_the_range() {
        let scorer = TokenLoad { queue_threshold_tokens: 0.0, ..TokenLoad::default() };
        let error = scorer.checked().unwrap_err();
        assert_eq!(error.0, "queueThresholdTokens is 0, give more than 0");
    }
}
