//! Families whose values are read from the pool when the page is asked for.

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, IntCounterVec, IntGauge, IntGaugeVec, Opts};

use crate::extproc::Budget;
use crate::pool::{Endpoint, Reading, Slot, Snapshot};
use crate::prefix::Index;
use crate::scrape::Counters;
use crate::server::clock;

/// The reference's name of the plugin that counts requests in flight.
const PRODUCER: &str = "inflight-load-producer";

/// The reference's type of the plugin that remembers prefixes.
const PREFIX: &str = "approx-prefix-cache-producer";

/// The reference's name of the plugin that reads metrics pages.
const SOURCE: &str = "metrics-data-source";

/// The one that reads lists of models.
const LISTS: &str = "models-data-source";

/// Reads the pool.
pub(super) struct PoolMetrics {
    pool: Arc<ArcSwap<Snapshot>>,
    budget: Arc<Budget>,
    name: String,
    in_flight: [IntGaugeVec; 2],
    queue: GaugeVec,
    spreads: [Spread; 3],
    ready: IntGaugeVec,
    staleness: GaugeVec,
    body_bytes: IntGauge,
    scrapes: Arc<Counters>,
    prefix: Arc<ArcSwapOption<Index>>,
    prefix_size: IntGaugeVec,
    poll_errors: IntCounterVec,
    scrape_errors: IntCounterVec,
}

/// What the families are read from.
#[derive(Clone, Debug)]
pub(super) struct Sources {
    /// The newest snapshot.
    pub(super) pool: Arc<ArcSwap<Snapshot>>,
    /// The bytes that exchanges hold.
    pub(super) budget: Arc<Budget>,
    /// Failures of the scraper.
    pub(super) scrapes: Arc<Counters>,
    /// Who has which prefix.
    pub(super) prefix: Arc<ArcSwapOption<Index>>,
}

/// Requests and prompt tokens in flight.
fn in_flight() -> prometheus::Result<[IntGaugeVec; 2]> {
    let labels = ["endpoint_name", "namespace", "producer_name", "fairness_id", "priority"];
    let gauge = |what: &str, help: &str| {
        IntGaugeVec::new(Opts::new(format!("llm_d_epp_inflight_{what}"), help), &labels)
    };
    Ok([
        gauge("requests", "Requests in flight on an endpoint, over all flows.")?,
        gauge("tokens", "Prompt tokens in flight on an endpoint, over all flows.")?,
    ])
}

/// What is averaged over the endpoints.
fn spreads() -> prometheus::Result<[Spread; 3]> {
    Ok([
        Spread::new("kv_cache_utilization", "used share of the KV cache")?,
        Spread::new("queue_size", "number of waiting requests")?,
        Spread::new("running_requests", "number of running requests")?,
    ])
}

impl PoolMetrics {
    /// The families of the pool `name`.
    ///
    /// # Errors
    /// When a label is malformed, which a test excludes.
    pub(super) fn new(sources: Sources, namespace: &str, name: &str) -> prometheus::Result<Self> {
        let Sources { pool, budget, scrapes, prefix } = sources;
        let ours = |metric: &str, help: &str| {
            Opts::new(metric, help).const_label("namespace", namespace).const_label("pool", name)
        };
        Ok(Self {
            in_flight: in_flight()?,
            queue: GaugeVec::new(
                Opts::new(
                    "llm_d_epp_per_endpoint_queue_size",
                    "Requests waiting in an endpoint's queue.",
                ),
                &["name", "model_server_endpoint"],
            )?,
            spreads: spreads()?,
            ready: IntGaugeVec::new(
                Opts::new("llm_d_epp_ready_endpoints", "Endpoints that may be chosen."),
                &["name"],
            )?,
            staleness: GaugeVec::new(
                ours("lodesman_metrics_staleness_seconds", "Age of an endpoint's newest sample."),
                &["endpoint"],
            )?,
            body_bytes: IntGauge::with_opts(ours(
                "lodesman_body_bytes_buffered",
                "Bytes of request bodies that are held.",
            ))?,
            poll_errors: IntCounterVec::new(
                Opts::new(
                    "llm_d_epp_datalayer_poll_errors_total",
                    "Failed reads of a model server.",
                ),
                &["source_type"],
            )?,
            scrape_errors: IntCounterVec::new(
                ours("lodesman_scrape_errors_total", "Failed reads of a metrics page."),
                &["reason"],
            )?,
            prefix_size: IntGaugeVec::new(
                Opts::new(
                    "llm_d_epp_prefix_indexer_size",
                    "Blocks in the prefix index, over all endpoints.",
                ),
                &["plugin_name", "plugin_type"],
            )?,
            pool,
            budget,
            scrapes,
            prefix,
            name: name.to_owned(),
        })
    }

