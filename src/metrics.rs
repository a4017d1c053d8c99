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

pub use self::attempts::{Attempts, Chosen};
pub use self::configuration::ConfigurationMetrics;
pub use self::copies::{COPIES, Copy};
pub use self::hold::HoldMetrics;
pub use self::leader::LeaderMetrics;
pub use self::life::LifeMetrics;
pub use self::plugins::PluginMetrics;
use self::prefix::PrefixFamilies;
pub use self::prefix::PrefixMatches;
pub use self::recording::RecordingMetrics;
pub use self::requests::{RequestLogMetrics, TraceMetrics};
pub use self::scale::ScaleMetrics;
pub use self::series::{Labels, Series};
use self::series::{RequestFamilies, SeriesCache};
pub use self::streams::{Connections, StreamMetrics};
pub use self::tokens::{Avoided, Source, Spent};

mod attempts;
mod buckets;
mod configuration;
mod copies;
mod hold;
mod leader;
mod life;
mod plugins;
mod prefix;
mod recording;
mod requests;
mod scale;
mod series;
mod streams;
mod tokens;

/// How a request may end.
const OUTCOMES: [&str; 8] = [
    "ok",
    "upstream_4xx",
    "upstream_5xx",
    "rejected",
    "shed",
    "client_disconnect",
    "unobserved",
    "epp_error",
];

/// All families and the registry that shows them.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    families: Vec<Desc>,
    requests: RequestFamilies,
    series: SeriesCache,
    prefix: PrefixFamilies,
    /// Who was chosen for which model.
    pub attempts: Arc<Attempts>,
    /// What placing requests well has spared.
    pub avoided: Avoided,
    /// What plugins take.
    pub plugins: PluginMetrics,
    /// Time from the request's headers to the answer to its body.
    pub request_processing: Histogram,
    /// Time that the messages of an answer took, of the streams of which that is measured.
    pub response_processing: Histogram,
    /// Time of a decision, without waiting.
    pub decision_duration: Histogram,
    /// Requests whose headers arrived, by API and body mode.
    pub received: IntCounterVec,
    /// How requests ended.
    pub outcomes: IntCounterVec,
    /// What a proxy did that the protocol does not foresee, by kind.
    pub anomalies: IntCounterVec,
    /// Headers of clients that do not do what they may think, by kind.
    pub header_warnings: IntCounterVec,
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
    /// Where endpoints stand.
    pub life: LifeMetrics,
    /// The recording of requests.
    pub recording: RecordingMetrics,
    /// The request log.
    pub request_log: RequestLogMetrics,
    /// Traces.
    pub traces: TraceMetrics,
    /// The configuration in force.
    pub configuration: ConfigurationMetrics,
    /// Requests that wait for an endpoint.
    pub hold: HoldMetrics,
    /// For autoscalers.
    pub scale: ScaleMetrics,
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
        let (registry, described) = (Registry::new(), RefCell::default());
        let new = Families { registry: &registry, namespace, pool, described };
        new.info()?;
        let [request_processing, response_processing] = processing(&new)?;
        let [received, outcomes, anomalies, degraded] = counted(&new)?;
        let metrics = Self {
            requests: RequestFamilies::new(&new)?,
            series: SeriesCache::default(),
            prefix: PrefixFamilies::new(&new)?,
            attempts: Arc::default(),
            avoided: Avoided::new(&new)?,
            plugins: PluginMetrics::new(&new)?,
            request_processing,
            response_processing,
            decision_duration: new.ours_histogram(
                "lodesman_decision_duration_seconds",
                "Time of a decision, without waiting.",
                buckets::DECISION,
            )?,
            received,
            outcomes,
            anomalies,
            header_warnings: new.counters(
                "lodesman_header_warnings_total",
                "Requests with a header under its old name (deprecated_name) or that names no objective of the pool (unknown_objective).",
                &["kind"],
            )?,
            degraded,
            rung: new.gauge(
                "lodesman_decision_rung",
                "Rung of the newest decision: 1 the policy, 2 load only, 3 random; 0 is kept for exact prefixes.",
            )?,
            fallback_served: new.counter(
                "lodesman_fallback_served_total",
                "Answers that came from another endpoint than the chosen one.",
            )?,
            streams: Arc::new(StreamMetrics::new(&new, reference_streams)?),
            aborted: new.aborted()?,
            connections: Connections::new(&new)?,
            leader: LeaderMetrics::new(&new)?,
            life: LifeMetrics::new(&new)?,
            recording: RecordingMetrics::new(&new)?,
            request_log: RequestLogMetrics::new(&new)?,
            traces: TraceMetrics::new(&new)?,
            configuration: ConfigurationMetrics::new(&new)?,
            hold: HoldMetrics::new(&new)?,
            scale: ScaleMetrics::new(&new)?,
            families: new.described.take(),
            registry,
        };
        metrics.begin();
        Ok(Arc::new(metrics))
    }

    /// Shows at 0 what somebody may wait for: an alert on the growth of a counter misses its first step otherwise.
    fn begin(&self) {
        for outcome in OUTCOMES {
            self.outcomes.with_label_values(&[outcome]);
        }
        for [rung, cause] in
            [["load_only", "no_signals"], ["load_only", "deadline"], ["policy", "panic"]]
        {
            self.degraded.with_label_values(&[rung, cause]);
        }
        for result in ["success", "error"] {
            self.connections.tls_reloads.with_label_values(&[result]);
        }
    }

    /// The cells of one set of labels, made on first use. Labels beyond the cap are `other`.
    pub fn series(&self, labels: &Labels<'_>) -> Arc<Series> {
        self.series.find(labels, &self.requests, &self.attempts)
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
        self.page_of(|copy| !copy.deprecated())
    }

    /// The same with the deprecated names of the reference's families.
    ///
    /// # Errors
    /// When a family is malformed, which a test excludes.
    pub fn page_with_old_names(&self) -> prometheus::Result<String> {
        self.page_of(|_| true)
    }

    fn page_of(&self, shown: impl Fn(&Copy) -> bool) -> prometheus::Result<String> {
        let gathered = self.registry.gather();
        let copies = COPIES.iter().filter(|copy| shown(copy));
        let copies: Vec<_> = copies.filter_map(|copy| copy.made(&gathered)).collect();
        let encoder = TextEncoder::new();
        let mut page = encoder.encode_to_string(&gathered)?;
        encoder.encode_utf8(&copies, &mut page)?;
        Ok(page)
    }
}

