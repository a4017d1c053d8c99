//! What is learnt from what engines report.

use super::*;
use crate::prefix::{Index, Settings as PrefixSettings};
use crate::request::{PromptPart, Usage};
use crate::units::whole;

/// Blocks of the prompt, of 64 tokens each.
const BLOCKS: u64 = 32;

const TOKENS: u64 = BLOCKS * 64;

fn prompt(tokens: u64, text_bytes: u64) -> Parsed {
    let mut parsed = Parsed::default();
    (parsed.prompt_tokens, parsed.text_bytes) = (tokens, text_bytes);
    parsed
}

/// One endpoint with fresh signals, and a director that remembers prompts.
struct Stage {
    director: Director,
    chain: Chain,
    request: Parsed,
    tokens: u64,
}

impl Stage {
    fn new() -> Self {
        Self::of_tokens(TOKENS)
    }

    /// The prompt has so many tokens.
    fn of_tokens(tokens: u64) -> Self {
        let sample = Sample { waiting: Some(0.0), ..Sample::default() };
        let pool = Arc::new(ArcSwap::from_pointee(fixture::sampled(&[Some(sample)], clock::now())));
        let index = Arc::new(Index::new(PrefixSettings::default(), 1));
        let mut hashing = index.hashing();
        (0..tokens).for_each(|id| hashing.feed(PromptPart::Token(u32::try_from(id).unwrap())));
        let chain = hashing.end(Some("m"), None);
        let request = prompt(tokens, 0);
        Self { director: director(&pool).with_prefix(index), chain, request, tokens }
    }

    /// The same, asked with so many bytes of text.
    fn of_text(text_bytes: u64) -> Self {
        Self { request: prompt(text_bytes / 4, text_bytes), ..Self::new() }
    }

    fn place(&self) -> Decision {
        let ask = Ask {
            request: &self.request,
            headers: &Headers::default(),
            bodyless: false,
            model: Some("m"),
            priority: 0,
            subset: &Subset::All,
            chain: &self.chain,
        };
        self.director.decide(ask, 0).expect("a place")
    }

    /// The answer to a request ends, of whose prompt of so many tokens so many were cached.
    fn answer(&self, decision: Decision, prompt: u64, cached: Option<u64>) {
        let usage = Usage { prompt, completion: 1, total: prompt + 1, cached };
        self.director.reported(Report {
            endpoint: &decision.endpoints[0],
            chain: &self.chain,
            model: Some("m"),
            prediction: decision.prediction,
            usage,
        });
        drop(decision);
    }

    /// So many requests, one after the other, with so many tokens cached each.
    fn serve(&self, requests: u32, cached: Option<u64>) {
        (0..requests).for_each(|_| self.answer(self.place(), self.tokens, cached));
    }

    /// Tokens of the prompt that the endpoint is expected to have now.
    fn expected(&self) -> u64 {
        self.place().prediction.cached_tokens
    }
}

#[test]
fn an_endpoint_that_lacks_what_it_was_given_loses_its_credit_and_regains_it() {
    let stage = Stage::new();
    assert_eq!(stage.expected(), 0);
    assert_eq!(stage.expected(), TOKENS);
    stage.serve(1, Some(0));
    assert!(stage.expected() > TOKENS * 9 / 10, "one answer is no proof");
    stage.serve(100, Some(0));
    assert!(stage.expected() < TOKENS / 50, "{}", stage.expected());
    stage.serve(100, Some(TOKENS - 16));
    assert!(stage.expected() > TOKENS * 49 / 50, "{}", stage.expected());
}

#[test]
fn an_endpoint_that_has_a_quarter_is_expected_to_have_half_and_one_that_has_half_all() {
    let stage = Stage::new();
    stage.serve(101, Some(TOKENS * 9 / 16));
    assert_eq!(stage.expected(), TOKENS);
    stage.serve(101, Some(TOKENS / 4));
    assert!(stage.expected().abs_diff(TOKENS / 2) < TOKENS / 50, "{}", stage.expected());
    let decision = stage.place();
    assert_eq!(
        decision.endpoints[0].live.prompt_tokens(),
        TOKENS - decision.prediction.cached_tokens
    );
}

