//! What a comparison found: for scripts as JSON, for people as a table.

use serde::{Serialize, Serializer};

use crate::replay::Figures;
use crate::replay::figures::rounded;

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
    #[serde(serialize_with = "rounded_if_known")]
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

#[expect(clippy::ref_option, reason = "serde gives a reference")]
fn rounded_if_known<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => rounded(value, serializer),
        None => serializer.serialize_none(),
    }
}