/// Time that is spent on requests, and on answers.
fn processing(new: &Families<'_>) -> prometheus::Result<[Histogram; 2]> {
    Ok([
        new.histogram(
            "llm_d_epp_request_processing_duration_seconds",
            "Time from the headers of a request to the answer to its body.",
            buckets::PROC,
        )?,
        new.histogram(
            "llm_d_epp_response_processing_duration_seconds",
            "Time that was spent on all messages of an answer; measured in one request of 64.",
            buckets::ANSWER_PROC,
        )?,
    ])
}

/// Requests that came, how they ended, what was odd about them, and how their decisions fell short.
fn counted(new: &Families<'_>) -> prometheus::Result<[IntCounterVec; 4]> {
    Ok([
        new.counters(
            "lodesman_requests_received_total",
            "Requests whose headers arrived.",
            &["api", "body_mode"],
        )?,
        new.counters("lodesman_request_outcomes_total", "How requests ended.", &["outcome"])?,
        new.counters(
            "lodesman_protocol_anomalies_total",
            "Messages of a proxy that the protocol does not foresee.",
            &["kind"],
        )?,
        new.counters(
            "lodesman_degraded_decisions_total",
            "Decisions that rest on less than the configured policy.",
            &["rung", "cause"],
        )?,
    ])
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

    fn aborted(&self) -> prometheus::Result<HistogramVec> {
        self.ours_histograms(
            "lodesman_aborted_request_duration_seconds",
            "Durations of requests that did not end well.",
            buckets::LATENCY,
            &["outcome"],
        )
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
