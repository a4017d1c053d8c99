//! How full the pool is by the detector that sheds requests, in the reference's names for flow control.

use std::sync::Weak;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, IntGaugeVec, Opts};

use crate::director::Director;
use crate::server::clock;

/// There is one stage as long as prompts are computed where they are answered.
const STAGE: &str = "effective";

/// Asks the director when the page is asked for.
pub(in crate::app) struct Saturation {
    /// Weak, since the director keeps the metrics.
    director: Weak<Director>,
    pool: String,
    full: GaugeVec,
    stale: IntGaugeVec,
}

impl Saturation {
    /// The families of the pool of this name.
    ///
    /// # Errors
    /// When a label is malformed, which a test excludes.
    pub(in crate::app) fn new(director: Weak<Director>, pool: &str) -> prometheus::Result<Self> {
        let named =
            |name: &str, help: &str| Opts::new(format!("llm_d_epp_flow_control_{name}"), help);
        Ok(Self {
            director,
            pool: pool.to_owned(),
            full: GaugeVec::new(
                named(
                    "pool_saturation",
                    "How full the pool is, 0 to 1: at 1 requests below priority 0 are refused. 1 for an empty pool.",
                ),
                &["inference_pool", "stage"],
            )?,
            stale: IntGaugeVec::new(
                named(
                    "stale_endpoints",
                    "Endpoints that may be chosen and have no fresh sample for the saturation detector of this name.",
                ),
                &["detector"],
            )?,
        })
    }
}

impl Collector for Saturation {
    fn desc(&self) -> Vec<&Desc> {
        self.full.desc().into_iter().chain(self.stale.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.full.reset();
        self.stale.reset();
        let director = self.director.upgrade();
        let Some(fullness) = director.and_then(|director| director.fullness(clock::now())) else {
            return Vec::new();
        };
        let saturation = f64::from(fullness.saturation);
        self.full.with_label_values(&[&self.pool, STAGE]).set(saturation);
        let stale = i64::try_from(fullness.stale).unwrap_or(i64::MAX);
        self.stale.with_label_values(&[&*fullness.detector]).set(stale);
        self.full.collect().into_iter().chain(self.stale.collect()).collect()
    }
}

impl std::fmt::Debug for Saturation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Saturation").field("pool", &self.pool).finish_non_exhaustive()
    }
}
