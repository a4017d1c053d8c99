//! Durations and sizes as Go programs spell them, on the command line and in documents.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

pub use self::sampling::{BadSampling, Sampling};

mod sampling;

/// Shorter pieces cost more than they carry; longer ones than 64 KiB a gateway may refuse.
const CHUNK_BYTES: RangeInclusive<u64> = 1_024..=65_536;

/// Units of a duration in seconds.
const DURATION_UNITS: [(&str, f64); 8] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("μs", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
];

/// Units of a size in bytes, without the `B` that may follow.
const SIZE_UNITS: [(&str, u64); 11] = [
    ("", 1),
    ("k", 1_000),
    ("K", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("Ki", 1 << 10),
    ("ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
];

/// Sizes above this are refused: 2^53, the last that a double counts exactly.
const LARGEST: f64 = 9_007_199_254_740_992.0;

/// A duration in Go's spelling: `50ms`, `1m30s`, `1.5h`, `0`; never negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(pub Duration);

/// A number of bytes: `10MiB`, `10Mi`, `25MB`, `25M`, `500`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(pub u64);

/// A value of which zero makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Positive<T>(pub T);

/// A size of body pieces, 1,024 ..= 65,536 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChunkBytes(u64);

/// Why a text is no value of its unit.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadUnit {
    /// No duration.
    #[error("`{0}` is no duration such as 50ms, 2s or 1m30s")]
    Duration(String),
    /// No size.
    #[error("`{0}` is no size such as 65536, 10MiB or 25MB")]
    Quantity(String),
    /// Nothing where something is needed.
    #[error("`{0}` would leave nothing, give more than zero")]
    Zero(String),
    /// A size out of range.
    #[error("{0} is too small or too large, give 1024 to 65536 bytes")]
    Chunk(u64),
}

impl ChunkBytes {
    /// The reference's.
    pub const DEFAULT: Self = Self(62_000);

    /// As a length.
    pub fn bytes(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl FromStr for GoDuration {
    type Err = BadUnit;

    fn from_str(text: &str) -> Result<Self, BadUnit> {
        let bad = || BadUnit::Duration(text.to_owned());
        if text == "0" {
            return Ok(Self(Duration::ZERO));
        }
        let (mut rest, mut seconds) = (text, 0.0);
        while !rest.is_empty() {
            let (number, after) = leading_number(rest).ok_or_else(bad)?;
            let letters = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
            let (unit, after) = after.split_at_checked(letters).ok_or_else(bad)?;
            let scale = DURATION_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?.1;
            seconds += number * scale;
            rest = after;
        }
        if text.is_empty() {
            return Err(bad());
        }
        Duration::try_from_secs_f64(seconds).ok().map(Self).ok_or_else(bad)
    }
}

impl FromStr for Quantity {
    type Err = BadUnit;

    fn from_str(text: &str) -> Result<Self, BadUnit> {
        let bad = || BadUnit::Quantity(text.to_owned());
        let (number, unit) = leading_number(text).ok_or_else(bad)?;
        let unit = unit.strip_suffix('B').unwrap_or(unit);
        let scale = SIZE_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?.1;
        let bytes = (number * scale as f64).round();
        if bytes > LARGEST {
            return Err(bad());
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole, not negative and below 2^53"
        )]
        Ok(Self(bytes as u64))
    }
}

impl FromStr for ChunkBytes {
    type Err = BadUnit;

    fn from_str(text: &str) -> Result<Self, BadUnit> {
        let Quantity(bytes) = text.parse()?;
        if CHUNK_BYTES.contains(&bytes) { Ok(Self(bytes)) } else { Err(BadUnit::Chunk(bytes)) }
    }
}

impl FromStr for Positive<Quantity> {
    type Err = BadUnit;

    fn from_str(text: &str) -> Result<Self, BadUnit> {
        let quantity: Quantity = text.parse()?;
        if quantity.0 == 0 { Err(BadUnit::Zero(text.to_owned())) } else { Ok(Self(quantity)) }
    }
}

impl FromStr for Positive<GoDuration> {
    type Err = BadUnit;

    fn from_str(text: &str) -> Result<Self, BadUnit> {
        let duration: GoDuration = text.parse()?;
        if duration.0.is_zero() { Err(BadUnit::Zero(text.to_owned())) } else { Ok(Self(duration)) }
    }
}

impl<T: fmt::Display> fmt::Display for Positive<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de, T> Deserialize<'de> for Positive<T>
where
    Self: FromStr<Err = BadUnit>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Spelled(PhantomData))
    }
}

