//! How fast an endpoint turned out to be.
//!
//! What a token of a prompt takes is a moving mean of its logarithm, in which long prompts count more and no sample moves
//! it far. What the steps cost in which prompts and decoding sequences share the engine is taken off before. A step in
//! which `n` sequences decode lasts `step * (1 + 0.02 * (n - 1))`: decoding is bound by memory, so a further sequence adds
//! little.

use std::time::{Duration, Instant};

/// Tokens that an engine computes in one step: what vLLM allows unless told otherwise.
pub const CHUNK_TOKENS: f32 = 2048.0;

/// Seconds of prompt computation a token while nothing is known: 8,000 tokens a second.
pub const PROMPT_TOKEN_SECONDS: f32 = 1.0 / 8000.0;

/// Seconds of a step in which one sequence decodes while nothing is known.
pub const STEP_SECONDS: f32 = 0.02;

/// What each further decoding sequence adds to a step, as a share of it.
const STEP_GROWTH: f32 = 0.02;

/// Seconds that loading an adapter takes while nothing is known.
const LOAD_SECONDS: f32 = 0.2;

/// Seconds of a token: beyond these no engine is.
const FASTEST: f32 = 1e-7;
const SLOWEST: f32 = 1.0;

/// The time in which what was learnt loses half of its weight.
const HALF_LIFE: Duration = Duration::from_mins(4);

/// Share of a new sample of a long prompt in what is known of prompts.
const TOKEN_SHARE: f32 = 0.2;

/// Prompts that what is known weighs at most: then one that is mixed in counts no less.
const REMEMBERED: f32 = 30.0;

/// What one sample may change, as a factor of 1.06 up or down: a prompt that was held up, or of which less was cached
/// than we thought, tells nothing of speed. Twelve that agree make a factor of two.
const FIRM: f32 = 0.06;

/// Samples of steps count for at most so many times what was expected.
const OUTLIER: f32 = 4.0;

/// Share of a new sample in what is known of steps.
const STEP_SHARE: f32 = 1.0 / 16.0;

/// Share of a new sample in what is known of loads.
const LOAD_SHARE: f32 = 1.0 / 4.0;

/// What was learnt of one endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Speed {
    /// Seconds that a token of a prompt takes; nothing while `weight` is 0.0.
    token: f32,
    /// Prompts that it was learnt from, short ones by their share of a chunk; forgets by the minute.
    weight: f32,
    /// Tokens of a prompt, a moving mean; nothing while `weight` is 0.0.
    prompt: f32,
    step: Option<f32>,
    load: Option<f32>,
    /// When `weight` was last changed.
    #[serde(skip)]
    at: Option<Instant>,
}

impl Speed {
    /// Prompts that it was learnt from; 0.0 while nothing is known.
    #[inline]
    pub fn weight(&self) -> f32 {
        self.weight
    }

    /// Seconds that a token of a prompt takes, times [`weight`](Self::weight): a term of a mean.
    #[inline]
    pub fn tokens_learnt(&self) -> f32 {
        self.weight * self.token
    }

    /// Tokens of a prompt, times [`weight`](Self::weight).
    #[inline]
    pub fn prompts_learnt(&self) -> f32 {
        self.weight * self.prompt
    }

    /// Seconds that a token of a prompt takes while nothing else is computed: what was learnt, mixed with what is
    /// `expected` as if that had been learnt from `weight` prompts.
    #[inline]
    pub fn prompt_token(&self, expected: f32, weight: f32) -> f32 {
        (self.weight * self.token + weight * expected) / (self.weight + weight)
    }

    /// Seconds of a step in which `sequences` decode; 0.0 for none.
    #[inline]
    pub fn step(&self, sequences: f32) -> f32 {
        if sequences < 1.0 {
            return 0.0;
        }
        self.lone_step().unwrap_or(STEP_SECONDS) * Self::growth(sequences)
    }

    /// Seconds of a step in which one sequence decodes; none until it was learnt.
    #[inline]
    pub fn lone_step(&self) -> Option<f32> {
        self.step
    }

    /// How many times as long as with one a step is in which `sequences` decode.
    #[inline]
    pub fn growth(sequences: f32) -> f32 {
        1.0 + STEP_GROWTH * (sequences - 1.0).max(0.0)
    }

    /// Seconds that loading an adapter takes.
    pub fn load(&self) -> f32 {
        self.load.unwrap_or(LOAD_SECONDS)
    }