    fn endpoint(&self, snapshot: &Snapshot, endpoint: &Endpoint) {
        let (now, slot, name) = (clock::now(), endpoint.id.slot, endpoint.spec.name.as_str());
        let [requests, tokens] = &self.in_flight;
        let labels = [name, &endpoint.spec.namespace, PRODUCER, "", ""];
        requests.with_label_values(&labels).set(i64::from(endpoint.live.requests()));
        let held = i64::try_from(endpoint.live.prompt_tokens()).unwrap_or(i64::MAX);
        tokens.with_label_values(&labels).set(held);
        if let Reading::Fresh(waiting) = snapshot.waiting(slot, now) {
            self.queue.with_label_values(&[&self.name, name]).set(f64::from(waiting));
        }
        if let Some(age) = snapshot.scrape_age(slot, now) {
            self.staleness.with_label_values(&[name]).set(age.as_secs_f64());
        }
    }

    fn failures(&self) {
        self.poll_errors.reset();
        self.scrape_errors.reset();
        for (reason, count) in self.scrapes.errors() {
            self.poll_errors.with_label_values(&[SOURCE]).inc_by(count);
            self.scrape_errors.with_label_values(&[reason]).inc_by(count);
        }
        self.poll_errors.with_label_values(&[LISTS]).inc_by(self.scrapes.lists());
    }

    fn vectors(&self) -> Vec<&dyn Collector> {
        let [requests, tokens] = &self.in_flight;
        let pool: [&dyn Collector; 4] = [requests, tokens, &self.queue, &self.ready];
        let more: [&dyn Collector; 5] = [
            &self.staleness,
            &self.body_bytes,
            &self.poll_errors,
            &self.scrape_errors,
            &self.prefix_size,
        ];
        let spreads = self.spreads.iter().flat_map(|spread| [&spread.mean, &spread.deviation]);
        let spreads = spreads.map(|gauge| gauge as &dyn Collector);
        pool.into_iter().chain(more).chain(spreads).collect()
    }
}

impl Collector for PoolMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.vectors().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let (snapshot, now) = (self.pool.load(), clock::now());
        let [kv, queue, running] = &self.spreads;
        let [requests, tokens] = &self.in_flight;
        for vector in [requests, tokens, &self.ready, &self.prefix_size] {
            vector.reset();
        }
        for vector in [&self.queue, &self.staleness] {
            vector.reset();
        }
        for endpoint in snapshot.endpoints() {
            self.endpoint(&snapshot, endpoint);
        }
        kv.set(&self.name, &snapshot, |slot| snapshot.kv_usage(slot, now));
        queue.set(&self.name, &snapshot, |slot| snapshot.waiting(slot, now));
        running.set(&self.name, &snapshot, |slot| snapshot.running(slot, now));
        self.failures();
        if let Some(prefix) = &*self.prefix.load() {
            let labels = [&*prefix.settings().name, PREFIX];
            let blocks = i64::try_from(prefix.len()).unwrap_or(i64::MAX);
            self.prefix_size.with_label_values(&labels).set(blocks);
        }
        let ready = i64::try_from(snapshot.ready().len()).unwrap_or(i64::MAX);
        self.ready.with_label_values(&[&self.name]).set(ready);
        self.body_bytes.set(i64::try_from(self.budget.used()).unwrap_or(i64::MAX));
        self.vectors().into_iter().flat_map(Collector::collect).collect()
    }
}

