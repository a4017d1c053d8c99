//! What the parts of a request cost by themselves: time, instructions, allocations.
//!
//! `cargo bench --bench micro` runs all, with names after `--` only those; `--json` prints an object a line. The time is
//! the best of several samples, and the worst of them shows how far to trust it. Instructions are counted by callgrind,
//! in a run of this very program, and are the same on a busy machine; they are absent where valgrind is not installed.
//! Allocations are those of one call with warm buffers.
#![expect(clippy::unwrap_used, reason = "a program for the terminal")]

use crate::measure::Benches;

mod callgrind;
mod decision;
mod exchange;
mod exposition;
mod hashing;
mod json;
mod measure;
mod pool;
mod prefix;

/// The benches by name.
const BENCHES: Benches<'static> = &[
    ("decision", decision::run),
    ("prefix", prefix::run),
    ("exposition", exposition::run),
    ("json", json::run),
    ("hashing", hashing::run),
    ("exchange", exchange::run),
];

fn main() -> anyhow::Result<()> {
    measure::run(BENCHES)
}
