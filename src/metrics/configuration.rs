//! The families of the configuration in force.

use prometheus::{IntCounter, IntCounterVec, IntGauge};

use super::Families;

/// Which version of the configuration is in force, and what became of the others.
#[derive(Debug)]
pub struct ConfigurationMetrics {
    generation: IntGauge,
    adopted: IntCounter,
    refused: IntCounter,
    last: IntGauge,
}

impl ConfigurationMetrics {
    pub(super) fn new(new: &Families<'_>) -> prometheus::Result<Self> {
        let reloads: IntCounterVec = new.counters(
            "lodesman_config_reload_total",
            "New versions of the configuration file: adopted (success), or refused or unreadable (error).",
            &["result"],
        )?;
        Ok(Self {
            generation: new.gauge(
                "lodesman_config_generation",
                "Version of the configuration in force: 1 at the start, one more with each that was adopted.",
            )?,
            adopted: reloads.with_label_values(&["success"]),
            refused: reloads.with_label_values(&["error"]),
            last: new.gauge(
                "lodesman_config_last_success_timestamp_seconds",
                "When the configuration in force was adopted, in seconds since 1970.",
            )?,
        })
    }

    /// The version of the start is in force.
    pub fn started(&self, unix_seconds: u64) {
        self.in_force(1, unix_seconds);
    }

    /// A further version is in force.
    pub fn adopted(&self, generation: u64, unix_seconds: u64) {
        self.adopted.inc();
        self.in_force(generation, unix_seconds);
    }

    /// A further version cannot be.
    pub fn refused(&self) {
        self.refused.inc();
    }

    fn in_force(&self, generation: u64, unix_seconds: u64) {
        self.generation.set(i64::try_from(generation).unwrap_or(i64::MAX));
        self.last.set(i64::try_from(unix_seconds).unwrap_or(i64::MAX));
    }
}
