//! How many replicas a load needs: a queueing estimate.
//!
//! What a request costs a replica follows from what was learnt of its speed. Its prompt of `P` tokens takes `P * t`
//! seconds of the engine and shares `P / 2048` steps with the sequences that decode; an output of `G` tokens takes `G` steps
//! that are shared by all `n` sequences and last `s(n) = s1 * (1 + g * (n - 1))`. So with `r` requests a second
//!
//! ```text
//! a request at best    S = P t + G s(N) / N              N: the most sequences that the engine runs
//! knee                 1 / S                             requests a second that a replica can bear
//! sequences            n = r G s(n) / (1 - r P t)
//! a prompt             p = P t + P / 2048 s(n)
//! load of prompts      rho = r p
//! ```
//!
//! Prompts wait for each other. With `c` replicas and a picker that knows them they are one queue with `c` servers, for which
//! Sakasegawa's approximation of `M/G/c` (Annals of the Institute of Statistical Mathematics 29, 1977) says
//!
//! ```text
//! prompts that wait    W = rho^(sqrt(2 (c + 1)) - 1)
//! those wait, mean     w = (1 + v) / 2 * p / (c (1 - rho))   v: squared coefficient of variation of prompts
//! ```
//!
//! The wait is taken to be exponential, so nine of ten first tokens come within `p + s(n) / 2 + w * ln(10 W)`. Recommended is
//! the least `c` for which that is within the target, the load of the engines is at most the target utilization, and the
//! sequences that are there now fit in. Where even an idle replica misses the target, more of them do not help: then the
//! utilization alone counts.

use crate::pool::{CHUNK_TOKENS, PROMPT_TOKEN_SECONDS, Speed};

/// The most sequences of an engine at a time unless its KV cache holds fewer: what vLLM allows unless told otherwise.
const SEQUENCES: f64 = 256.0;

/// One in so many first tokens may be later than the target.
const ONE_IN: f64 = 10.0;

/// What the first guess counts beside what was learnt, in prompts.
const GUESS_WEIGHT: f32 = 0.5;

/// Replicas that are recommended at most.
pub const MOST: u32 = 10_000;

/// What a request is like, on the average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Tokens of its prompt that are to be computed.
    pub prompt_tokens: f64,
    /// Squared coefficient of variation of these: 0.0 when all prompts are alike.
    pub variation: f64,
    /// Tokens of its answer.
    pub output_tokens: f64,
}

/// What a replica can do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replica {
    /// Seconds that a token of a prompt takes.
    token: f64,
    /// Seconds of a step in which one sequence decodes.
    step: f64,
    /// What each further one adds, as a share of that.
    growth: f64,
    /// Sequences that it runs at most.
    sequences: f64,
}

/// What is asked of the replicas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Seconds within which nine of ten first tokens are to come.
    pub ttft: f64,
    /// Share of their time that engines are to be busy at most, above 0.0 and at most 1.0.
    pub utilization: f64,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Requests that come a second.
    pub rate: f64,
    /// What they are like.
    pub request: Request,
    /// Requests that wait or are computed now.
    pub present: f64,
}

impl Request {
    /// While nothing is known: the mean of the conversations that Azure published in 2023.
    pub const USUAL: Self = Self { prompt_tokens: 1_000.0, variation: 1.0, output_tokens: 211.0 };
}

impl Replica {
    /// The mean of what was learnt of some replicas; what is expected of any while there are none.
    pub fn mean(speeds: impl Iterator<Item = Speed>) -> Self {
        let (mut count, mut token, mut one, mut two) = (0.0, 0.0, 0.0, 0.0);
        let add = |sum: &mut f64, value: f32| *sum += f64::from(value);
        for speed in speeds {
            add(&mut token, speed.prompt_token(PROMPT_TOKEN_SECONDS, GUESS_WEIGHT));
            add(&mut one, speed.step(1.0));
            add(&mut two, speed.step(2.0));
            count += 1.0;
        }
        if count < 1.0 {
            return Self::mean(std::iter::once(Speed::default()));
        }
        let growth = if one > 0.0 { (two - one).max(0.0) / one } else { 0.0 };
        Self { token: token / count, step: one / count, growth, sequences: SEQUENCES }
    }

    /// The same with an engine that runs so many sequences at most.
    #[must_use]
    pub fn running(self, sequences: f64) -> Self {
        Self { sequences: sequences.clamp(1.0, SEQUENCES), ..self }
    }

    /// Sequences that it runs at most.
    pub fn sequences(&self) -> f64 {
        self.sequences
    }

    /// Requests a second that it can bear.
    pub fn knee(&self, request: &Request) -> f64 {
        let output = request.output_tokens * self.steps(self.sequences) / self.sequences;
        1.0 / (request.prompt_tokens * self.token + output).max(f64::MIN_POSITIVE)
    }

    /// Seconds of a step in which so many sequences decode.
    fn steps(&self, sequences: f64) -> f64 {
        self.step * (1.0 + self.growth * (sequences - 1.0).max(0.0))
    }

