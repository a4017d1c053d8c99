//! How many bytes of text a token has, learnt for each model from what its engines report.
//!
//! `ratio *= (seen / ratio) ^ step`: the geometric mean of the ratios that were seen, of which the last hundred or so
//! count. One that is more than twice or less than half the mean counts as twice or half of it, so a single odd prompt
//! moves little.

use std::collections::HashMap;

use parking_lot::RwLock;

use crate::request::BytesPerToken;

/// Models that have a ratio of their own; the others share that of all.
const MODELS: usize = 256;

/// The longest name that is remembered, in bytes; clients choose names.
const LONGEST_NAME: usize = 256;

/// The shortest text that tells something, in bytes: what a chat template adds to it is a few tokens.
const LEAST_TEXT: u64 = 512;

/// Answers that the first guess counts for.
const PRIOR: u32 = 4;

/// Answers that count.
const MEMORY: u32 = 100;

/// The ratios of all models. Bounded by [`MODELS`].
#[derive(Debug, Default)]
pub(super) struct Calibration(RwLock<Ratios>);

#[derive(Debug, Default)]
struct Ratios {
    all: Mean,
    models: HashMap<Box<str>, Mean>,
}

/// What is known of one model.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    ratio: BytesPerToken,
    /// Answers that were seen, at most [`MEMORY`].
    seen: u32,
}

impl Calibration {
    /// The ratio of a model: that of all where it has none of its own yet.
    pub(super) fn of(&self, model: &str) -> BytesPerToken {
        let ratios = self.0.read();
        ratios.models.get(model).unwrap_or(&ratios.all).ratio
    }

    /// The ratio over all models.
    pub(super) fn of_all(&self) -> BytesPerToken {
        self.0.read().all.ratio
    }

    /// A text of so many bytes had so many tokens. The ratio that the model has now; none when it shares that of all, or
    /// nothing was learnt.
    pub(super) fn learn(&self, model: &str, bytes: u64, tokens: u64) -> Option<BytesPerToken> {
        if bytes < LEAST_TEXT || tokens == 0 {
            return None;
        }
        let seen = bytes as f64 / tokens as f64;
        let Ratios { all, models } = &mut *self.0.write();
        all.learn(seen);
        if !models.contains_key(model) && (models.len() >= MODELS || model.len() > LONGEST_NAME) {
            return None;
        }
        if let Some(mean) = models.get_mut(model) {
            mean.learn(seen);
            return Some(mean.ratio);
        }
        let mut mean = Mean { ratio: all.ratio, seen: 0 };
        mean.learn(seen);
        models.insert(model.into(), mean);
        Some(mean.ratio)
    }
}

impl Mean {
    fn learn(&mut self, seen: f64) {
        let mean = self.ratio.ratio();
        let step = 1.0 / f64::from(self.seen + PRIOR + 1);
        let odd = BytesPerToken::new(seen).ratio() / mean;
        self.ratio = BytesPerToken::new(mean * odd.clamp(0.5, 2.0).powf(step));
        self.seen = (self.seen + 1).min(MEMORY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::whole;

    /// The ratio of `model` after so many answers whose texts have this ratio.
    fn after(calibration: &Calibration, model: &str, ratio: f64, answers: u32) -> f64 {
        let tokens = |n: u64| whole((1000 + n) as f64 / ratio);
        for n in 0..u64::from(answers) {
            calibration.learn(model, 1000 + n, tokens(n));
        }
        calibration.of(model).ratio()
    }

    #[test]
    fn a_ratio_is_found_in_a_few_dozen_answers_and_survives_an_odd_one() {
        for ratio in [2.5, 6.0] {
            let calibration = Calibration::default();
            assert!((calibration.of("m").ratio() - 4.0).abs() < f64::EPSILON);
            let found = after(&calibration, "m", ratio, 150);
            assert!((found / ratio - 1.0).abs() < 0.05, "{found}");
            for odd in [1, 1_000_000] {
                calibration.learn("m", 1_000_000, odd);
            }
            let then = calibration.of("m").ratio();
            assert!((then / found - 1.0).abs() < 0.02, "{found} {then}");
        }
    }

    #[test]
    fn another_tokenizer_is_learnt_anew() {
        let calibration = Calibration::default();
        after(&calibration, "m", 6.0, 1000);
        let found = after(&calibration, "m", 2.5, 600);
        assert!((found / 2.5 - 1.0).abs() < 0.05, "{found}");
    }

    #[test]
    fn models_do_not_mix_and_a_new_one_begins_with_what_all_have() {
        let calibration = Calibration::default();
        after(&calibration, "a", 2.0, 200);
        let begins = calibration.of("b").ratio();
        assert!(begins < 2.2, "{begins}");
        after(&calibration, "b", 6.0, 200);
        assert!(calibration.of("a").ratio() < 2.2);
    }

    #[test]
    fn the_number_of_models_is_bounded_and_the_rest_share_one_ratio() {
        let calibration = Calibration::default();
        for n in 0..1000 {
            calibration.learn(&n.to_string(), 1000, 500);
        }
        assert!(calibration.learn(&"x".repeat(LONGEST_NAME + 1), 1000, 500).is_none());
        assert_eq!(calibration.0.read().models.len(), MODELS);
        assert_eq!(calibration.of("999"), calibration.of_all());
    }

    #[test]
    fn what_tells_nothing_changes_nothing() {
        let calibration = Calibration::default();
        assert_eq!(calibration.learn("m", LEAST_TEXT - 1, 10), None);
        assert_eq!(calibration.learn("m", 100_000, 0), None);
        assert_eq!(calibration.of("m"), BytesPerToken::default());
    }
}
