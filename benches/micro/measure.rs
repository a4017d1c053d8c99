//! Measures one call of something and prints a line for it.

use std::collections::HashMap;
use std::hint::black_box;
use std::io::Write as _;
use std::time::Duration;

use allocation_counter::measure;
use anyhow::{Result, bail};
use clap::Parser;
use lodesman_e2e::wait::now;
use serde_json::json;

use crate::callgrind;

/// How many samples of the time are taken.
const SAMPLES: usize = 15;

/// The least that a sample lasts: far longer than it takes to read the clock.
const SAMPLE: Duration = Duration::from_millis(3);

/// Calls until buffers are warm.
const WARMUP: u64 = 3;

/// Calls whose instructions are counted.
const COUNTED: u64 = 10;

/// What cargo says to every bench.
const FROM_CARGO: &str = "--bench";

/// Measures the parts of a request.
#[derive(Debug, Parser)]
#[command(name = "micro")]
struct Options {
    /// Benches to run; all if none is named
    benches: Vec<String>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// Make the calls that are counted and measure nothing: so the program runs itself under callgrind
    #[arg(long, hide = true)]
    counted: bool,
}

/// What is run under a name.
pub(crate) type Benches<'a> = &'a [(&'static str, fn(&mut Bench))];

/// A bench that runs.
#[derive(Debug)]
pub(crate) struct Bench {
    name: &'static str,
    json: bool,
    /// Under callgrind, which takes fifty times as long: whatever only fills memory is to be left out.
    pub(crate) counted: bool,
    /// Of [`COUNTED`] calls, by the names of bench and case.
    instructions: HashMap<(String, String), u64>,
}

/// Runs those of `benches` that the command line names.
///
/// # Errors
/// When there is no bench of a name.
pub(crate) fn run(benches: Benches<'_>) -> Result<()> {
    let options = Options::parse_from(std::env::args().filter(|arg| arg != FROM_CARGO));
    let unknown = |name: &&String| benches.iter().all(|(known, _)| known != name);
    if let Some(name) = options.benches.iter().find(unknown) {
        let names: Vec<_> = benches.iter().map(|(name, _)| *name).collect();
        bail!("there is no bench {name}, but {}", names.join(", "));
    }
    let instructions = if options.counted {
        HashMap::new()
    } else {
        callgrind::instructions(&options.benches).unwrap_or_else(|reason| {
            note(&format!("instructions are not counted: {reason}"));
            HashMap::new()
        })
    };
    let (json, counted) = (options.json, options.counted);
    let mut bench = Bench { name: "", json, counted, instructions };
    for (name, run) in benches {
        if options.benches.is_empty() || options.benches.iter().any(|asked| asked == name) {
            bench.name = name;
            run(&mut bench);
        }
    }
    Ok(())
}

impl Bench {
    /// Measures `work`, a call after the other.
    pub(crate) fn case<T>(&mut self, case: &str, mut work: impl FnMut() -> T) {
        let mut call = || drop(black_box(work()));
        calls(WARMUP, &mut call);
        if self.counted {
            callgrind::announce(self.name, case);
            return callgrind::counted(COUNTED, &mut call);
        }
        let allocations = measure(&mut call).count_total;
        let (us, us_max) = times(&mut call);
        let key = (self.name.to_owned(), case.to_owned());
        let instructions = self.instructions.get(&key).map(|count| count / COUNTED);
        let name = self.name;
        if self.json {
            return say(&json!({
                "bench": name, "case": case, "us": us, "us_max": us_max,
                "instructions": instructions, "allocations": allocations,
            }));
        }
        let counted =
            instructions.map_or_else(String::new, |count| format!("{count:>9} instructions"));
        say(&format!(
            "{name:<10} {case:<56} {us:>8.2} us (to {us_max:.2}) {counted:>22} {allocations:>4} allocations"
        ));
    }

    /// Tells a size.
    pub(crate) fn bytes(&self, case: &str, bytes: usize) {
        let name = self.name;
        match (self.counted, self.json) {
            (true, _) => {}
            (_, true) => say(&json!({ "bench": name, "case": case, "bytes": bytes })),
            (_, false) => say(&format!("{name:<10} {case:<56} {bytes:>8} bytes")),
        }
    }
}

/// Microseconds of a call in the fastest sample and in the slowest.
fn times(call: &mut dyn FnMut()) -> (f64, f64) {
    let sample = |rounds: u64, call: &mut dyn FnMut()| {
        let began = now();
        calls(rounds, call);
        began.elapsed()
    };
    let mut rounds = 1;
    while sample(rounds, call) < SAMPLE {
        rounds *= 2;
    }
    let samples = (0..SAMPLES).map(|_| sample(rounds, call).as_secs_f64() * 1e6 / rounds as f64);
    samples.fold((f64::INFINITY, 0.0), |(least, most), us| (us.min(least), us.max(most)))
}

/// Calls so many times.
fn calls(rounds: u64, call: &mut dyn FnMut()) {
    for _ in 0..rounds {
        call();
    }
}

/// Prints a line; that nobody reads on is no failure.
pub(crate) fn say(line: &impl ToString) {
    let _unread = writeln!(std::io::stdout(), "{}", line.to_string());
}

/// Prints a line that is no figure.
fn note(line: &str) {
    let _unread = writeln!(std::io::stderr(), "micro: {line}");
}
