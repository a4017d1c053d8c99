//! How fast an endpoint turned out to be.
//!
//! `seconds a token` of prompts is the ratio of two sums, each of which forgets: it is weighted by tokens, so that long
//! prompts, which tell more, count more, and what the steps cost in which prompts and decoding sequences share the engine
//! is taken off. A step in which `n` sequences decode lasts `step * (1 + 0.02 * (n - 1))`: decoding is bound by memory, so a
//! further sequence adds little.

use std::time::{Duration, Instant};

/// Tokens that an engine computes in one step: what vLLM allows unless told otherwise.
pub const CHUNK_TOKENS: f32 = 2048.0;

/// Seconds of prompt computation a token while nothing is known: 8,000 tokens a second.
pub const PROMPT_TOKEN_SECONDS: f32 = 1.0 / 8000.0;

/// Seconds of a step in which one sequence decodes while nothing is known.
const STEP_SECONDS: f32 = 0.02;

/// What each further decoding sequence adds to a step, as a share of it.
const STEP_GROWTH: f32 = 0.02;

/// Seconds that loading an adapter takes while nothing is known.
const LOAD_SECONDS: f32 = 0.2;

/// Weight of the past when a sample is taken in: about the last 30 prompts count.
const KEPT: f32 = 0.967;

/// The time in which what was learnt loses half of its weight.
const HALF_LIFE: Duration = Duration::from_secs(60);

/// A sample counts for at most so many times what was expected: one that was held up elsewhere tells nothing of speed.
const OUTLIER: f32 = 4.0;

/// Share of a new sample in what is known of steps.
const STEP_SHARE: f32 = 1.0 / 16.0;

/// Share of a new sample in what is known of loads.
const LOAD_SHARE: f32 = 1.0 / 4.0;

/// What was learnt of one endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub struct Speed {
    /// Prompt tokens in the sum; 0.0 where nothing was learnt yet.
    pub tokens: f32,
    /// Seconds that they took.
    pub seconds: f32,
    /// Prompts in the sums.
    pub prompts: f32,
    step: Option<f32>,
    load: Option<f32>,
    /// When the sums were last changed.
    at: Option<Instant>,
}

impl Speed {
    /// Seconds that a token of a prompt takes while nothing else is computed; `expected` while nothing was learnt. What
    /// was learnt from few tokens is mixed with it: `weight` tokens of it.
    pub fn prompt_token(&self, expected: f32, weight: f32) -> f32 {
        (self.seconds + weight * expected) / (self.tokens + weight)
    }

    /// Seconds of a step in which `sequences` decode; 0.0 for none.
    pub fn step(&self, sequences: f32) -> f32 {
        if sequences < 1.0 {
            return 0.0;
        }
        self.step.unwrap_or(STEP_SECONDS) * (1.0 + STEP_GROWTH * (sequences - 1.0))
    }

    /// Seconds that loading an adapter takes.
    pub fn load(&self) -> f32 {
        self.load.unwrap_or(LOAD_SECONDS)
    }

    /// The sums as they count at `now`.
    #[must_use]
    pub(in crate::pool) fn at(mut self, now: Instant) -> Self {
        if let Some(at) = self.at.replace(now) {
            let age = now.saturating_duration_since(at).as_secs_f32() / HALF_LIFE.as_secs_f32();
            self.tokens /= 1.0 + age;
            self.seconds /= 1.0 + age;
            self.prompts /= 1.0 + age;
        }
        self
    }

    /// `tokens` of a prompt took `seconds` of an engine, of which `shared` went to other work.
    pub(in crate::pool) fn computed(
        &mut self,
        tokens: f32,
        seconds: f32,
        shared: f32,
        now: Instant,
    ) {
        *self = self.at(now);
        let expected = tokens * self.prompt_token(PROMPT_TOKEN_SECONDS, CHUNK_TOKENS);
        let known = self.tokens > CHUNK_TOKENS;
        let most = if known { OUTLIER * expected } else { f32::INFINITY };
        self.tokens = KEPT * self.tokens + tokens;
        self.prompts = KEPT * self.prompts + 1.0;
        self.seconds = (KEPT * self.seconds + (seconds - shared).min(most)).max(0.0);
    }

    /// A token came `seconds` after the one before it while `sequences` decoded and nothing else was done.
    pub(in crate::pool) fn decoded(&mut self, seconds: f32, sequences: f32) {
        let sample = seconds / (1.0 + STEP_GROWTH * (sequences - 1.0).max(0.0));
        let known = self.step.unwrap_or(STEP_SECONDS);
        self.step = Some(known + STEP_SHARE * (sample.min(OUTLIER * known) - known));
    }

    /// Loading an adapter took so long.
    pub(in crate::pool) fn loaded(&mut self, seconds: f32) {
        let known = self.load();
        self.load = Some(known + LOAD_SHARE * (seconds.clamp(0.0, 16.0 * known) - known));
    }
}
