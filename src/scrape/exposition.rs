//! Reads a metrics page (Prometheus text format) as its bytes arrive, and keeps only what a dialect wants.
//!
//! Several series of one metric are several engines behind one address: counts are summed, utilizations give the
//! maximum; of attributes, which may be negative, the sum counts. A series whose value is malformed, negative or not finite makes its whole signal unknown: a sum without it
//! would show an engine as idle. Of adapters only the newest series counts. Timestamps and exemplars are ignored. No
//! copy, but of a line that a chunk boundary cuts and of names; a line longer than 64 KiB is skipped.

use std::sync::Arc;

use crate::config::engines::Signal;
use crate::pool::{Attributes, Sample};
use crate::scrape::dialect::{Dialect, Wanted};
use crate::scrape::found::{Found, Named, Newest};
use crate::scrape::series::Series;

/// The longest line that is read, in bytes. vLLM's longest, the cache configuration, has about 1,300.
const LONGEST_LINE: usize = 64 << 10;

/// Reads one page after the other, and allocates nothing while they are alike.
#[derive(Debug)]
pub struct Scan {
    dialect: Arc<Dialect>,
    /// For each wanted metric.
    found: Vec<Found>,
    newest: Newest,
    named: Named,
    /// The beginning of a line whose end has not arrived. Bounded by [`LONGEST_LINE`].
    cut: Vec<u8>,
    /// The present line is too long, and its rest is skipped.
    skipping: bool,
}

impl Scan {
    /// Reads pages in `dialect`.
    pub fn new(dialect: &Arc<Dialect>) -> Self {
        let mut scan = Self {
            dialect: Arc::clone(dialect),
            found: Vec::new(),
            newest: Newest::default(),
            named: Named::default(),
            cut: Vec::new(),
            skipping: false,
        };
        scan.begin(dialect);
        scan
    }

    /// Begins the next page; forgets the rest of one that was not ended.
    pub fn begin(&mut self, dialect: &Arc<Dialect>) {
        self.dialect = Arc::clone(dialect);
        self.found.clear();
        self.found.resize(dialect.wanted.len(), Found::Nothing);
        self.newest.clear();
        self.named.clear();
        self.cut.clear();
        self.skipping = false;
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

    /// Ends the page: what it tells, and of which engine, the first of the dialect that it tells a load of.
    pub fn finish(&mut self) -> Option<(usize, Sample)> {
        self.end_cut_line();
        let dialect = Arc::clone(&self.dialect);
        let mut samples = dialect.engines().map(|engine| (engine, self.load(engine)));
        let (engine, sample) = samples.find(|(_, sample)| !sample.is_empty())?;
        let adapters = self.newest.adapters(engine);
        let (attributes, models) = (self.attributes(engine), self.named.models());
        Some((engine, Sample { adapters, models, attributes, ..sample }))
    }

    /// The numbers of one engine.
    fn load(&self, engine: usize) -> Sample {
        let found = || self.dialect.wanted.iter().zip(&self.found);
        let signal = |signal: Signal| {
            let wanted = |wanted: &Wanted| wanted.engine == engine && *wanted.signal() == signal;
            let mut values = found().filter(|(of, _)| wanted(of)).map(|(_, found)| *found);
            values.find(|found| *found != Found::Nothing).unwrap_or(Found::Nothing)
        };
        Sample {
            waiting: signal(Signal::Waiting).sum(),
            running: signal(Signal::Running).sum(),
            kv_usage: signal(Signal::KvUsage).share(),
            block_size: signal(Signal::BlockSize).greatest(),
            blocks: signal(Signal::Blocks).total(),
            ..Sample::default()
        }
    }

    /// The attributes of one engine; those that the page has not, or not as a number, are absent.
    fn attributes(&self, engine: usize) -> Attributes {
        let found = self.dialect.wanted.iter().zip(&self.found);
        let attribute = |(wanted, found): (&Wanted, &Found)| {
            let Signal::Attribute(key) = wanted.signal() else { return None };
            Some((Arc::clone(key), found.sum()?))
        };
        found.filter(|(wanted, _)| wanted.engine == engine).filter_map(attribute).collect()
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
        let dialect = &*self.dialect;
        let Some((positions, rest)) = dialect.find(line.trim_ascii_start()) else { return };
        let series = Series::parse(rest);
        for &at in positions {
            let (Some(wanted), Some(found)) = (dialect.wanted.get(at), self.found.get_mut(at))
            else {
                continue;
            };
            match (&series, wanted.signal()) {
                (None, _) => found.add(None),
                (Some(series), _) if !selected(wanted, series) => {}
                (Some(series), Signal::Adapters) => self.newest.add(series, wanted.engine),
                (Some(series), Signal::Waiting) => {
                    found.add(number(wanted, series));
                    self.named.add(series);
                }
                (Some(series), Signal::Attribute(_)) => found.add(series.value()),
                (Some(series), _) => found.add(number(wanted, series)),
            }
        }
    }
}

/// Whether a series has the labels that are asked for.
fn selected(wanted: &Wanted, series: &Series<'_>) -> bool {
    let mut labels = wanted.metric.series.labels.iter();
    labels.all(|(name, value)| {
        series.label(name.as_bytes()).is_some_and(|text| *text == *value.as_bytes())
    })
}

/// The number that a series tells, by its value or by a label; none below 0.
fn number(wanted: &Wanted, series: &Series<'_>) -> Option<f64> {
    let number = match &wanted.metric.label {
        Some(label) => {
            let text = series.label(label.as_bytes())?;
            std::str::from_utf8(&text).ok()?.trim().parse().ok()
        }
        None => series.value(),
    };
    number.filter(|number| *number >= 0.0)
}

fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (line, rest) = bytes.split_at_checked(memchr::memchr(b'\n', bytes)?)?;
    Some((line, rest.get(1..)?))
}

#[cfg(test)]
mod tests;
