//! Families whose values are read from the pool when the page is asked for.

use std::sync::Arc;

use arc_swap::ArcSwap;
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

/// Reads the pool.
pub(super) struct PoolMetrics {
    pool: Arc<ArcSwap<Snapshot>>,
    budget: Arc<Budget>,
    name: String,
    in_flight: [IntGaugeVec; 2],
    queue: GaugeVec,
    averages: [GaugeVec; 3],
    ready: IntGaugeVec,
    staleness: GaugeVec,
    body_bytes: IntGauge,
    scrapes: Arc<Counters>,
    prefix: Option<Arc<Index>>,
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
    pub(super) prefix: Option<Arc<Index>>,
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

/// Means over the endpoints.
fn averages() -> prometheus::Result<[GaugeVec; 3]> {
    let gauge = |what: &str, help: &str| {
        GaugeVec::new(Opts::new(format!("llm_d_epp_average_{what}"), help), &["name"])
    };
    Ok([
        gauge("kv_cache_utilization", "Mean used share of the KV cache.")?,
        gauge("queue_size", "Mean number of waiting requests.")?,
        gauge("running_requests", "Mean number of running requests.")?,
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
            averages: averages()?,
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

    /// The mean over the fresh values; absent when none is fresh, 0 for an empty pool.
    fn average(&self, gauge: &GaugeVec, snapshot: &Snapshot, read: impl Fn(Slot) -> Reading) {
        let fresh = |&slot: &Slot| match read(slot) {
            Reading::Fresh(value) => Some(f64::from(value)),
            Reading::Stale | Reading::Unknown => None,
        };
        let values: Vec<f64> = snapshot.ready().iter().filter_map(fresh).collect();
        if !values.is_empty() || snapshot.ready().is_empty() {
            let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
            gauge.with_label_values(&[&self.name]).set(mean);
        }
    }

    fn failures(&self) {
        self.poll_errors.reset();
        self.scrape_errors.reset();
        for (reason, count) in self.scrapes.errors() {
            self.poll_errors.with_label_values(&[SOURCE]).inc_by(count);
            self.scrape_errors.with_label_values(&[reason]).inc_by(count);
        }
    }

    fn vectors(&self) -> Vec<&dyn Collector> {
        let ([requests, tokens], [kv, queue, running]) = (&self.in_flight, &self.averages);
        let pool: [&dyn Collector; 7] =
            [requests, tokens, &self.queue, kv, queue, running, &self.ready];
        let more: [&dyn Collector; 5] = [
            &self.staleness,
            &self.body_bytes,
            &self.poll_errors,
            &self.scrape_errors,
            &self.prefix_size,
        ];
        pool.into_iter().chain(more).collect()
    }
}

impl Collector for PoolMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.vectors().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let (snapshot, now) = (self.pool.load(), clock::now());
        let [kv, queue, running] = &self.averages;
        let [requests, tokens] = &self.in_flight;
        for vector in [requests, tokens, &self.ready] {
            vector.reset();
        }
        for vector in [&self.queue, kv, queue, running, &self.staleness] {
            vector.reset();
        }
        for endpoint in snapshot.endpoints() {
            self.endpoint(&snapshot, endpoint);
        }
        self.average(kv, &snapshot, |slot| snapshot.kv_usage(slot, now));
        self.average(queue, &snapshot, |slot| snapshot.waiting(slot, now));
        self.average(running, &snapshot, |slot| snapshot.running(slot, now));
        self.failures();
        if let Some(prefix) = &self.prefix {
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

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use expect_test::expect_file;

    use super::*;
    use crate::metrics::Metrics;

    const HEAD: &str = "# Metrics

On `/metrics` of the metrics port (9090). Families named `llm_d_epp_*` have the names, labels and buckets of the
llm-d-router EPP; `lodesman_*` are ours and carry the labels `namespace` and `pool` besides those listed. Label values that
come from clients are capped: 1,000 model names, 1,000 fairness ids, 4,096 combinations; what is beyond is `other`.

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
            prefix: None,
        };
        let pool = PoolMetrics::new(sources, "ns", "pool").unwrap();
        let mut rows: Vec<_> = metrics.families().iter().chain(pool.desc()).collect();
        rows.sort_by(|a, b| a.fq_name.cmp(&b.fq_name));
        let mut page = HEAD.to_owned();
        for row in rows {
            let labels: Vec<_> =
                row.variable_labels.iter().map(|label| format!("`{label}`")).collect();
            writeln!(page, "| `{}` | {} | {} |", row.fq_name, labels.join(", "), row.help).unwrap();
        }
        expect_file!["../../docs/metrics.md"].assert_eq(&(page + TAIL));
    }
}
