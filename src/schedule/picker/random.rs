//! Takes endpoints at random, whatever their scores.

use crate::schedule::picker::{HowMany, shuffled};
use crate::schedule::registry::{Build, Plugin};
use crate::schedule::{Needs, Picker};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "random-picker",
    summary: "Takes endpoints at random.",
    needs: Needs::NONE,
    build: Build::Picker(|raw| Ok(Box::new(Random { count: HowMany::read(raw)? }))),
};

#[derive(Debug)]
struct Random {
    count: usize,
}

impl Picker for Random {
    fn pick(&self, scores: &[f32], dice: u64, chosen: &mut Vec<usize>) {
        shuffled(scores.len(), dice, chosen);
        chosen.truncate(self.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_is_drawn_evenly() {
        let (mut counts, mut chosen) = ([0; 4], Vec::new());
        for dice in 0..4000 {
            Random { count: 1 }.pick(&[0.0, 1.0, 0.5, 0.2], dice, &mut chosen);
            counts[chosen[0]] += 1;
        }
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }
}
