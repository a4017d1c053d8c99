//! Of how many requests something is told.

use std::fmt;
use std::str::FromStr;

/// Of which requests something is told: `off`, `errors` (those that failed), or a share of those that did not as well,
/// such as `0.01`; 0 is `off`, 1 is all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sampling {
    /// The share of requests without an error, 0.0 ..= 1.0; none where nothing is told.
    share: Option<f32>,
}

/// Why a text says of no requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give off, errors, or a share of the requests from 0 to 1 such as 0.01")]
pub struct BadSampling;

impl Sampling {
    /// Whether a request is told of, `failed` or not; `dice` says something random, 0.0 ..< 1.0.
    pub fn includes(self, failed: bool, dice: impl FnOnce() -> f32) -> bool {
        self.share.is_some_and(|share| failed || dice() < share)
    }

    /// As a number that can be shared: what [`of_bits`](Self::of_bits) takes.
    pub fn bits(self) -> u32 {
        self.share.unwrap_or(f32::NAN).to_bits()
    }

    /// From that number.
    pub fn of_bits(bits: u32) -> Self {
        Self { share: Some(f32::from_bits(bits)).filter(|share| !share.is_nan()) }
    }
}

impl FromStr for Sampling {
    type Err = BadSampling;

    fn from_str(text: &str) -> Result<Self, BadSampling> {
        let share = match text {
            "off" => None,
            "errors" => Some(0.0),
            _ => {
                let share: f32 = text.parse().map_err(|_error| BadSampling)?;
                (0.0..=1.0).contains(&share).then_some(share).ok_or(BadSampling)?;
                Some(share).filter(|share| *share > 0.0)
            }
        };
        Ok(Self { share })
    }
}

impl fmt::Display for Sampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.share {
            None => f.write_str("off"),
            Some(0.0) => f.write_str("errors"),
            Some(share) => write!(f, "{share}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Sampling {
        text.parse().unwrap()
    }

    #[test]
    fn failed_requests_are_told_of_unless_none_are() {
        let told = |text: &str| [true, false].map(|failed| of(text).includes(failed, || 0.4));
        assert_eq!(told("off"), [false, false]);
        assert_eq!(told("0"), [false, false]);
        assert_eq!(told("errors"), [true, false]);
        assert_eq!(told("0.4"), [true, false]);
        assert_eq!(told("0.5"), [true, true]);
        assert_eq!(told("1"), [true, true]);
    }

    #[test]
    fn what_is_written_reads_back_and_so_do_its_bits() {
        for text in ["off", "errors", "0.01", "1"] {
            assert_eq!(of(text).to_string(), text);
            assert_eq!(Sampling::of_bits(of(text).bits()), of(text));
        }
        for bad in ["", "on", "-0.1", "1.1", "NaN", "1%"] {
            assert_eq!(bad.parse::<Sampling>(), Err(BadSampling), "{bad}");
        }
    }
}
