//! What pages that are read do not tell.

use prometheus::core::Collector;
use prometheus::{IntGaugeVec, Opts};

use crate::pool::{Reading, Snapshot};
use crate::server::clock;

/// The family.
pub(super) struct Gaps(IntGaugeVec);

impl Gaps {
    pub(super) fn new(ours: impl Fn(&str, &str) -> Opts) -> prometheus::Result<Self> {
        let options = ours(
            "lodesman_untold_signals",
            "Endpoints whose metrics page is read and does not tell this signal: waiting, running or kv_usage.",
        );
        IntGaugeVec::new(options, &["signal"]).map(Self)
    }

    pub(super) fn vector(&self) -> &dyn Collector {
        &self.0
    }

    pub(super) fn show(&self, snapshot: &Snapshot) {
        let now = clock::now();
        let read = || snapshot.endpoints().map(|endpoint| endpoint.id.slot);
        let read = || read().filter(|&slot| snapshot.scrape_age(slot, now).is_some());
        let untold = |reading: Reading| reading == Reading::Unknown;
        for (signal, count) in [
            ("waiting", read().filter(|&slot| untold(snapshot.waiting(slot, now))).count()),
            ("running", read().filter(|&slot| untold(snapshot.running(slot, now))).count()),
            ("kv_usage", read().filter(|&slot| untold(snapshot.kv_usage(slot, now))).count()),
        ] {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.0.with_label_values(&[signal]).set(count);
        }
    }
}
