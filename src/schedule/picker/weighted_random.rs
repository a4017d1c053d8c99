//! Draws endpoints with a probability in proportion to their scores.
//!
//! Without replacement, by the largest of `ln(u) / score` with `u` uniform in 0 .. 1, which orders as `u^(1 / score)`
//! does (Efraimidis and Spirakis 2006). A score of 0 or less comes after all others; when no score is above 0 all are
//! equal.

use crate::schedule::picker::{HowMany, shuffled};
use crate::schedule::registry::{Build, Plugin};
use crate::schedule::{Needs, Picker};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "weighted-random-picker",
    summary: "Draws endpoints with a probability in proportion to their scores.",
    needs: Needs::NONE,
    build: Build::Picker(|raw| Ok(Box::new(WeightedRandom { count: HowMany::read(raw)? }))),
};

#[derive(Debug)]
struct WeightedRandom {
    count: usize,
}

impl Picker for WeightedRandom {
    fn pick(&self, scores: &[f32], dice: u64, chosen: &mut Vec<usize>) {
        let key = |at: usize| key(scores.get(at).copied().unwrap_or_default(), at, dice);
        shuffled(scores.len(), dice, chosen);
        if self.count == 1 {
            let best = chosen.iter().copied().max_by(|&a, &b| key(a).total_cmp(&key(b)));
            chosen.clear();
            chosen.extend(best);
            return;
        }
        chosen.sort_by(|&a, &b| key(b).total_cmp(&key(a)));
        chosen.truncate(self.count);
    }
}

/// The lot of the candidate at position `at`: the same each time it is asked for in one pick.
fn key(score: f32, at: usize, dice: u64) -> f64 {
    if score > 0.0 {
        // An odd multiplier keeps the seeds of positions apart; the generator mixes them.
        let seed = dice.wrapping_add((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let uniform = 1.0 - fastrand::Rng::with_seed(seed).f64();
        uniform.ln() / f64::from(score)
    } else {
        f64::NEG_INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each position comes first in 10,000 picks.
    fn firsts(count: usize, scores: &[f32]) -> Vec<usize> {
        let (mut counts, mut chosen) = (vec![0; scores.len()], Vec::new());
        for dice in 0..10_000 {
            WeightedRandom { count }.pick(scores, dice, &mut chosen);
            assert_eq!(chosen.len(), count.min(scores.len()));
            counts[chosen[0]] += 1;
        }
        counts
    }

    /// Pearson's statistic of counts against shares of their sum.
    fn chi_square(counts: &[usize], shares: &[f64]) -> f64 {
        let total: usize = counts.iter().sum();
        let part = |(&count, share): (&usize, &f64)| {
            let expected = share * total as f64;
            (count as f64 - expected).powi(2) / expected
        };
        counts.iter().zip(shares).map(part).sum()
    }

    // FR-059
    #[test]
    fn the_first_is_drawn_in_proportion_to_its_score() {
        for count in [1, 2] {
            let counts = firsts(count, &[5.0, 4.0, 1.0]);
            let chi_square = chi_square(&counts, &[0.5, 0.4, 0.1]);
            assert!(chi_square < 13.8, "{counts:?}: {chi_square}, 13.8 is p = 0.001");
        }
    }

    #[test]
    fn without_a_positive_score_all_are_equal_and_else_none_of_the_others_is_first() {
        let counts = firsts(1, &[0.0, -1.0, f32::NAN]);
        assert!(chi_square(&counts, &[1.0 / 3.0; 3]) < 13.8, "{counts:?}");
        assert_eq!(firsts(1, &[0.0, 0.001, f32::NAN]), [0, 10_000, 0]);
    }

    #[test]
    fn more_than_there_are_is_all_and_of_none_none() {
        let mut chosen = vec![7];
        WeightedRandom { count: 9 }.pick(&[0.0, 1.0, 0.5], 3, &mut chosen);
        chosen.truncate(2);
        chosen.sort_unstable();
        assert_eq!(chosen, [1, 2], "the score of 0 is last");
        WeightedRandom { count: 1 }.pick(&[], 3, &mut chosen);
        assert!(chosen.is_empty());
    }
}
