//! What a comparison found: for scripts as JSON, for people as a table.

use serde::Serialize;

use crate::replay::Figures;

/// All rows, as `--json` prints them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// One for each fleet, load and policy.
    pub runs: Vec<Row>,
}

/// One policy under one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name, or the file it is from.
    pub policy: String,
    /// All prompt tokens over the time of arrivals, as a share of the fleet's nominal prefill rate; null where all
    /// arrive at once.
    pub load: Option<f64>,
    /// Pods of the fleet.
    pub pods: usize,
    /// Runs that were made, with the seeds 1 to this.
    pub seeds: u64,
    /// The mean over the runs.
    #[serde(flatten)]
    pub figures: Figures,
    /// For each figure, how far the runs lie apart: the greatest less the least.
    pub spread: Figures,
}
