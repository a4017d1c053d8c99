//! Where a rate is going: a straight line through counts.
//!
//! The line is the least squares fit. Requests come at random, so that even a steady rate seems to rise or fall: the slope
//! counts only where it is more than three times its standard error, which for a Poisson process is the root of the rate over
//! the sum of the squared distances in time.

/// Standard errors that a slope must exceed.
const CERTAIN: f64 = 3.0;

/// The least counts that make a line.
const FEWEST: usize = 10;

/// A rate and its change.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::scale) struct Trend {
    /// At the last of the counts, a second.
    pub(in crate::scale) rate: f64,
    /// A second in a second; 0.0 where it cannot be told from chance.
    pub(in crate::scale) slope: f64,
}

impl Trend {
    /// Through counts: seconds from any point in time to the middle of each, its length in seconds, what was counted.
    pub(in crate::scale) fn of(counts: &[(f64, f64, f64)]) -> Self {
        let total = |value: fn(&(f64, f64, f64)) -> f64| counts.iter().map(value).sum::<f64>();
        let (length, counted) = (total(|(_, length, _)| *length), total(|(_, _, count)| *count));
        if length <= 0.0 {
            return Self::default();
        }
        let rate = counted / length;
        let middle = total(|(at, length, _)| at * length) / length;
        let spread = total_by(counts, |(at, length, _)| length * (at - middle).powi(2));
        let along = total_by(counts, |(at, _, count)| count * (at - middle));
        let steady = Self { rate, slope: 0.0 };
        if counts.len() < FEWEST || spread <= 0.0 {
            return steady;
        }
        let slope = along / spread;
        if slope.abs() <= CERTAIN * (rate / spread).sqrt() {
            return steady;
        }
        let end = counts.last().map_or(middle, |(at, length, _)| at + length / 2.0);
        Self { rate: (rate + slope * (end - middle)).max(0.0), slope }
    }
}

fn total_by(counts: &[(f64, f64, f64)], value: impl Fn(&(f64, f64, f64)) -> f64) -> f64 {
    counts.iter().map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(rate: impl Fn(f64) -> f64) -> Vec<(f64, f64, f64)> {
        (0..120).map(|at| (f64::from(at), 1.0, rate(f64::from(at)))).collect()
    }

    #[test]
    fn a_ramp_is_followed_and_foretold() {
        let trend = Trend::of(&counts(|at| 5.0 + 0.2 * at));
        assert!((trend.slope - 0.2).abs() < 1e-9, "{trend:?}");
        assert!((trend.rate - 28.9).abs() < 1e-6, "{trend:?}");
        let falling = Trend::of(&counts(|at| (60.0 - at).max(0.0)));
        assert!(falling.slope < -0.3 && falling.rate.abs() < 1e-9, "{falling:?}");
    }

    #[test]
    fn chance_is_no_trend() {
        let mut dice = fastrand::Rng::with_seed(1);
        let mut trends = 0;
        for _ in 0..200 {
            let by_chance: Vec<_> = (0..120)
                .map(|at| {
                    let count = (0..100).filter(|_| dice.f64() < 0.1).count();
                    (f64::from(at), 1.0, count as f64)
                })
                .collect();
            trends += u32::from(Trend::of(&by_chance).slope != 0.0);
        }
        assert!(trends < 5, "one in 370 is beyond three standard errors: {trends}");
    }

    #[test]
    fn few_counts_are_a_rate_and_none_are_nothing() {
        assert_eq!(Trend::of(&[]), Trend::default());
        let few = Trend::of(&[(0.0, 1.0, 0.0), (1.0, 1.0, 10.0)]);
        assert_eq!(few, Trend { rate: 5.0, slope: 0.0 });
    }
}
