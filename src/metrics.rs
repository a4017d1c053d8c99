//! Every metric family as a field of one typed struct.
//!
//! Families that the reference has keep its names, labels and buckets (`llm_d_epp_*`), so that dashboards and
//! autoscalers go on working; what it lacks is `lodesman_*`. Values of a request's labels come from the client, so they
//! are capped (see `metrics/series.rs`). Help texts are the manual.

use std::cell::RefCell;
use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::{
    Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, TextEncoder,
};

pub use self::configuration::ConfigurationMetrics;
pub use self::leader::LeaderMetrics;
use self::prefix::PrefixFamilies;
pub use self::prefix::PrefixMatches;
pub use self::recording::RecordingMetrics;
pub use self::series::{Labels, Series};
use self::series::{RequestFamilies, SeriesCache};
pub use self::streams::{Connections, StreamMetrics};

mod buckets;
mod configuration;
mod leader;
mod prefix;
mod recording;
mod series;
mod streams;

/// All families and the registry that shows them.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    families: Vec<Desc>,
    requests: RequestFamilies,
    series: SeriesCache,
    prefix: PrefixFamilies,
    /// Time from the request's headers to the answer to its body.
    pub request_processing: Histogram,
    /// Time of a decision, without waiting.
    pub decision_duration: Histogram,
    /// Requests whose headers arrived, by API and body mode.
    pub received: IntCounterVec,
    /// How requests ended.
    pub outcomes: IntCounterVec,
    /// What a proxy did that the protocol does not foresee, by kind.
    pub anomalies: IntCounterVec,
    /// Decisions that rest on less than the policy, by rung and cause.
    degraded: IntCounterVec,
    /// Rung of the newest decision.
    pub rung: IntGauge,
    /// Answers that came from another endpoint than the chosen one.
    pub fallback_served: IntCounter,
    /// Open and ended ext_proc streams.
    pub streams: Arc<StreamMetrics>,
    /// Durations of requests that did not end well.
    pub aborted: HistogramVec,
    /// What happens before a stream is opened.
    pub connections: Connections,
    /// Leadership, and what a leader writes.
    pub leader: LeaderMetrics,
    /// The recording of requests.
    pub recording: RecordingMetrics,
    /// The configuration in force.
    pub configuration: ConfigurationMetrics,
}

impl Metrics {
    /// All families at zero, registered, with the constant labels `namespace` and `pool` on ours;
    /// `reference_streams` adds the reference's families of gRPC streams.
    ///
    /// # Errors
    /// When two families have one name, which a test excludes.
    pub fn new(
        namespace: &str,
        pool: &str,
        reference_streams: bool,
    ) -> prometheus::Result<Arc<Self>> {
        let registry = Registry::new();
        let described = RefCell::default();
        let new = Families { registry: &registry, namespace, pool, described };
        new.info()?;
        Ok(Arc::new(Self {
            requests: RequestFamilies::new(&new)?,
            series: SeriesCache::default(),
            prefix: PrefixFamilies::new(&new)?,
            request_processing: new.histogram(
                "llm_d_epp_request_processing_duration_seconds",
                "Time from the headers of a request to the answer to its body.",
                buckets::PROC,
            )?,
            decision_duration: new.ours_histogram(
                "lodesman_decision_duration_seconds",
                "Time of a decision, without waiting.",
                buckets::DECISION,
            )?,
            received: new.counters(
                "lodesman_requests_received_total",
                "Requests whose headers arrived.",
                &["api", "body_mode"],
            )?,
            outcomes: new.counters(
                "lodesman_request_outcomes_total",
                "How requests ended.",
                &["outcome"],
            )?,
            anomalies: new.counters(
                "lodesman_protocol_anomalies_total",
                "Messages of a proxy that the protocol does not foresee.",
                &["kind"],
            )?,
            degraded: new.counters(
                "lodesman_degraded_decisions_total",
                "Decisions that rest on less than the configured policy.",
                &["rung", "cause"],
            )?,
            rung: new.gauge(
                "lodesman_decision_rung",
                "Rung of the newest decision: 0 exact prefix, 1 approximate prefix or another policy, 2 load only, 3 random.",
            )?,
            fallback_served: new.counter(
                "lodesman_fallback_served_total",
                "Answers that came from another endpoint than the chosen one.",
            )?,
            streams: Arc::new(StreamMetrics::new(&new, reference_streams)?),
            aborted: new.ours_histograms(
                "lodesman_aborted_request_duration_seconds",
                "Durations of requests that did not end well.",
                buckets::LATENCY,
                &["outcome"],
            )?,
            connections: Connections::new(&new)?,
            leader: LeaderMetrics::new(&new)?,
            recording: RecordingMetrics::new(&new)?,
            configuration: ConfigurationMetrics::new(&new)?,
            families: new.described.take(),
            registry,
        }))
    }

