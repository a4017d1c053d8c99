//! One figure: samples with a unit, perhaps with a goal.

use std::fmt;

use serde_json::{Value, json};

use crate::percentile::percentile;

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// How many times as much as another.
    Ratio,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Seconds of CPU time a second.
    Cores,
    /// 2^20 bytes.
    MiB,
    /// 10^6 bytes.
    Mb,
    /// Things.
    Count,
}

/// What was measured, in each round.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Of what, unique in its row.
    pub name: String,
    /// What is counted.
    pub unit: Unit,
    /// The samples, sorted; not a number is left out.
    samples: Vec<f64>,
    /// What the median may be at most.
    pub goal: Option<f64>,
    /// What more there is to say.
    pub note: String,
}

impl Figure {
    /// A figure from its samples.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        unit: Unit,
        samples: impl IntoIterator<Item = f64>,
    ) -> Self {
        let mut samples: Vec<f64> = samples.into_iter().filter(|value| value.is_finite()).collect();
        samples.sort_by(f64::total_cmp);
        Self { name: name.into(), unit, samples, goal: None, note: String::new() }
    }

    /// A goal for what was not measured; its unit does not matter.
    #[must_use]
    pub fn missing(name: impl Into<String>, goal: f64) -> Self {
        Self { goal: Some(goal), ..Self::new(name, Unit::Count, []) }
    }

    /// The same with a remark.
    #[must_use]
    pub fn with_note(self, note: String) -> Self {
        Self { note, ..self }
    }

    /// The middle sample, the lower one of two; absent without samples.
    pub fn median(&self) -> Option<f64> {
        percentile(&self.samples, 50)
    }

    /// The least and the greatest sample; absent without samples.
    pub fn range(&self) -> Option<(f64, f64)> {
        self.samples.first().copied().zip(self.samples.last().copied())
    }

    /// Whether the goal is met; absent without a goal or samples.
    pub fn met(&self) -> Option<bool> {
        Some(self.median()? <= self.goal?)
    }

    /// All of it, for scripts.
    pub fn json(&self) -> Value {
        let (least, most) = self.range().unzip();
        json!({
            "name": self.name, "unit": self.unit.to_string(), "median": self.median(), "min": least, "max": most,
            "samples": self.samples, "goal": self.goal, "met": self.met(), "note": self.note,
        })
    }
}

impl Unit {
    /// A value with as many digits as mean something, and the unit.
    pub fn show(self, value: f64) -> String {
        let digits = match self {
            Self::Ratio => 2,
            Self::Cores => 3,
            Self::Us | Self::Ms | Self::MiB | Self::Mb if value < 10.0 => 2,
            Self::Us | Self::Ms | Self::MiB | Self::Mb if value < 1_000.0 => 1,
            Self::Us | Self::Ms | Self::MiB | Self::Mb | Self::Count => 0,
        };
        format!("{value:.digits$}{self}")
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ratio => "x",
            Self::Us => " us",
            Self::Ms => " ms",
            Self::Cores => " cores",
            Self::MiB => " MiB",
            Self::Mb => " MB",
            Self::Count => "",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middle_sample_decides_whether_the_goal_is_met() {
        let mut figure = Figure::new("real / null", Unit::Ratio, [1.5, 1.1, f64::NAN, 1.2]);
        assert_eq!((figure.median(), figure.range()), (Some(1.2), Some((1.1, 1.5))));
        assert_eq!(figure.met(), None);
        for (goal, met) in [(1.2, true), (1.19, false)] {
            figure.goal = Some(goal);
            assert_eq!(figure.met(), Some(met));
        }
        figure.samples.clear();
        assert_eq!(figure.met(), None);
    }

    #[test]
    fn digits_go_with_the_size() {
        let shown =
            [(Unit::Ratio, 1.234), (Unit::Us, 1.234), (Unit::Us, 56.78), (Unit::MiB, 1234.5)]
                .map(|(unit, value)| unit.show(value));
        assert_eq!(shown, ["1.23x", "1.23 us", "56.8 us", "1234 MiB"]);
        assert_eq!(Unit::Count.show(200.0), "200");
    }
}
