//! The families of the prefix index, and of what prompts are counted by.

use prometheus::{GaugeVec, Histogram, HistogramVec, IntCounter};

use super::{Families, buckets};

/// The reference's labels: the configured name and the type of the index.
const LABELS: [&str; 2] = ["plugin_name", "plugin_type"];

/// The reference's type of the index.
const TYPE: &str = "approx-prefix-cache-producer";

/// Bytes that the reference takes for a token.
const TOKEN_BYTES: f64 = 4.0;

#[derive(Debug)]
pub(super) struct PrefixFamilies {
    ratio: HistogramVec,
    bytes: HistogramVec,
    predicted: IntCounter,
    actual: IntCounter,
    /// Bounded by whoever learns: 256 models.
    pub(super) bytes_per_token: GaugeVec,
}

impl PrefixFamilies {
    pub(super) fn new(new: &Families<'_>) -> prometheus::Result<Self> {
        Ok(Self {
            ratio: new.histograms(
                "llm_d_epp_prefix_indexer_hit_ratio",
                "Share of a prompt that the chosen endpoint is believed to have in its cache.",
                buckets::RATIO,
                &LABELS,
            )?,
            bytes: new.histograms(
                "llm_d_epp_prefix_indexer_hit_bytes",
                "Bytes of a prompt that the chosen endpoint is believed to have in its cache, 4 to the token.",
                buckets::HIT_BYTES,
                &LABELS,
            )?,
            predicted: new.counter(
                "lodesman_prefix_predicted_tokens_total",
                "Prompt tokens that endpoints were believed to have in their caches, of answers that tell.",
            )?,
            actual: new.counter(
                "lodesman_prefix_actual_tokens_total",
                "Prompt tokens that they then said they had.",
            )?,
            bytes_per_token: new.registered(GaugeVec::new(
                new.ours(
                    "lodesman_bytes_per_token",
                    "Bytes of text to a token, as engines reported lately; of 256 models at most.",
                ),
                &["model"],
            )?)?,
        })
    }

    pub(super) fn of(&self, name: &str) -> PrefixMatches {
        PrefixMatches {
            ratio: self.ratio.with_label_values(&[name, TYPE]),
            bytes: self.bytes.with_label_values(&[name, TYPE]),
            predicted: self.predicted.clone(),
            actual: self.actual.clone(),
        }
    }
}

/// What the chosen endpoints had of the prompts.
#[derive(Clone, Debug)]
pub struct PrefixMatches {
    ratio: Histogram,
    bytes: Histogram,
    predicted: IntCounter,
    actual: IntCounter,
}

impl PrefixMatches {
    /// A prompt of `total` tokens went to an endpoint that is believed to have `matched` of them.
    pub fn observe(&self, matched: u64, total: u64) {
        if total > 0 {
            self.ratio.observe(matched as f64 / total as f64);
            self.bytes.observe(matched as f64 * TOKEN_BYTES);
        }
    }

    /// An endpoint was believed to have so many tokens of a prompt, and said how many it had.
    pub fn reported(&self, predicted: u64, actual: u64) {
        self.predicted.inc_by(predicted);
        self.actual.inc_by(actual);
    }
}
