//! The bench: what Lodesman costs, in one run with servers that it can be compared with.
//!
//! - `null` is `lodesman --null`: our transport, without parsing, scraping or choosing;
//! - `real` is Lodesman with its default policy in front of simulated model servers that show a recorded metrics page;
//! - `plain` is [`crate::plain`], what `tonic` and `prost` give by themselves.
//!
//! They take turns, round for round, and the ratio of two is taken within a round: what disturbs the machine meets both.
//! `rows::ROWS` lists what is measured and what it may cost.

mod bodies;
mod compare;
mod curves;
mod figure;
mod idle;
mod lab;
mod micro;
mod plot;
mod report;
mod rows;
mod start;
mod streams;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;

pub use figure::{Figure, Unit};
pub use report::{Measured, Report};

use crate::wait::now;
use lab::Lab;
use rows::ROWS;

/// What is measured, and where it is written.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// The lodesman binary; the one beside this program if absent
    #[arg(long)]
    pub lodesman: Option<PathBuf>,
    /// The plain server; the one beside this program if absent, left out if there is none
    #[arg(long)]
    pub plain: Option<PathBuf>,
    /// Recorded metrics page that the model servers show
    #[arg(long, default_value = "tests/data/vllm-metrics.txt")]
    pub page: PathBuf,
    /// Rows to measure, by number; all if absent
    #[arg(long, value_delimiter = ',', value_name = "ROW")]
    pub only: Vec<u8>,
    /// A tenth of the requests, one round: shows that all works, measures nothing
    #[arg(long)]
    pub quick: bool,
    /// Rounds in which the servers take turns
    #[arg(long, default_value_t = 7)]
    pub rounds: usize,
    /// What `cargo bench --bench micro -- --json` has printed: rows 8 to 10
    #[arg(long, value_name = "FILE")]
    pub micro: Option<PathBuf>,
    /// The binary whose size is told
    #[arg(long, default_value = "target/dist/lodesman")]
    pub dist: PathBuf,
    /// Measure the curves too, and draw them in this folder
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
}

/// Measures the rows that are asked for.
///
/// # Errors
/// When a server cannot be started or breaks, or there is no such row. A failed request is no error but counted.
pub async fn run(options: &Options, mut tell: impl FnMut(&str)) -> Result<Report> {
    for number in &options.only {
        ensure!(ROWS.iter().any(|row| row.number == *number), "there is no row {number}");
    }
    let started = now();
    let lab = Lab::new(options)?;
    let mut rows = Vec::new();
    for row in &ROWS {
        if options.only.is_empty() || options.only.contains(&row.number) {
            tell(row.title);
            rows.push(row.measure(&lab).await?);
        }
    }
    if let Some(folder) = &options.plots {
        tell("the curves");
        curves::draw(&lab, folder).await?;
    }
    Ok(Report { rows, failures: lab.failures(), elapsed: whole_seconds(started.elapsed()) })
}

fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs())
}