    /// The cells of one set of labels, made on first use. Labels beyond the cap are `other`.
    pub fn series(&self, labels: &Labels<'_>) -> Arc<Series> {
        self.series.find(labels, &self.requests)
    }

    /// The cells of the prefix index of a configured instance.
    pub fn prefix(&self, name: &str) -> PrefixMatches {
        self.prefix.of(name)
    }

    /// Text of a model has so many bytes to a token.
    pub fn calibrated(&self, model: &str, bytes_per_token: f64) {
        self.prefix.bytes_per_token.with_label_values(&[model]).set(bytes_per_token);
    }

    /// Counts a decision that rests on less than the policy.
    pub fn degraded(&self, rung: &str, cause: &str) {
        self.degraded.with_label_values(&[rung, cause]).inc();
    }

    /// What there is, for the manual: name, help and labels of every family but the added ones.
    pub fn families(&self) -> &[Desc] {
        &self.families
    }

    /// Adds families whose values are read at scrape time.
    ///
    /// # Errors
    /// When a family of that name is there already.
    pub fn register(&self, collector: Box<dyn Collector>) -> prometheus::Result<()> {
        self.registry.register(collector)
    }

    /// The page in Prometheus text format.
    ///
    /// # Errors
    /// When a family is malformed, which a test excludes.
    pub fn page(&self) -> prometheus::Result<String> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

/// Makes families and registers them.
struct Families<'a> {
    registry: &'a Registry,
    namespace: &'a str,
    pool: &'a str,
    described: RefCell<Vec<Desc>>,
}

impl Families<'_> {
    fn registered<C: Collector + Clone + 'static>(&self, family: C) -> prometheus::Result<C> {
        self.described.borrow_mut().extend(family.desc().into_iter().cloned());
        self.registry.register(Box::new(family.clone()))?;
        Ok(family)
    }

    /// The family that names the build, always 1.
    fn info(&self) -> prometheus::Result<()> {
        let opts = Opts::new("llm_d_epp_info", "Commit and version of this build.")
            .const_label("commit", env!("LODESMAN_COMMIT"))
            .const_label("build_ref", env!("CARGO_PKG_VERSION"));
        self.registered(Gauge::with_opts(opts)?).map(|info| info.set(1.0))
    }

    fn ours(&self, name: &str, help: &str) -> Opts {
        Opts::new(name, help)
            .const_label("namespace", self.namespace)
            .const_label("pool", self.pool)
    }

    fn counter(&self, name: &str, help: &str) -> prometheus::Result<IntCounter> {
        self.registered(IntCounter::with_opts(self.ours(name, help))?)
    }

    fn counters(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> prometheus::Result<IntCounterVec> {
        self.registered(IntCounterVec::new(self.ours(name, help), labels)?)
    }

    fn reference_counters(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> prometheus::Result<IntCounterVec> {
        self.registered(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    fn gauge(&self, name: &str, help: &str) -> prometheus::Result<IntGauge> {
        self.registered(IntGauge::with_opts(self.ours(name, help))?)
    }

    fn reference_gauge(&self, name: &str, help: &str) -> prometheus::Result<IntGauge> {
        self.registered(IntGauge::with_opts(Opts::new(name, help))?)
    }

    fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntGaugeVec> {
        self.registered(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    fn our_gauges(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> prometheus::Result<IntGaugeVec> {
        self.registered(IntGaugeVec::new(self.ours(name, help), labels)?)
    }

    fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> prometheus::Result<Histogram> {
        self.registered(Histogram::with_opts(
            HistogramOpts::new(name, help).buckets(buckets.to_vec()),
        )?)
    }

    fn histograms(
        &self,
        name: &str,
        help: &str,
        buckets: &[f64],
        labels: &[&str],
    ) -> prometheus::Result<HistogramVec> {
        self.registered(HistogramVec::new(
            HistogramOpts::new(name, help).buckets(buckets.to_vec()),
            labels,
        )?)
    }

    fn ours_histogram(
        &self,
        name: &str,
        help: &str,
        buckets: &[f64],
    ) -> prometheus::Result<Histogram> {
        let opts = HistogramOpts { common_opts: self.ours(name, help), buckets: buckets.to_vec() };
        self.registered(Histogram::with_opts(opts)?)
    }

    fn ours_histograms(
        &self,
        name: &str,
        help: &str,
        buckets: &[f64],
        labels: &[&str],
    ) -> prometheus::Result<HistogramVec> {
        let opts = HistogramOpts { common_opts: self.ours(name, help), buckets: buckets.to_vec() };
        self.registered(HistogramVec::new(opts, labels)?)
    }
}