/// In the largest unit that leaves a whole number.
impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let units = [("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000)];
        let small = [("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
        let mut units = units.into_iter().chain(small);
        match units.find(|(_, unit)| nanos > 0 && nanos.is_multiple_of(*unit)) {
            Some((name, unit)) => write!(f, "{}{name}", nanos / unit),
            None => f.write_str("0s"),
        }
    }
}

/// In the largest binary unit that leaves a whole number.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units: [(&str, u64); 4] =
            [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        match units.into_iter().find(|(_, unit)| self.0 > 0 && self.0.is_multiple_of(*unit)) {
            Some((name, unit)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}", self.0),
        }
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Spelled(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Spelled(PhantomData))
    }
}

impl<'de> Deserialize<'de> for ChunkBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Spelled(PhantomData))
    }
}

/// Reads a text or a whole number as the text of a `T`.
struct Spelled<T>(PhantomData<T>);

impl<T: FromStr<Err = BadUnit>> Visitor<'_> for Spelled<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number with a unit")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

/// Splits off the decimal number at the start; none when there is none.
fn leading_number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at_checked(end)?;
    Some((number.parse().ok()?, rest))
}

/// The nearest whole number; 0 for what is less, or no number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the nearest is meant")]
pub fn whole(value: f64) -> u64 {
    // What `round` calls where the processor has no instruction for it takes 25 instructions more.
    let below = value as u64;
    below.saturating_add(u64::from(value - below as f64 >= 0.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> Option<u128> {
        text.parse().ok().map(|GoDuration(duration)| duration.as_millis())
    }

    fn bytes(text: &str) -> Option<u64> {
        text.parse().ok().map(|Quantity(bytes)| bytes)
    }

    #[test]
    fn durations_are_gos() {
        for (text, want) in [
            ("50ms", 50),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("1h2m3.5s", 3_723_500),
            ("0", 0),
            ("0s", 0),
            (".5s", 500),
            ("1500µs", 1),
        ] {
            assert_eq!(ms(text), Some(want), "{text}");
        }
        for text in
            ["", "5", "-5s", "s", "5 s", "5sec", "1e3s", "1..5s", "9e9h", "99999999999999999999h"]
        {
            assert_eq!(ms(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for (text, shortest) in [("90s", "90s"), ("60s", "1m"), ("1.5ms", "1500us"), ("0", "0s")] {
            assert_eq!(
                text.parse().map(|read: GoDuration| read.to_string()),
                Ok(shortest.to_owned())
            );
            assert_eq!(ms(text), ms(shortest));
        }
        for (text, shortest) in
            [("65536", "64KiB"), ("62000", "62000"), ("0", "0"), ("2048Mi", "2GiB")]
        {
            assert_eq!(
                text.parse().map(|read: Quantity| read.to_string()),
                Ok(shortest.to_owned())
            );
            assert_eq!(bytes(text), bytes(shortest));
        }
    }

    #[test]
    fn sizes_are_decimal_or_binary() {
        for (text, want) in [
            ("500", 500),
            ("10MiB", 10 << 20),
            ("10Mi", 10 << 20),
            ("25MB", 25_000_000),
            ("2k", 2_000),
            ("1.5GiB", 3 << 29),
            ("7B", 7),
        ] {
            assert_eq!(bytes(text), Some(want), "{text}");
        }
        for text in ["", "MiB", "-1", "10XB", "1e9", "9999999999T", "10 MiB"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }

    #[test]
    fn pieces_of_a_body_have_a_range() {
        assert_eq!("62000".parse::<ChunkBytes>().map(ChunkBytes::bytes), Ok(62_000));
        assert_eq!("64KiB".parse::<ChunkBytes>().map(ChunkBytes::bytes), Ok(65_536));
        assert_eq!("1023".parse::<ChunkBytes>(), Err(BadUnit::Chunk(1023)));
    }
}
