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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::clock;

    fn learnt(seconds: &[f32]) -> Speed {
        let (mut speed, now) = (Speed::default(), clock::now());
        seconds.iter().for_each(|&seconds| speed.computed(8_000.0, seconds, 0.0, now));
        speed
    }

    fn second(speed: Speed) -> f32 {
        8_000.0 * speed.prompt_token(PROMPT_TOKEN_SECONDS, 0.1)
    }

    #[test]
    fn one_that_was_held_up_tells_little() {
        let mut times = vec![1.0; 30];
        times.push(600.0);
        let held_up = second(learnt(&times));
        assert!((1.0..1.3).contains(&held_up), "{held_up}");
    }

    #[test]
    fn another_speed_is_learnt_within_some_prompts() {
        let mut times = vec![1.0; 100];
        times.extend([2.0; 30]);
        let slower = second(learnt(&times));
        assert!((1.6..2.0).contains(&slower), "{slower}");
    }

    #[test]
    fn what_was_learnt_long_ago_gives_way_to_what_is_expected() {
        let slow = learnt(&[4.0; 30]);
        let later = slow.at(clock::now() + HALF_LIFE * 20);
        assert!(later.tokens < 0.06 * slow.tokens);
        assert!((second(later) - second(slow)).abs() < 0.01, "the ratio stays");
    }

    #[test]
    fn work_for_others_is_taken_off() {
        let (mut speed, now) = (Speed::default(), clock::now());
        (0..9).for_each(|_| speed.computed(8_000.0, 1.5, 0.5, now));
        assert!((second(speed) - 1.0).abs() < 0.01);
        speed.computed(8_000.0, 0.0, 1e9, now);
        assert!(speed.seconds >= 0.0);
    }

    #[test]
    fn nothing_decodes_in_no_time_and_each_further_sequence_adds_little() {
        let speed = Speed::default();
        assert!(speed.step(0.0).abs() < f32::EPSILON);
        assert!((speed.step(1.0) - 0.02).abs() < 1e-6 && (speed.step(51.0) - 0.04).abs() < 1e-6);
    }
}