#[test]
fn an_engine_that_does_not_say_what_it_had_changes_nothing() {
    let stage = Stage::new();
    stage.serve(100, None);
    assert_eq!(stage.expected(), TOKENS);
}

#[test]
fn hits_are_rounded_to_whole_blocks_and_one_token_is_always_computed() {
    let (stage, tokens) = (Stage::of_tokens(128), 128);
    stage.serve(100, Some(tokens - 64 - 16));
    assert_eq!(stage.expected(), tokens);
    stage.serve(1_000, Some(tokens - 64 - 17));
    assert!(stage.expected() < tokens);
}

#[test]
fn what_may_not_have_been_computed_in_time_is_held_against_nobody() {
    let stage = Stage::new();
    let [first, second] = [stage.place(), stage.place()];
    let Prediction { believed, settled, .. } = second.prediction;
    assert_eq!((u64::from(believed), settled), (BLOCKS, 0));
    stage.answer(first, TOKENS, Some(0));
    stage.answer(second, TOKENS, Some(0));
    assert_eq!(stage.expected(), TOKENS);
    assert_eq!(u64::from(stage.place().prediction.settled), BLOCKS, "later it may be");
}

#[test]
fn who_answers_instead_of_the_chosen_one_is_not_judged() {
    let stage = Stage::new();
    for _ in 0..100 {
        let mut decision = stage.place();
        decision.prediction = decision.prediction.elsewhere();
        stage.answer(decision, TOKENS, Some(0));
    }
    assert_eq!(stage.expected(), TOKENS);
}

#[test]
fn of_media_nothing_is_learnt() {
    let mut stage = Stage::of_text(TOKENS * 4);
    stage.request.media = 1;
    (0..100).for_each(|_| stage.answer(stage.place(), TOKENS * 2, Some(0)));
    assert_eq!(stage.place().prediction.prompt_tokens, TOKENS);
    assert_eq!(stage.expected(), TOKENS);
}

#[test]
fn prompts_and_hits_are_counted_in_the_tokens_of_the_model() {
    for ratio in [2.5, 6.0] {
        let stage = Stage::of_text(TOKENS * 4);
        let tokens = whole((TOKENS * 4) as f64 / ratio);
        (0..200).for_each(|_| stage.answer(stage.place(), tokens, Some(tokens - 1)));
        let Decision { prediction, endpoints, in_flight: _in_flight, .. } = stage.place();
        assert!(prediction.prompt_tokens.abs_diff(tokens) < tokens / 20, "{prediction:?}");
        assert!(prediction.prompt_tokens - prediction.cached_tokens < 2, "{prediction:?}");
        assert!(endpoints[0].live.prompt_tokens() < 2, "what is cached is not charged");
    }
}

#[test]
fn an_exact_count_is_left_as_it_is() {
    let mut stage = Stage::of_text(TOKENS * 4);
    (0..200).for_each(|_| stage.answer(stage.place(), TOKENS * 2, None));
    stage.request = prompt(TOKENS, 0);
    let prediction = stage.place().prediction;
    assert_eq!((prediction.prompt_tokens, prediction.cached_tokens), (TOKENS, TOKENS));
}

#[test]
fn what_was_believed_and_what_was_there_are_counted() {
    let stage = Stage::new();
    stage.serve(2, Some(100));
    stage.answer(stage.place(), TOKENS, None);
    let page = stage.director.metrics().page().unwrap();
    for (what, tokens) in [("predicted", TOKENS), ("actual", 200)] {
        let line = format!(
            r#"lodesman_prefix_{what}_tokens_total{{namespace="ns",pool="pool"}} {tokens}"#
        );
        assert!(page.contains(&line), "{line}\n{page}");
    }
}
