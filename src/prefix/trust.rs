//! How far what is believed of an endpoint's cache may be believed.
//!
//! `trust += step * weight * (right - trust)`, from 1.0 on. `right` is the share of the expected tokens that the endpoint
//! said it had. A single answer moves little, dozens move all; what was wrong is forgotten as fast as it was learnt.

use std::sync::atomic::{AtomicU32, Ordering};

/// What one answer moves: after 16 answers that say the same, two thirds of the way are gone.
const STEP: f32 = 1.0 / 16.0;

/// A share, 0.0 ..= 1.0; 1.0 while nothing speaks against it.
#[derive(Debug)]
pub(super) struct Trust(AtomicU32);

impl Default for Trust {
    fn default() -> Self {
        Self(AtomicU32::new(1.0_f32.to_bits()))
    }
}

impl Trust {
    pub(super) fn share(&self) -> f32 {
        f32::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// The share of what is believed that counts. Every cache has forgotten something that is believed in; that is no
    /// reason to doubt the rest, so all of it counts while more than half of it is right.
    pub(super) fn credit(&self) -> f32 {
        (2.0 * self.share()).min(1.0)
    }

    /// An answer said that so much was right; its `weight` is 0.0 ..= 1.0. Of two at one instant one may be lost.
    pub(super) fn hear(&self, right: f32, weight: f32) {
        let trust = self.share();
        let next = trust + STEP * weight.clamp(0.0, 1.0) * (right.clamp(0.0, 1.0) - trust);
        if next.is_finite() {
            self.0.store(next.to_bits(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_lost_and_regained_by_many_answers_and_not_by_one() {
        let trust = Trust::default();
        trust.hear(0.0, 1.0);
        assert!((0.9..1.0).contains(&trust.share()));
        (0..100).for_each(|_| trust.hear(0.0, 1.0));
        assert!(trust.share() < 0.01);
        (0..100).for_each(|_| trust.hear(1.0, 1.0));
        assert!(trust.share() > 0.99);
    }

    #[test]
    fn small_hits_weigh_less_and_what_is_no_number_nothing() {
        let (small, none) = (Trust::default(), Trust::default());
        small.hear(0.0, 0.1);
        assert!(small.share() > 0.99);
        none.hear(f32::NAN, 1.0);
        none.hear(0.0, f32::NAN);
        assert!(none.share() >= 1.0);
    }
}
