//! Flags of how model servers are watched.

use std::time::Duration;

use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

use super::duration;
use crate::config::engines::Selector;
use crate::config::sources::MIN_INTERVAL;
use crate::units::GoDuration;

/// Scraping.
#[derive(Clone, Debug)]
pub struct Scrape {
    /// Time between two scrapes of an endpoint, at least [`MIN_INTERVAL`]; by what is in flight when absent.
    pub refresh_metrics_interval: Option<Duration>,
    /// What was asked for, where that is shorter.
    too_short: Option<Duration>,
    /// Age at which a sample is stale.
    pub metrics_staleness_threshold: Duration,
    /// Metric names of the default engine.
    pub names: MetricNames,
}

/// The flags as they are given.
#[derive(Args)]
struct Given {
    /// Time between two scrapes of an endpoint, at least 50ms [default: 50ms where requests of ours are in flight, 250ms where others are, else 1s].
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    refresh_metrics_interval: Option<Duration>,
    /// Age at which a sample is stale.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    metrics_staleness_threshold: Duration,
    #[command(flatten)]
    names: MetricNames,
}

/// Metric names of the default engine that replace its own. Deprecated.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricNames {
    /// Deprecated: metric of the requests that wait.
    #[arg(long = "total-queued-requests-metric", value_name = "METRIC")]
    pub waiting: Option<Selector>,
    /// Deprecated: metric of the requests that run.
    #[arg(long = "total-running-requests-metric", value_name = "METRIC")]
    pub running: Option<Selector>,
    /// Deprecated: metric of the used share of the KV cache.
    #[arg(long = "kv-cache-usage-percentage-metric", value_name = "METRIC")]
    pub kv_usage: Option<Selector>,
    /// Deprecated: metric whose labels are the LoRA adapters.
    #[arg(long = "lora-info-metric", value_name = "METRIC")]
    pub adapters: Option<Selector>,
    /// Deprecated: metric whose labels are the size of the KV cache.
    #[arg(long = "cache-info-metric", value_name = "METRIC")]
    pub cache: Option<Selector>,
}

impl Scrape {
    /// A sentence for an interval that is not kept, and for each flag that is deprecated.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        let too_short = self.too_short.map(|asked| {
            let (asked, least) = (GoDuration(asked), GoDuration(MIN_INTERVAL));
            format!("--refresh-metrics-interval {asked} is too short, {least} is taken")
        });
        let MetricNames { waiting, running, kv_usage, adapters, cache } = &self.names;
        let deprecated = [
            ("total-queued-requests-metric", waiting),
            ("total-running-requests-metric", running),
            ("kv-cache-usage-percentage-metric", kv_usage),
            ("lora-info-metric", adapters),
            ("cache-info-metric", cache),
        ];
        let deprecated = deprecated
            .into_iter()
            .filter(|(_, name)| name.is_some())
            .map(|(flag, _)| format!("--{flag} is deprecated; it holds for the default engine"));
        too_short.into_iter().chain(deprecated)
    }
}

impl From<Given> for Scrape {
    fn from(given: Given) -> Self {
        let asked = given.refresh_metrics_interval;
        Self {
            refresh_metrics_interval: asked.map(|asked| asked.max(MIN_INTERVAL)),
            too_short: asked.filter(|asked| *asked < MIN_INTERVAL),
            metrics_staleness_threshold: given.metrics_staleness_threshold,
            names: given.names,
        }
    }
}

impl FromArgMatches for Scrape {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Given::from_arg_matches(matches).map(Self::from)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Scrape {
    fn augment_args(command: Command) -> Command {
        Given::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Given::augment_args_for_update(command)
    }
}