impl std::fmt::Debug for PoolMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolMetrics").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Mean and standard deviation of one value over the endpoints.
struct Spread {
    mean: GaugeVec,
    deviation: GaugeVec,
}

impl Spread {
    fn new(what: &str, words: &str) -> prometheus::Result<Self> {
        let gauge = |kind: &str, help: String| {
            GaugeVec::new(Opts::new(format!("llm_d_epp_{kind}_{what}"), help), &["name"])
        };
        Ok(Self {
            mean: gauge("average", format!("Mean {words} over the endpoints."))?,
            deviation: gauge("std_dev", format!("Standard deviation of the {words}."))?,
        })
    }

    /// Over the fresh values; absent when none is fresh, 0 for an empty pool.
    fn set(&self, pool: &str, snapshot: &Snapshot, read: impl Fn(Slot) -> Reading) {
        let fresh = |&slot: &Slot| match read(slot) {
            Reading::Fresh(value) => Some(f64::from(value)),
            Reading::Stale | Reading::Unknown => None,
        };
        let values: Vec<f64> = snapshot.ready().iter().filter_map(fresh).collect();
        self.mean.reset();
        self.deviation.reset();
        if !values.is_empty() || snapshot.ready().is_empty() {
            let (mean, deviation) = spread(&values);
            self.mean.with_label_values(&[pool]).set(mean);
            self.deviation.with_label_values(&[pool]).set(deviation);
        }
    }
}

/// Mean and standard deviation of a whole population; 0 without values.
fn spread(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (mean, (squares / count).sqrt())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use expect_test::expect_file;

    use super::*;
    use crate::metrics::Metrics;

    const HEAD: &str = "# Metrics

On `/metrics` of the metrics port (9090). Families named `llm_d_epp_*` have the names, labels and buckets of the
llm-d-router EPP; `lodesman_*` are ours and carry the labels `namespace` and `pool` besides those listed. Label values that
come from clients are capped: 1,000 model names, 1,000 fairness ids, 500 combinations; what is beyond is `other`.

| family | labels | meaning |
|---|---|---|
";

    const TAIL: &str = "
Outcomes of a request: `ok`, `upstream_4xx`, `upstream_5xx`, `rejected`, `shed`, `client_disconnect` (the stream was reset
before the answer ended), `unobserved` (the end of the answer was not ours to see), `epp_error`. Rungs of a decision:
`policy`, `load_only` (signals are lost, or the deadline was missed).
";

    #[test]
    fn the_manual_lists_every_family() {
        let metrics = Metrics::new("ns", "pool", true).unwrap();
        let sources = Sources {
            pool: Arc::default(),
            budget: Budget::new(1),
            scrapes: Arc::default(),
            prefix: Arc::default(),
        };
        let pool = PoolMetrics::new(sources, "ns", "pool").unwrap();
        let watches = crate::k8s::Watches::new(Vec::new(), "ns", "pool").unwrap();
        let added = pool.desc().into_iter().chain(watches.desc());
        let mut rows: Vec<_> = metrics.families().iter().chain(added).collect();
        rows.sort_by(|a, b| a.fq_name.cmp(&b.fq_name));
        let mut page = HEAD.to_owned();
        for row in rows {
            let labels: Vec<_> =
                row.variable_labels.iter().map(|label| format!("`{label}`")).collect();
            writeln!(page, "| `{}` | {} | {} |", row.fq_name, labels.join(", "), row.help).unwrap();
        }
        expect_file!["../../docs/metrics.md"].assert_eq(&(page + TAIL));
    }

    #[test]
    fn the_deviation_is_that_of_a_whole_population() {
        assert_eq!(spread(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), (5.0, 2.0));
        assert_eq!((spread(&[3.0]), spread(&[])), ((3.0, 0.0), (0.0, 0.0)));
    }
}
