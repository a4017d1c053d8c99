//! What a process has used, from `/proc`.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Use of a process: counters since its start, or the growth between two readings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time of all living threads, to the nanosecond.
    pub cpu: Duration,
    /// CPU time in user mode, in steps of a clock tick (10 ms).
    pub user: Duration,
    /// CPU time in the kernel, likewise.
    pub system: Duration,
    /// Context switches of all living threads.
    pub switches: u64,
    /// Resident memory now, not a growth.
    pub resident_bytes: u64,
    /// Most resident memory since the start of the process or [`forget_peak`], not a growth.
    pub peak_bytes: u64,
}

impl Usage {
    /// What process `pid` has used so far.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn read(pid: u32) -> Result<Self> {
        let root = PathBuf::from(format!("/proc/{pid}"));
        let file = |name: &str| {
            fs::read_to_string(root.join(name)).with_context(|| format!("process {pid}: {name}"))
        };
        let status = file("status")?;
        let (user, system) = ticks(&file("stat")?).context("malformed stat")?;
        let (mut cpu, mut switches) = (Duration::ZERO, 0);
        for thread in fs::read_dir(root.join("task"))? {
            let thread = thread?.path();
            // a thread may end between the listing and the reading
            let file = |name| fs::read_to_string(thread.join(name)).unwrap_or_default();
            cpu += ran(&file("schedstat")).unwrap_or_default();
            let status = file("status");
            switches += field(&status, "voluntary_ctxt_switches:").unwrap_or(0);
            switches += field(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0);
        }
        let bytes = |name| Some(field(&status, name)? * 1024);
        Ok(Self {
            cpu,
            user,
            system,
            switches,
            resident_bytes: bytes("VmRSS:").context("no VmRSS")?,
            peak_bytes: bytes("VmHWM:").context("no VmHWM")?,
        })
    }

    /// The growth since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(before.cpu),
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            switches: self.switches.saturating_sub(before.switches),
            resident_bytes: self.resident_bytes,
            peak_bytes: self.peak_bytes,
        }
    }

    /// CPU time per request in microseconds.
    pub fn cpu_us(&self, requests: usize) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / requests.max(1) as f64
    }

    /// The part of the CPU time that was in the kernel, 0 to 1; 0 without any, and coarse if there was little.
    pub fn system_share(&self) -> f64 {
        let all = self.user + self.system;
        if all.is_zero() { 0.0 } else { self.system.as_secs_f64() / all.as_secs_f64() }
    }

    pub(super) fn json(&self, requests: usize) -> Value {
        json!({
            "cpu_us_per_request": self.cpu_us(requests),
            "user_s": self.user.as_secs_f64(),
            "system_s": self.system.as_secs_f64(),
            "context_switches_per_request": self.switches as f64 / requests.max(1) as f64,
            "resident_bytes": self.resident_bytes,
            "peak_bytes": self.peak_bytes,
        })
    }
}

/// Makes [`Usage::peak_bytes`] begin anew with what is resident now.
///
/// # Errors
/// When there is no such process of ours.
pub fn forget_peak(pid: u32) -> Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5")
        .with_context(|| format!("the peak of process {pid} cannot be reset"))
}

/// The time that a thread has run, from `/proc/PID/task/TID/schedstat`.
fn ran(schedstat: &str) -> Option<Duration> {
    Some(Duration::from_nanos(schedstat.split(' ').next()?.parse().ok()?))
}

/// User and system time from `/proc/PID/stat`, fields 14 and 15; the name in field 2 may hold blanks.
fn ticks(stat: &str) -> Option<(Duration, Duration)> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let mut time = || Some(Duration::from_secs_f64(fields.next()?.parse::<f64>().ok()? / ticks));
    Some((time()?, time()?))
}

/// The number after `name` in `/proc/PID/status`.
fn field(status: &str, name: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_can_be_read() {
        let usage = Usage::read(std::process::id()).unwrap();
        assert!(usage.peak_bytes >= usage.resident_bytes && usage.resident_bytes > 0);
        assert!(usage.switches > 0 && usage.cpu > Duration::ZERO);
    }

    #[test]
    fn peak_begins_anew() {
        let id = std::process::id();
        drop(std::hint::black_box(vec![1_u8; 64 << 20]));
        let before = Usage::read(id).unwrap();
        forget_peak(id).unwrap();
        let after = Usage::read(id).unwrap();
        assert!(after.peak_bytes + (32 << 20) < before.peak_bytes, "{before:?} {after:?}");
    }

    #[test]
    fn name_with_blanks_and_brackets_is_skipped() {
        let tick = 1.0 / rustix::param::clock_ticks_per_second() as f64;
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 0 0 0 0 0 30 40 0 0 20 0";
        let expected = (30.0, 40.0);
        let (user, system) = ticks(stat).unwrap();
        assert_eq!((user.as_secs_f64() / tick, system.as_secs_f64() / tick), expected);
    }
}
