//! The family of what plugins take.

use std::time::Duration;

use prometheus::HistogramVec;

use super::{Families, buckets};

/// How long calls of plugins take, of the decisions of which that is measured.
#[derive(Debug)]
pub struct PluginMetrics {
    duration: HistogramVec,
}

impl PluginMetrics {
    pub(super) fn new(new: &Families<'_>) -> prometheus::Result<Self> {
        Ok(Self {
            duration: new.histograms(
                "llm_d_epp_plugin_duration_seconds",
                "Time of a call of a plugin; measured in one decision of 64.",
                buckets::SCHEDULING,
                &["extension_point", "plugin_type", "plugin_name"],
            )?,
        })
    }

    /// A plugin took so long, at a point, by its type and name in the configuration.
    pub fn took(&self, point: &str, type_name: &str, name: &str, took: Duration) {
        self.duration.with_label_values(&[point, type_name, name]).observe(took.as_secs_f64());
    }
}
