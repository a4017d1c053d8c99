//! Prefers endpoints that have the beginning of the prompt in their cache.
//!
//! `score = w * min(1, matched tokens / scale)^2 + (1 - w) * matched blocks / all blocks`, with `w` the
//! `matchLengthWeight`: the first part rewards long matches for their own sake, since 95 % of a long prompt saves more
//! than 95 % of a short one. 0.0 where nothing matches, and for all when nothing is known of the prompt.

use serde::Deserialize;

use crate::pool::Slot;
use crate::schedule::registry::{BadParameters, Build, Plugin, parameters};
use crate::schedule::{Needs, PickContext, Scorer};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "prefix-cache-scorer",
    summary: "Prefers endpoints that have the beginning of the prompt in their cache.",
    needs: Needs::PREFIX,
    build: Build::Scorer(|raw| Ok(Box::new(parameters::<PrefixCache>(raw)?.checked()?))),
};

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct PrefixCache {
    /// Name of the producer whose index is asked; the configuration finds it. Default: the approximate one.
    #[serde(rename = "prefixMatchInfoProducerName")]
    _producer: Option<String>,
    /// Share of the score that the length of a match decides, 0.0 ..= 1.0; default 0.0.
    match_length_weight: f32,
    /// Tokens of a match that is worth the whole of it; more than 0, default 8,192.
    match_length_scale_tokens: f32,
}

impl Default for PrefixCache {
    fn default() -> Self {
        Self { _producer: None, match_length_weight: 0.0, match_length_scale_tokens: 8192.0 }
    }
}

impl PrefixCache {
    fn checked(self) -> Result<Self, BadParameters> {
        let (weight, scale) = (self.match_length_weight, self.match_length_scale_tokens);
        if !(0.0..=1.0).contains(&weight) {
            return Err(BadParameters(format!(
                "matchLengthWeight is {weight}, give a number from 0 to 1"
            )));
        }
        if weight > 0.0 && !(scale > 0.0 && scale.is_finite()) {
            return Err(BadParameters(format!(
                "matchLengthScaleTokens is {scale}, give a number greater than 0"
            )));
        }
        Ok(self)
    }

    fn rate(&self, share: f32, tokens: u64) -> f32 {
        if tokens == 0 {
            return 0.0;
        }
        let length = (tokens as f32 / self.match_length_scale_tokens).min(1.0).powi(2);
        match self.match_length_weight {
            0.0 => share,
            weight => weight * length + (1.0 - weight) * share,
        }
    }
}

impl Scorer for PrefixCache {
    fn score(&self, cx: PickContext<'_>, candidates: &[Slot], scores: &mut [f32]) {
        let hits = &cx.signals.prefix;
        for (score, &slot) in scores.iter_mut().zip(candidates) {
            *score = self.rate(hits.share(slot), hits.tokens(slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prefix::{Index, Settings};
    use crate::request::PromptPart;
    use crate::schedule::{Signals, fixture};
    use crate::server::clock;

    /// Scores of endpoints that were given the first `tokens` of a prompt of 1,024 tokens, 16 blocks.
    fn scores(scorer: &PrefixCache, tokens: &[usize]) -> Vec<f32> {
        let snapshot = fixture::snapshot(u16::try_from(tokens.len()).unwrap());
        let index = Index::new(Settings::default(), 0);
        let chain = |tokens: usize| {
            let mut hashing = index.hashing();
            hashing.feed(PromptPart::Text(&vec![b'x'; tokens * 4]));
            hashing.end(None, None)
        };
        for (endpoint, &tokens) in snapshot.endpoints().zip(tokens) {
            index.record(endpoint.id, &chain(tokens), None);
        }
        let mut signals = Signals::default();
        index.longest(&chain(1024), snapshot.ready(), &mut signals.prefix);
        let (asked, mut rated) = (fixture::Asked::of(&snapshot), vec![0.0; tokens.len()]);
        let cx = PickContext { signals: &signals, ..asked.cx(clock::now()) };
        scorer.score(cx, snapshot.ready(), &mut rated);
        rated
    }

    #[test]
    fn the_score_is_the_share_of_the_prompt_that_matches() {
        assert_eq!(scores(&PrefixCache::default(), &[1024, 512, 0, 64]), [1.0, 0.5, 0.0, 0.0625]);
    }

    #[test]
    fn the_length_of_a_match_counts_by_its_weight() {
        let scorer = PrefixCache {
            match_length_weight: 0.5,
            match_length_scale_tokens: 2048.0,
            ..PrefixCache::default()
        };
        assert_eq!(scores(&scorer, &[1024, 512, 0]), [0.625, 0.281_25, 0.0]);
    }

    #[test]
    fn an_unknown_prompt_scores_zero_everywhere() {
        let (snapshot, mut rated) = (fixture::snapshot(2), vec![0.0; 2]);
        let asked = fixture::Asked::of(&snapshot);
        PrefixCache::default().score(asked.cx(clock::now()), snapshot.ready(), &mut rated);
        assert_eq!(rated, [0.0, 0.0]);
    }

    #[test]
    fn parameters_out_of_range_are_refused_with_the_range() {
        for (raw, want) in [
            (serde_json::json!({"matchLengthWeight": 1.5}), "from 0 to 1"),
            (
                serde_json::json!({"matchLengthWeight": 0.5, "matchLengthScaleTokens": 0}),
                "greater than 0",
            ),
        ] {
            let error = parameters::<PrefixCache>(raw).unwrap().checked().unwrap_err();
            assert!(error.0.contains(want), "{error}");
        }
    }
}
