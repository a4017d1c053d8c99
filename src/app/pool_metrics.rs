//! Families whose values are read from the pool when the page is asked for.

use std::collections::HashSet;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, IntGauge, IntGaugeVec, Opts};

use crate::extproc::Budget;
use crate::metrics::Attempts;
use crate::pool::{Endpoint, Reading, Slot, Snapshot};
use crate::prefix::Index;
use crate::scrape::Counters;
use crate::server::clock;

use self::failures::Failures;
use self::gaps::Gaps;

pub(super) use self::saturation::Saturation;

mod failures;
mod gaps;
mod saturation;
#[cfg(test)]
mod tests;

/// The reference's name of the plugin that counts requests in flight.
const PRODUCER: &str = "inflight-load-producer";

/// The reference's type of the plugin that remembers prefixes.
const PREFIX: &str = "approx-prefix-cache-producer";

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
    failures: Failures,
    gaps: Gaps,
    attempts: Arc<Attempts>,
    attempted: Desc,
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
    /// Who was chosen.
    pub(super) attempts: Arc<Attempts>,
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
        let Sources { pool, budget, scrapes, prefix, attempts } = sources;
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
                Opts::new(
                    "llm_d_epp_ready_endpoints",
                    "Endpoints that may be chosen, without those that drain.",
                ),
                &["name"],
            )?,
            staleness: GaugeVec::new(
                ours("lodesman_metrics_staleness_seconds", "Age of an endpoint's newest sample."),
                &["endpoint"],
            )?,
            body_bytes: IntGauge::with_opts(ours(
                "lodesman_body_bytes_buffered",
                "Bytes of memory that held request bodies are charged.",
            ))?,
            failures: Failures::new(ours)?,
            gaps: Gaps::new(ours)?,
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
            attempts,
            attempted: Attempts::desc()?,
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

    /// What was attempted; endpoints that are not in the pool any more are shown for the last time.
    fn attempts(&self, snapshot: &Snapshot) -> MetricFamily {
        let members: HashSet<_> = snapshot.endpoints().map(|endpoint| endpoint.id.epoch).collect();
        self.attempts.collect(|number| members.contains(&number))
    }

    fn vectors(&self) -> Vec<&dyn Collector> {
        let [requests, tokens] = &self.in_flight;
        let pool: [&dyn Collector; 4] = [requests, tokens, &self.queue, &self.ready];
        let more: [&dyn Collector; 4] =
            [&self.staleness, &self.body_bytes, &self.prefix_size, self.gaps.vector()];
        let spreads = self.spreads.iter().flat_map(|spread| [&spread.mean, &spread.deviation]);
        let spreads = spreads.map(|gauge| gauge as &dyn Collector);
        pool.into_iter().chain(more).chain(self.failures.vectors()).chain(spreads).collect()
    }
}

impl Collector for PoolMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.vectors().into_iter().flat_map(Collector::desc).chain([&self.attempted]).collect()
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
        self.failures.show(&self.scrapes);
        self.gaps.show(&snapshot);
        if let Some(prefix) = &*self.prefix.load() {
            let labels = [&*prefix.settings().name, PREFIX];
            let blocks = i64::try_from(prefix.len()).unwrap_or(i64::MAX);
            self.prefix_size.with_label_values(&labels).set(blocks);
        }
        let ready = i64::try_from(snapshot.in_service()).unwrap_or(i64::MAX);
        self.ready.with_label_values(&[&self.name]).set(ready);
        self.body_bytes.set(i64::try_from(self.budget.used()).unwrap_or(i64::MAX));
        let attempts = self.attempts(&snapshot);
        self.vectors().into_iter().flat_map(Collector::collect).chain([attempts]).collect()
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
