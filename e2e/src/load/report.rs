//! The figures of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::usage::Usage;
use crate::percentile::percentile;

/// Different failures that a report names; the others are only counted.
const FAILURES: usize = 10;

/// How one request ended.
#[derive(Debug)]
pub(super) enum Record {
    /// Served; the time from the last body byte to the header reply.
    Served(Duration),
    /// Refused with a status.
    Rejected(u32),
    /// Reset on purpose.
    Aborted,
    /// Anything else, with the reason.
    Failed(String),
}

/// What a run measured.
#[derive(Debug)]
pub struct Report {
    served: usize,
    aborted: usize,
    failed: usize,
    rejected: BTreeMap<u32, usize>,
    failures: BTreeMap<String, usize>,
    /// Sorted times to the header reply.
    decisions: Vec<Duration>,
    elapsed: Duration,
    held: usize,
    usage: Option<Usage>,
}

impl Report {
    pub(super) fn new(
        records: Vec<Record>,
        elapsed: Duration,
        held: usize,
        usage: Option<Usage>,
    ) -> Self {
        let mut report = Self {
            served: 0,
            aborted: 0,
            failed: 0,
            rejected: BTreeMap::new(),
            failures: BTreeMap::new(),
            decisions: Vec::with_capacity(records.len()),
            elapsed,
            held,
            usage,
        };
        for record in records {
            report.count(record);
        }
        report.decisions.sort_unstable();
        report
    }

    fn count(&mut self, record: Record) {
        match record {
            Record::Served(decided) => {
                self.served += 1;
                self.decisions.push(decided);
            }
            Record::Rejected(status) => *self.rejected.entry(status).or_default() += 1,
            Record::Aborted => self.aborted += 1,
            Record::Failed(reason) => {
                self.failed += 1;
                if self.failures.len() < FAILURES || self.failures.contains_key(&reason) {
                    *self.failures.entry(reason).or_default() += 1;
                }
            }
        }
    }

    /// Requests that neither ended well, nor were refused, nor aborted on purpose.
    pub fn failed(&self) -> usize {
        self.failed
    }

    /// The failures by reason; after some reasons, new ones are not named.
    pub fn failures(&self) -> &BTreeMap<String, usize> {
        &self.failures
    }

    /// Requests that were served to their end.
    pub fn served(&self) -> usize {
        self.served
    }

    /// Requests that we reset on purpose.
    pub fn aborted(&self) -> usize {
        self.aborted
    }

    /// Requests in all.
    pub fn requests(&self) -> usize {
        self.served + self.aborted + self.failed + self.rejected.values().sum::<usize>()
    }

    /// Requests that were refused with this status.
    pub fn rejected(&self, status: u32) -> usize {
        self.rejected.get(&status).copied().unwrap_or_default()
    }

    /// What the server used meanwhile; absent if its process was not named.
    pub fn usage(&self) -> Option<&Usage> {
        self.usage.as_ref()
    }

    fn rate(&self) -> f64 {
        self.requests() as f64 / self.elapsed.as_secs_f64()
    }

    /// The time from the last body byte to the header reply, in microseconds, that `percent` of the requests needed at
    /// most; absent if none was served.
    pub fn decision_us(&self, percent: u8) -> Option<f64> {
        percentile(&self.decisions, percent).map(|time| time.as_secs_f64() * 1e6)
    }

    /// All figures, for scripts.
    pub fn json(&self) -> Value {
        json!({
            "requests": self.requests(),
            "served": self.served,
            "rejected": self.rejected,
            "aborted": self.aborted,
            "failed": self.failed,
            "failures": self.failures,
            "held": self.held,
            "elapsed_s": self.elapsed.as_secs_f64(),
            "requests_per_s": self.rate(),
            "header_reply_us": {
                "p50": self.decision_us(50),
                "p99": self.decision_us(99),
                "max": self.decision_us(100),
            },
            "server": self.usage.map(|usage| usage.json(self.requests())),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (requests, seconds) = (self.requests(), self.elapsed.as_secs_f64());
        writeln!(f, "{requests} requests in {seconds:.2} s, {:.0} per second", self.rate())?;
        write!(f, "served {}, aborted {}, failed {}", self.served, self.aborted, self.failed)?;
        for (status, count) in &self.rejected {
            write!(f, ", status {status}: {count}")?;
        }
        writeln!(f, ", held open {}", self.held)?;
        for (reason, count) in &self.failures {
            writeln!(f, "  {count} x {reason}")?;
        }
        if let (Some(p50), Some(p99), Some(max)) =
            (self.decision_us(50), self.decision_us(99), self.decision_us(100))
        {
            writeln!(
                f,
                "last body byte to header reply: p50 {p50:.0} us, p99 {p99:.0} us, max {max:.0} us"
            )?;
        }
        if let Some(usage) = &self.usage {
            writeln!(
                f,
                "server: {:.1} us CPU per request ({:.2} s user, {:.2} s system), {:.2} context switches per request, RSS {:.1} MiB, peak {:.1} MiB",
                usage.cpu_us(requests),
                usage.user.as_secs_f64(),
                usage.system.as_secs_f64(),
                usage.switches as f64 / requests.max(1) as f64,
                usage.resident_bytes as f64 / 1_048_576.0,
                usage.peak_bytes as f64 / 1_048_576.0,
            )?;
        }
        Ok(())
    }
}
