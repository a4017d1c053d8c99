//! Takes the endpoints with the highest scores, in random order among equals.

use crate::schedule::picker::{HowMany, shuffled};
use crate::schedule::registry::{Build, Plugin};
use crate::schedule::{Needs, Picker};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "max-score-picker",
    summary: "Takes the endpoints with the highest scores, at random among equals.",
    needs: Needs::NONE,
    build: Build::Picker(|raw| Ok(Box::new(MaxScore { count: HowMany::read(raw)? }))),
};

#[derive(Debug)]
struct MaxScore {
    count: usize,
}

impl Picker for MaxScore {
    fn pick(&self, scores: &[f32], dice: u64, chosen: &mut Vec<usize>) {
        if self.count == 1 {
            chosen.clear();
            chosen.extend(best(scores, dice));
            return;
        }
        let score = |at: usize| scores.get(at).copied().unwrap_or_default();
        shuffled(scores.len(), dice, chosen);
        chosen.sort_by(|&a, &b| score(b).total_cmp(&score(a)));
        chosen.truncate(self.count);
    }
}

/// Position of the highest score, at random among equals; none when there is none.
fn best(scores: &[f32], dice: u64) -> Option<usize> {
    let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let equals = || scores.iter().enumerate().filter(|&(_, &score)| score >= max);
    let count = equals().count();
    let drawn = fastrand::Rng::with_seed(dice).usize(..count.max(1));
    equals().nth(drawn).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picks(count: usize, scores: &[f32], dice: u64) -> Vec<usize> {
        let mut chosen = vec![9];
        MaxScore { count }.pick(scores, dice, &mut chosen);
        chosen
    }

    #[test]
    fn the_best_is_chosen_and_equals_are_drawn_evenly() {
        let mut counts = [0; 3];
        for dice in 0..2000 {
            counts[picks(1, &[1.0, 0.5, 1.0], dice)[0]] += 1;
        }
        assert_eq!(counts[1], 0);
        assert!((900..1100).contains(&counts[0]), "{counts:?}");
    }

    #[test]
    fn several_come_best_first() {
        assert_eq!(picks(2, &[0.1, 0.9, 0.5], 1), [1, 2]);
        assert_eq!(picks(5, &[0.1, 0.9, 0.5], 1), [1, 2, 0]);
    }

    #[test]
    fn nothing_to_choose_from_chooses_nothing() {
        assert!(picks(1, &[], 1).is_empty());
    }
}
