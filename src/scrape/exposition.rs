//! Reads a metrics page (Prometheus text format) as its bytes arrive, and keeps only what a dialect wants.
//!
//! Several series of one metric are several engines behind one address: counts are summed, utilizations give the
//! maximum. A series whose value is malformed, negative or not finite makes its whole signal unknown: a sum without it
//! would show an engine as idle. Timestamps and exemplars are ignored. No copy, but of a line that a chunk boundary
//! cuts; a line longer than 64 KiB is skipped.

use crate::pool::Sample;
use crate::scrape::dialect::{Dialect, Signal};

/// The longest line that is read, in bytes. vLLM's longest, the cache configuration, has about 1,300.
const LONGEST_LINE: usize = 64 << 10;

/// A page while it is read.
#[derive(Debug)]
pub struct Scan<'a> {
    dialect: &'a Dialect,
    /// For each wanted metric.
    found: Vec<Found>,
    /// The beginning of a line whose end has not arrived. Bounded by [`LONGEST_LINE`].
    cut: Vec<u8>,
    /// The present line is too long, and its rest is skipped.
    skipping: bool,
}

/// What was found of one metric.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Found {
    Nothing,
    Values { sum: f64, max: f64 },
    Bad,
}

impl<'a> Scan<'a> {
    /// Begins a page.
    pub fn new(dialect: &'a Dialect) -> Self {
        let found = vec![Found::Nothing; dialect.wanted.len()];
        Self { dialect, found, cut: Vec::new(), skipping: false }
    }

    /// Reads on.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while let Some((line, rest)) = split_line(bytes) {
            bytes = rest;
            if self.cut.is_empty() && !self.skipping {
                self.line(line);
            } else {
                self.keep(line);
                self.end_cut_line();
            }
        }
        self.keep(bytes);
    }

    /// Ends the page.
    pub fn finish(mut self) -> Sample {
        self.end_cut_line();
        let found = self.dialect.wanted.iter().map(|wanted| wanted.signal).zip(&self.found);
        let signal = |wanted| {
            let mut of_signal = found.clone().filter(|(signal, _)| *signal == wanted);
            of_signal.find(|(_, found)| **found != Found::Nothing).map(|(_, found)| *found)
        };
        Sample {
            waiting: signal(Signal::Waiting).and_then(|found| found.fold(|sum, _| sum)),
            running: signal(Signal::Running).and_then(|found| found.fold(|sum, _| sum)),
            kv_usage: signal(Signal::KvUsage).and_then(|found| found.fold(|_, max| max.min(1.0))),
        }
    }

    fn keep(&mut self, part: &[u8]) {
        self.skipping |= self.cut.len() + part.len() > LONGEST_LINE;
        if self.skipping {
            self.cut.clear();
        } else {
            self.cut.extend_from_slice(part);
        }
    }

    fn end_cut_line(&mut self) {
        if !std::mem::take(&mut self.skipping) {
            let mut line = std::mem::take(&mut self.cut);
            self.line(&line);
            line.clear();
            self.cut = line;
        }
    }

    fn line(&mut self, line: &[u8]) {
        if line.len() > LONGEST_LINE {
            return;
        }
        let line = line.trim_ascii_start();
        let first = line.first().and_then(|first| self.dialect.first.get(usize::from(*first)));
        if first != Some(&true) {
            return;
        }
        for (wanted, found) in self.dialect.wanted.iter().zip(&mut self.found) {
            let rest = line.strip_prefix(&*wanted.name);
            if let Some(rest @ [b'{' | b' ' | b'\t', ..]) = rest {
                found.add(value(rest));
            }
        }
    }
}

impl Found {
    fn add(&mut self, value: Option<f64>) {
        *self = match (*self, value.filter(|value| value.is_finite() && *value >= 0.0)) {
            (Self::Bad, _) | (_, None) => Self::Bad,
            (Self::Nothing, Some(value)) => Self::Values { sum: value, max: value },
            (Self::Values { sum, max }, Some(value)) => {
                Self::Values { sum: sum + value, max: max.max(value) }
            }
        };
    }

    fn fold(self, of: impl Fn(f64, f64) -> f64) -> Option<f32> {
        let Self::Values { sum, max } = self else { return None };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the nearest is meant; infinity is refused"
        )]
        let value = of(sum, max) as f32;
        value.is_finite().then_some(value)
    }
}

fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (line, rest) = bytes.split_at_checked(memchr::memchr(b'\n', bytes)?)?;
    Some((line, rest.get(1..)?))
}

/// The value of a series, from what follows its name; none when that is malformed.
fn value(rest: &[u8]) -> Option<f64> {
    let rest = if rest.starts_with(b"{") { after_labels(rest)? } else { rest };
    let rest = rest.trim_ascii_start();
    let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
    std::str::from_utf8(rest.get(..end)?).ok()?.parse().ok()
}

/// What follows `{…}`; braces in quoted label values do not count.
fn after_labels(labels: &[u8]) -> Option<&[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in labels.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b'}' if !quoted => return labels.get(at + 1..),
            _ => (),
        }
    }
    None
}

#[cfg(test)]
mod tests;
