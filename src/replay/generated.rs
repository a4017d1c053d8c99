//! Workloads made up from a seed, for what no public trace shows.
//!
//! Requests arrive as a Poisson process: the gaps are exponential, scaled as a whole to the load that is asked for.

use std::time::Duration;

use crate::replay::prompt::Segment;
use crate::replay::{Arrival, Workload, timing};
use crate::sim::engine::AdapterId;

/// Share of the fleet's caches that the prefixes of [`Kind::Shareable`] fill together: they fit, if each is kept once.
const FILLED: f64 = 0.8;

/// Prompt tokens of all requests together that are made up: their hashes take 2.5 GB for each run at a time.
pub const MOST_MADE_UP: u64 = 4_000_000_000;

/// Above the ids of prefixes.
const OWN_CONTENT: u64 = 1 << 32;

/// What is made up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// This share of the requests (0.0 ..= 1.0) begins with one of many prefixes, each as likely as the others, which fill
    /// 80 % of the fleet's caches; all go on with tokens of their own.
    Shareable(f64),
    /// This share of the requests (0.0 ..= 1.0) begins with one and the same prefix; the others are as long, with nothing
    /// in common.
    HotPrefix(f64),
    /// So many requests at one instant, with nothing in common.
    Burst(usize),
    /// Each request, with nothing in common, needs one of so many adapters, by Zipf's law with exponent 1.
    Adapters(u32),
}

/// How much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Requests that count.
    pub requests: usize,
    /// Requests before them that only warm the caches.
    pub warm_up: usize,
    /// Length of a prefix.
    pub prefix_tokens: usize,
    /// Length of what is a request's own.
    pub own_tokens: usize,
    /// Tokens that each generates.
    pub output_tokens: usize,
}

impl Shape {
    /// Prompt tokens of all requests together, at most.
    pub fn prompt_tokens(&self) -> u64 {
        let sum = |a: usize, b: usize| a.saturating_add(b) as u64;
        let each = sum(self.prefix_tokens, self.own_tokens);
        sum(self.warm_up, self.requests).saturating_mul(each)
    }
}

impl Kind {
    /// The usual shape.
    pub fn shape(self) -> Shape {
        let shape = Shape {
            requests: 10_000,
            warm_up: 0,
            prefix_tokens: 2_000,
            own_tokens: 200,
            output_tokens: 50,
        };
        match self {
            Self::Shareable(_) => Shape { requests: 20_000, warm_up: 4_000, ..shape },
            Self::HotPrefix(_) => shape,
            Self::Burst(requests) => {
                Shape { requests, prefix_tokens: 0, own_tokens: 1_000, ..shape }
            }
            Self::Adapters(_) => Shape { prefix_tokens: 0, own_tokens: 1_000, ..shape },
        }
    }

    /// The usual load; none where all requests arrive at once.
    pub fn load(self) -> Option<f64> {
        match self {
            Self::Shareable(_) | Self::HotPrefix(_) => Some(0.5),
            Self::Burst(_) => None,
            Self::Adapters(_) => Some(0.6),
        }
    }

    /// The usual number of pods.
    pub fn pods(self) -> usize {
        if let Self::Burst(_) = self { 16 } else { 8 }
    }

    /// The usual time to load an adapter.
    pub fn adapter_load(self) -> Option<Duration> {
        matches!(self, Self::Adapters(_)).then_some(Duration::from_millis(500))
    }

    /// Requests for a fleet with caches of `cache_tokens` together. The gaps between arrivals have a mean of one second:
    /// they are to be scaled.
    pub fn workload(self, shape: &Shape, cache_tokens: usize, seed: u64) -> Workload {
        let mut dice = timing::dice(seed);
        let prefixes = FILLED * cache_tokens as f64 / shape.prefix_tokens.max(1) as f64;
        let mut at = Duration::ZERO;
        let arrivals = (0..shape.warm_up + shape.requests).map(|id| {
            let arrival = self.arrival(shape, prefixes.max(1.0), id as u64, &mut dice);
            let arrival = Arrival { at, counts: id >= shape.warm_up, ..arrival };
            at += self.gap(&mut dice);
            arrival
        });
        Workload { arrivals: arrivals.collect() }
    }

    fn gap(self, dice: &mut fastrand::Rng) -> Duration {
        match self {
            Self::Burst(_) => Duration::ZERO,
            Self::Shareable(_) | Self::HotPrefix(_) | Self::Adapters(_) => {
                Duration::from_secs_f64(-(1.0 - dice.f64()).ln())
            }
        }
    }

    fn arrival(self, shape: &Shape, choices: f64, id: u64, dice: &mut fastrand::Rng) -> Arrival {
        let own = Segment { content: OWN_CONTENT + id, tokens: shape.own_tokens };
        let after = |content: u64| {
            let prefix = Segment { content, tokens: shape.prefix_tokens };
            let arrival = Arrival::new(Duration::ZERO, &[prefix, own], shape.output_tokens);
            Arrival { shared_tokens: shape.prefix_tokens, ..arrival }
        };
        let alone = |tokens| {
            Arrival::new(Duration::ZERO, &[Segment { tokens, ..own }], shape.output_tokens)
        };
        match self {
            Self::Shareable(of) if dice.f64() < of => after(one_of(choices, dice)),
            Self::HotPrefix(of) if dice.f64() < of => after(0),
            Self::HotPrefix(_) => alone(shape.prefix_tokens + shape.own_tokens),
            Self::Shareable(_) | Self::Burst(_) => alone(shape.own_tokens),
            Self::Adapters(adapters) => {
                Arrival { adapter: Some(zipf(adapters, dice)), ..alone(shape.own_tokens) }
            }
        }
    }
}

