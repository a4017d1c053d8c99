//! Of which requests there are spans.

use crate::spans::Context;

/// 2^63, the number of values that the part of a trace id has which decides.
const ALL: f64 = (1_u64 << 63) as f64;

/// Decides by the trace id, the same for all who sample a trace by the same share, or as the parent does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    /// Trace ids whose lower 63 bits are below this one are sampled.
    below: u64,
    /// Whether a parent's decision stands.
    by_parent: bool,
}

impl Sampler {
    /// Samples this share of the traces, 0.0 ..= 1.0; with `by_parent` only of those that begin here, and of the others
    /// those that their parents sample.
    pub fn new(share: f64, by_parent: bool) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of 2^63, and the cast saturates"
        )]
        let below = (share.clamp(0.0, 1.0) * ALL) as u64;
        Self { below, by_parent }
    }

    /// Whether a trace of this id is sampled.
    pub fn samples(self, parent: Option<Context>, trace_id: u128) -> bool {
        match parent.filter(|_| self.by_parent) {
            Some(parent) => parent.sampled,
            None => trace_id & u128::from(u64::MAX >> 1) < u128::from(self.below),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(sampler: Sampler, parent: Option<bool>) -> usize {
        let ids = (0..1000u128).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
        let parent = parent.map(|sampled| Context { trace_id: 1, span_id: 1, sampled });
        ids.filter(|id| sampler.samples(parent, *id)).count()
    }

    #[test]
    fn a_share_of_the_traces_that_begin_here_is_sampled() {
        assert!((70..130).contains(&sampled(Sampler::new(0.1, true), None)));
        assert_eq!(sampled(Sampler::new(0.0, true), None), 0);
        assert_eq!(sampled(Sampler::new(1.0, true), None), 1000);
    }

    #[test]
    fn a_parent_decides_where_it_is_asked() {
        for share in [0.0, 0.1, 1.0] {
            assert_eq!(sampled(Sampler::new(share, true), Some(true)), 1000);
            assert_eq!(sampled(Sampler::new(share, true), Some(false)), 0);
        }
        assert_eq!(sampled(Sampler::new(0.0, false), Some(true)), 0);
        assert_eq!(sampled(Sampler::new(1.0, false), Some(false)), 1000);
    }
}
