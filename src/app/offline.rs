//! Decisions explained without a picker: by what one had written down of its pool.

use std::sync::Arc;

use arc_swap::ArcSwap;
use clap::{Args, Command, FromArgMatches};
use serde::Deserialize;

use crate::app::{configuration, prefix_index};
use crate::config::{Flags, Problem};
use crate::director::{Director, Explanation};
use crate::extproc::{Budget, Refused, Rehearsal};
use crate::metrics::Metrics;
use crate::pool::Dump;
use crate::schedule::registry::PLUGINS;
use crate::server::clock;

/// Why nothing can be explained.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// What should be a dump is none.
    #[error("no snapshot of a picker: {0}")]
    Snapshot(#[from] serde_json::Error),
    /// The configuration is bad.
    #[error("the configuration is bad")]
    Configuration(Vec<Problem>),
    /// Anything else.
    #[error(transparent)]
    System(#[from] anyhow::Error),
}

/// What `/debug/snapshot` shows.
#[derive(Deserialize)]
struct Written {
    #[serde(flatten)]
    pool: Dump,
    configuration: serde_json::Value,
}

/// Explains where a request would go in a pool that `/debug/snapshot` showed, by its configuration or by another one. What
/// endpoints have in their caches is not known.
///
/// # Errors
/// When the dump is none, or the configuration is bad.
pub fn explain(
    dump: &str,
    configuration: Option<&str>,
    request: Rehearsal,
    dice: u64,
) -> Result<Result<Explanation, Refused>, OfflineError> {
    let Written { pool, configuration: written } = serde_json::from_str(dump)?;
    let written = written.to_string();
    let resolved = crate::config::load(Some(configuration.unwrap_or(&written)), &[PLUGINS]);
    let resolved = resolved.map_err(OfflineError::Configuration)?;
    let flags = flags().map_err(anyhow::Error::new)?;
    let limits = configuration::limits(&flags, &resolved);
    let budget = Budget::new(configuration::size(limits.body_budget));
    let deciding = configuration::deciding(&flags, &resolved, &limits);
    let streaming = configuration::streaming(&flags, &resolved, &limits, &budget, &Arc::default());
    let metrics = Metrics::new("", "", false).map_err(anyhow::Error::new)?;
    let now = clock::now();
    let pool = Arc::new(ArcSwap::from_pointee(pool.restore(now)));
    let index = resolved.prefix.clone().map(prefix_index);
    let director = Director::new(pool, configuration::policy(resolved), metrics, deciding);
    let director = match index {
        Some(index) => director.with_prefix(index),
        None => director,
    };
    Ok(request.explain(&Arc::new(director), &Arc::new(streaming), dice, now))
}

/// As they are where nothing is said.
fn flags() -> Result<Flags, clap::Error> {
    let command = Flags::augment_args(Command::new("lodesman"));
    Flags::from_arg_matches(&command.try_get_matches_from(["lodesman"])?)
}