/// A whole number below `count`, each as likely.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below `count`")]
fn one_of(count: f64, dice: &mut fastrand::Rng) -> u64 {
    dice.u64(0..count.max(1.0) as u64)
}

/// An adapter of `count`, the nth with a weight of `1 / n`.
fn zipf(count: u32, dice: &mut fastrand::Rng) -> AdapterId {
    let weight = |rank: u32| 1.0 / f64::from(rank);
    let mut left = dice.f64() * (1..=count).map(weight).sum::<f64>();
    let chosen = (1..count).find(|rank| {
        left -= weight(*rank);
        left < 0.0
    });
    AdapterId(chosen.unwrap_or(count).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const FLEET: usize = 2 * 40_000;

    /// Of a tenth of the usual requests.
    fn workload(kind: Kind, seed: u64) -> Workload {
        let usual = kind.shape();
        let (requests, warm_up) = (usual.requests / 10, usual.warm_up / 10);
        kind.workload(&Shape { requests, warm_up, ..usual }, FLEET, seed)
    }

    fn share(workload: &Workload, of: impl Fn(&Arrival) -> bool) -> f64 {
        let count = workload.arrivals.iter().filter(|arrival| of(arrival)).count();
        count as f64 / workload.arrivals.len() as f64
    }

    #[test]
    fn shareable_prefixes_fill_four_fifths_of_the_caches() {
        let workload = workload(Kind::Shareable(0.7), 1);
        assert_eq!(workload.arrivals.len(), 2_400);
        assert!(workload.arrivals.iter().position(|arrival| arrival.counts) == Some(400));
        assert!((share(&workload, |arrival| arrival.shared_tokens == 2_000) - 0.7).abs() < 0.03);
        let shared = workload.arrivals.iter().filter(|arrival| arrival.shared_tokens > 0);
        let prefixes: BTreeSet<_> = shared.map(|arrival| arrival.blocks[124]).collect();
        assert_eq!(prefixes.len(), FLEET * 8 / 10 / 2_000);
    }

    #[test]
    fn unique_prompts_have_nothing_in_common() {
        let workload = workload(Kind::HotPrefix(0.8), 1);
        let firsts: BTreeSet<_> = workload.arrivals.iter().map(|one| one.blocks[0]).collect();
        let unique = workload.arrivals.iter().filter(|one| one.shared_tokens == 0).count();
        assert_eq!(firsts.len(), unique + 1, "the hot prefix is one more");
        assert!(workload.arrivals.iter().all(|one| one.prompt_tokens == 2_200));
    }

    #[test]
    fn arrivals_are_a_poisson_process_of_the_load_asked_for() {
        let mut workload = workload(Kind::Adapters(12), 1);
        workload.scale(0.6, 64_000.0);
        assert!((workload.load(64_000.0).unwrap() - 0.6).abs() < 1e-9);
        let gaps: Vec<_> = workload
            .arrivals
            .windows(2)
            .map(|two| two[1].at.saturating_sub(two[0].at).as_secs_f64())
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let above = gaps.iter().filter(|gap| **gap > mean).count() as f64 / gaps.len() as f64;
        assert!((above - (-1.0_f64).exp()).abs() < 0.04, "as of an exponential distribution");
    }

    #[test]
    fn adapters_follow_zipfs_law() {
        let workload = workload(Kind::Adapters(12), 1);
        let of = |id| share(&workload, |arrival| arrival.adapter == Some(AdapterId(id)));
        let all: f64 = (1..=12).map(|rank| 1.0 / f64::from(rank)).sum();
        for rank in [1, 2, 12] {
            let expected = 1.0 / f64::from(rank) / all;
            assert!((of(rank - 1) - expected).abs() < 0.04, "rank {rank}");
        }
    }

    #[test]
    fn usual_shapes_can_be_made_up() {
        let kinds =
            [Kind::Shareable(1.0), Kind::HotPrefix(1.0), Kind::Burst(1_000_000), Kind::Adapters(1)];
        for kind in kinds {
            assert!(kind.shape().prompt_tokens() <= MOST_MADE_UP, "{kind:?}");
        }
        let all = Kind::Shareable(1.0).shape().prompt_tokens();
        assert_eq!(all, 24_000 * 2_200, "those that warm the caches too");
        let endless = Shape { own_tokens: usize::MAX, ..Kind::Shareable(1.0).shape() };
        assert!(endless.prompt_tokens() > MOST_MADE_UP, "without an overflow");
    }

    #[test]
    fn a_burst_arrives_at_one_instant() {
        let burst = workload(Kind::Burst(1_000), 1);
        assert_eq!(burst.arrivals.len(), 100);
        assert!(burst.arrivals.iter().all(|arrival| arrival.at == Duration::ZERO));
    }

    #[test]
    fn the_seed_decides() {
        let of = |seed| {
            let workload = workload(Kind::Shareable(0.5), seed);
            workload.arrivals.iter().map(|one| (one.at, one.blocks[0])).collect::<Vec<_>>()
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