    /// Sequences that decode at `rate` requests a second of one replica; none when it falls behind.
    fn decoding(&self, rate: f64, request: &Request) -> Option<f64> {
        let left = 1.0 - rate * request.prompt_tokens * self.token;
        if left <= 0.0 {
            return None;
        }
        let one = rate * request.output_tokens * self.step / left;
        let grows = 1.0 - one * self.growth;
        let sequences = one * (1.0 - self.growth).max(0.0) / grows;
        (grows > 0.0 && sequences < self.sequences).then_some(sequences)
    }

    /// Seconds within which nine of ten first tokens come from so many replicas; infinite when they fall behind.
    pub fn first_token(&self, rate: f64, request: &Request, replicas: f64) -> f64 {
        let Some(decoding) = self.decoding(rate / replicas, request) else { return f64::INFINITY };
        let step = if decoding > 0.0 { self.steps(decoding) } else { 0.0 };
        let prompt = request.prompt_tokens * (self.token + step / f64::from(CHUNK_TOKENS));
        let load = rate / replicas * prompt;
        if load >= 1.0 {
            return f64::INFINITY;
        }
        let waits = load.powf((2.0 * (replicas + 1.0)).sqrt() - 1.0);
        let wait = f64::midpoint(1.0, request.variation) * prompt / (replicas * (1.0 - load));
        prompt + step / 2.0 + wait * (ONE_IN * waits).ln().max(0.0)
    }

    /// The replicas that a load needs, 0 ..= [`MOST`]; 0 only for none.
    pub fn needed(&self, load: &Load, goal: Goal) -> u32 {
        let Load { rate, request, present } = load;
        if *rate <= 0.0 && *present <= 0.0 {
            return 0;
        }
        let busy = rate / self.knee(request);
        let least = busy.max(present / self.sequences) / goal.utilization;
        let least = least.ceil().clamp(1.0, f64::from(MOST));
        let in_time = |replicas: &f64| self.first_token(*rate, request, *replicas) <= goal.ttft;
        // beyond twice as many nobody waits any more
        let tried = (0..=whole(least) + 16).map(|more| least + f64::from(more));
        whole(tried.into_iter().find(in_time).unwrap_or(least)).min(MOST)
    }
}

/// A number of things; what is no such number is none.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
pub(in crate::scale) fn whole(value: f64) -> u32 {
    value as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOAL: Goal = Goal { ttft: 1.0, utilization: 0.8 };

    fn replica() -> Replica {
        Replica::mean(std::iter::empty())
    }

    fn needed(rate: f64, goal: Goal) -> u32 {
        replica().needed(&Load { rate, request: Request::USUAL, present: 0.0 }, goal)
    }

    #[test]
    fn nothing_needs_nobody_and_anything_needs_one() {
        assert_eq!((needed(0.0, GOAL), needed(0.001, GOAL)), (0, 1));
        let held = Load { rate: 0.0, request: Request::USUAL, present: 1.0 };
        assert_eq!(replica().needed(&held, GOAL), 1);
    }

    #[test]
    fn the_knee_is_what_the_engine_has_time_for() {
        // 1,000 tokens at 8,000 a second, 211 tokens of which 256 come in a step of 122 ms
        let expected = 1.0 / (0.125 + 211.0 * 0.122 / 256.0);
        let knee = replica().knee(&Request::USUAL);
        assert!((knee - expected).abs() < 0.01 * expected, "{knee} {expected}");
        let few = replica().running(8.0).knee(&Request::USUAL);
        assert!(few < knee / 2.0, "a small cache bears less: {few}");
    }

    #[test]
    fn more_load_never_needs_fewer_and_many_replicas_need_less_slack() {
        let counts: Vec<u32> = (1..200).map(|rate| needed(f64::from(rate), GOAL)).collect();
        assert!(counts.windows(2).all(|pair| pair[0] <= pair[1]), "{counts:?}");
        let knee = replica().knee(&Request::USUAL);
        let last = f64::from(counts[198]);
        assert!((198.0 / knee / 0.8..250.0 / knee / 0.8).contains(&last), "{last} at {knee}");
    }

    #[test]
    fn a_shorter_target_needs_more_and_one_out_of_reach_none_more() {
        let strict = Goal { ttft: 0.25, utilization: 1.0 };
        let lax = Goal { ttft: 5.0, utilization: 1.0 };
        assert!(needed(20.0, strict) > needed(20.0, lax));
        let hopeless = Goal { ttft: 0.01, utilization: 1.0 };
        let knee = replica().knee(&Request::USUAL);
        assert_eq!(needed(20.0, hopeless), whole((20.0 / knee).ceil()));
    }

    #[test]
    fn first_tokens_come_later_with_load_and_never_from_who_falls_behind() {
        let times: Vec<f64> = (0..8)
            .map(|rate| replica().first_token(f64::from(rate), &Request::USUAL, 1.0))
            .collect();
        assert!(times.windows(2).all(|pair| pair[0] < pair[1] || pair[1].is_infinite()));
        assert!((times[0] - 0.125).abs() < 1e-3 && times[7].is_infinite(), "{times:?}");
    }

    // FR-161
    #[test]
    fn requests_that_wait_need_replicas_whatever_comes() {
        let load = Load { rate: 0.1, request: Request::USUAL, present: 1_000.0 };
        assert_eq!(replica().needed(&load, GOAL), 5);
    }
}