    /// Tokens of a prompt in a second, and milliseconds of a step in which one sequence decodes; each is none until it was
    /// learnt.
    pub(in crate::pool) fn learnt(&self) -> (Option<f32>, Option<f32>) {
        let prompts = (self.weight > 0.0).then(|| 1.0 / self.token);
        (prompts.filter(|rate| rate.is_finite()), self.step.map(|step| step * 1e3))
    }

    /// What was learnt as it counts at `now`.
    #[must_use]
    #[inline]
    pub(in crate::pool) fn at(mut self, now: Instant) -> Self {
        if let Some(at) = self.at.replace(now) {
            let age = now.saturating_duration_since(at).as_secs_f32();
            self.weight *= (-age / HALF_LIFE.as_secs_f32()).exp2();
        }
        self
    }

    /// `tokens` of prompts took `seconds` of an engine.
    pub(in crate::pool) fn computed(&mut self, tokens: f32, seconds: f32, now: Instant) {
        *self = self.at(now);
        let weight = (tokens / CHUNK_TOKENS).min(1.0);
        let known = if self.weight > 0.0 { self.token } else { PROMPT_TOKEN_SECONDS };
        let ratio = (seconds / (tokens * known)).clamp(0.1, 10.0);
        let share = weight * TOKEN_SHARE.max(1.0 / (1.0 + self.weight));
        let firm = FIRM * (1.0 + 10.0 / (1.0 + self.weight).powi(2));
        let token = known * (share * ratio.ln()).clamp(-firm, firm).exp();
        self.token = token.clamp(FASTEST, SLOWEST);
        let prompt = if self.weight > 0.0 { self.prompt } else { tokens };
        self.prompt = prompt + TOKEN_SHARE * (tokens - prompt);
        self.weight = (self.weight + weight).min(REMEMBERED);
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
        for &seconds in seconds {
            speed.computed(8_000.0, seconds, now);
        }
        speed
    }

    fn second(speed: Speed) -> f32 {
        8_000.0 * speed.prompt_token(PROMPT_TOKEN_SECONDS, 1e-3)
    }

    #[test]
    fn a_few_prompts_tell_much_and_further_ones_the_rest() {
        let [one, four, thirty] = [1, 4, 30].map(|prompts| second(learnt(&vec![3.0; prompts])));
        assert!(1.5 < one && one < four && four < thirty, "{one} {four} {thirty}");
        assert!((2.9..3.1).contains(&thirty), "{thirty}");
    }

    #[test]
    fn one_that_was_held_up_tells_little() {
        let mut times = vec![1.0; 30];
        times.push(600.0);
        let held_up = second(learnt(&times));
        assert!((1.0..1.07).contains(&held_up), "{held_up}");
    }

    #[test]
    fn another_speed_is_learnt_within_some_prompts() {
        let mut times = vec![1.0; 100];
        times.extend([2.0; 20]);
        let slower = second(learnt(&times));
        assert!((1.8..2.0).contains(&slower), "{slower}");
    }

    #[test]
    fn what_was_learnt_long_ago_gives_way_to_what_is_expected() {
        let slow = learnt(&[4.0; 30]);
        let later = slow.at(clock::now() + HALF_LIFE * 20);
        assert!(later.weight() < 1e-3 * slow.weight());
        assert!(second(later) < second(slow), "what is expected counts more");
    }

    #[test]
    fn no_sample_however_wrong_makes_a_speed_that_is_none() {
        let fast = second(learnt(&vec![0.0; 5_000]));
        let slow = second(learnt(&vec![1e12; 5_000]));
        assert!(fast > 0.0 && slow.is_finite() && fast < slow, "{fast} {slow}");
    }

    #[test]
    fn short_prompts_and_no_time_at_all_move_little() {
        let (mut speed, now) = (learnt(&[1.0; 30]), clock::now());
        speed.computed(20.0, 5.0, now);
        speed.computed(20.0, 0.0, now);
        speed.computed(20.0, -5.0, now);
        assert!((0.98..1.02).contains(&second(speed)), "{speed:?}");
    }

    #[test]
    fn nothing_decodes_in_no_time_and_each_further_sequence_adds_little() {
        let speed = Speed::default();
        assert!(speed.step(0.0).abs() < f32::EPSILON);
        assert!((speed.step(1.0) - 0.02).abs() < 1e-6 && (speed.step(51.0) - 0.04).abs() < 1e-6);
    }
}
