//! Failed reads of model servers.

use prometheus::core::Collector;
use prometheus::{IntCounterVec, Opts};

use crate::scrape::Counters;

/// The reference's name of the plugin that reads metrics pages, and of what makes values of them.
const PAGES: (&str, &str) = ("metrics-data-source", "core-metrics-extractor");

/// The same of lists of models.
const LISTS: (&str, &str) = ("models-data-source", "models-data-extractor");

/// The families.
pub(super) struct Failures {
    poll: IntCounterVec,
    extract: IntCounterVec,
    by_reason: IntCounterVec,
}

impl Failures {
    pub(super) fn new(ours: impl Fn(&str, &str) -> Opts) -> prometheus::Result<Self> {
        let reference = |name: &str, help: &str| Opts::new(format!("llm_d_epp_{name}"), help);
        Ok(Self {
            poll: IntCounterVec::new(
                reference(
                    "datalayer_poll_errors_total",
                    "Reads of a model server that brought nothing.",
                ),
                &["source_type"],
            )?,
            extract: IntCounterVec::new(
                reference(
                    "datalayer_extract_errors_total",
                    "Reads of a model server that brought nothing that is known.",
                ),
                &["source_type", "extractor_type"],
            )?,
            by_reason: IntCounterVec::new(
                ours("lodesman_scrape_errors_total", "Failed reads of a metrics page."),
                &["reason"],
            )?,
        })
    }

    pub(super) fn vectors(&self) -> [&dyn Collector; 3] {
        [&self.poll, &self.extract, &self.by_reason]
    }

    /// Shows what is counted.
    pub(super) fn show(&self, scrapes: &Counters) {
        for vector in [&self.poll, &self.extract, &self.by_reason] {
            vector.reset();
        }
        let mut failed = 0;
        for (reason, count) in scrapes.errors() {
            failed += count;
            self.by_reason.with_label_values(&[reason]).inc_by(count);
        }
        let unread = scrapes.unread();
        self.source(PAGES, failed.saturating_sub(unread), unread);
        self.source(LISTS, scrapes.lists(), scrapes.no_lists());
    }

    fn source(&self, (source, extractor): (&str, &str), polls: u64, extractions: u64) {
        self.poll.with_label_values(&[source]).inc_by(polls);
        self.extract.with_label_values(&[source, extractor]).inc_by(extractions);
    }
}
