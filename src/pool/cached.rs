//! How much of the prompts of late an endpoint had in its cache.
//!
//! Two shares: what the engine said when it had answered, and what we believed when we placed the request; many engines
//! say nothing unless they are told to. Each goes by the last half to one million tokens of prompts, so it needs no clock:
//! a busy endpoint forgets within seconds, an idle one keeps what it last showed.

use std::sync::atomic::{AtomicU64, Ordering};

/// Tokens of prompts after which what was counted weighs half.
const HORIZON: u64 = 1 << 20;

/// The two shares of one endpoint.
#[derive(Debug, Default)]
pub struct Cached {
    told: Share,
    believed: Share,
}

/// A share of prompts that was cached, and who says so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::pool) enum HitRate {
    /// The engine, 0.0 ..= 1.0.
    Told(f32),
    /// We ourselves, as long as the engine has said nothing.
    Believed(f32),
}

#[derive(Debug, Default)]
struct Share {
    tokens: AtomicU64,
    cached: AtomicU64,
}

impl Cached {
    /// The engine said that it had `cached` of the `tokens` of a prompt.
    pub fn told(&self, cached: u64, tokens: u64) {
        self.told.add(cached, tokens);
    }

    /// A prompt is placed here of which it is taken to have so many tokens.
    #[inline]
    pub fn believed(&self, cached: u64, tokens: u64) {
        self.believed.add(cached, tokens);
    }

    /// The share of late; none before the first prompt.
    pub(in crate::pool) fn rate(&self) -> Option<HitRate> {
        let told = self.told.rate().map(HitRate::Told);
        told.or_else(|| self.believed.rate().map(HitRate::Believed))
    }
}

impl Share {
    fn add(&self, cached: u64, tokens: u64) {
        self.cached.fetch_add(cached.min(tokens), Ordering::Relaxed);
        let sum = self.tokens.fetch_add(tokens, Ordering::Relaxed) + tokens;
        if sum > HORIZON {
            self.halve(sum);
        }
    }

    /// Halves both, by one caller of those that come at a time; whoever comes in between shifts the share by his prompt.
    fn halve(&self, sum: u64) {
        let halved =
            self.tokens.compare_exchange(sum, sum / 2, Ordering::Relaxed, Ordering::Relaxed);
        if halved.is_ok() {
            let half = self.cached.load(Ordering::Relaxed) / 2;
            self.cached.fetch_sub(half, Ordering::Relaxed);
        }
    }

    fn rate(&self) -> Option<f32> {
        let tokens = self.tokens.load(Ordering::Relaxed);
        let cached = self.cached.load(Ordering::Relaxed);
        (tokens > 0).then(|| (cached as f32 / tokens as f32).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_engine_says_counts_before_what_we_believe() {
        let cached = Cached::default();
        assert_eq!(cached.rate(), None);
        cached.believed(50, 200);
        assert_eq!(cached.rate(), Some(HitRate::Believed(0.25)));
        cached.told(0, 100);
        cached.told(200, 100);
        assert_eq!(cached.rate(), Some(HitRate::Told(0.5)), "no more is cached than there is");
    }

    #[test]
    fn prompts_of_long_ago_are_forgotten() {
        let cached = Cached::default();
        let rate = |cached: &Cached| match cached.rate() {
            Some(HitRate::Told(rate)) => rate,
            other => panic!("{other:?}"),
        };
        (0..1_000).for_each(|_| cached.told(10_000, 10_000));
        assert!(rate(&cached) > 0.99);
        (0..1_000).for_each(|_| cached.told(0, 10_000));
        assert!(rate(&cached) < 0.01, "{}", rate(&cached));
    }
}
