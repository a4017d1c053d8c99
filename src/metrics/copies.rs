//! Families that show the cells of others under names of their own, made when the page is asked for.
//!
//! [`COPIES`] is the table. Where a copy has fewer labels than its source, series that are then the same are added up.

use std::collections::BTreeMap;

use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};

use super::buckets;

/// A family that is made of another.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    /// Its name.
    pub name: &'static str,
    /// The family whose cells it shows.
    pub of: &'static str,
    /// What it is; none where it is an old name of the other, and so the same.
    pub help: Option<&'static str>,
    /// Its labels, and what the other calls them.
    pub labels: &'static [(&'static str, &'static str)],
    /// The upper bounds of its buckets, which the other has too; all of them where none is given.
    pub buckets: &'static [f64],
}

/// A label that both call the same.
const fn same(label: &'static str) -> (&'static str, &'static str) {
    (label, label)
}

/// An old name of a family.
const fn old(
    name: &'static str,
    of: &'static str,
    labels: &'static [(&'static str, &'static str)],
) -> Copy {
    Copy { name, of, help: None, labels, buckets: &[] }
}

const MODEL: (&str, &str) = same("model_name");
const TARGET: (&str, &str) = same("target_model_name");
const MODELS: &[(&str, &str)] = &[MODEL, TARGET];
const POOL: &[(&str, &str)] = &[same("name")];
const FLOW_CONTROL: &[(&str, &str)] = &[same("inference_pool"), same("stage")];
const SOURCE: (&str, &str) = same("source_type");

/// What a decision takes, which is the time of scheduling.
const DECISION: &str = "lodesman_decision_duration_seconds";

/// All copies; those without a help of their own are the deprecated names of the reference.
///
/// Left out are the old names that only parts write which are not here: predicted latencies, disaggregation, the exact
/// prefix index, and queues of flow control.
pub static COPIES: &[Copy] = &[
    Copy {
        name: "llm_d_epp_scheduler_e2e_duration_seconds",
        of: DECISION,
        help: Some("Time of a decision, without waiting."),
        labels: &[],
        buckets: buckets::SCHEDULING,
    },
    Copy {
        buckets: buckets::SCHEDULING,
        ..old("inference_extension_scheduler_e2e_duration_seconds", DECISION, &[])
    },
    old(
        "inference_objective_request_total",
        "llm_d_epp_request_total",
        &[MODEL, same("priority"), TARGET],
    ),
    old(
        "inference_objective_request_error_total",
        "llm_d_epp_request_error_total",
        &[same("error_code"), MODEL, TARGET],
    ),
    old(
        "inference_objective_request_duration_seconds",
        "llm_d_epp_request_duration_seconds",
        MODELS,
    ),
    old("inference_objective_request_sizes", "llm_d_epp_request_size_bytes", MODELS),
    old("inference_objective_response_sizes", "llm_d_epp_response_size_bytes", MODELS),
    old("inference_objective_input_tokens", "llm_d_epp_request_input_tokens", MODELS),
    old("inference_objective_output_tokens", "llm_d_epp_request_output_tokens", MODELS),
    old("inference_objective_prompt_cached_tokens", "llm_d_epp_request_cached_tokens", MODELS),
    old("inference_objective_running_requests", "llm_d_epp_request_running", &[MODEL]),
    old(
        "inference_objective_normalized_time_per_output_token_seconds",
        "llm_d_epp_request_ntpot_seconds",
        MODELS,
    ),
    old(
        "inference_pool_average_kv_cache_utilization",
        "llm_d_epp_average_kv_cache_utilization",
        POOL,
    ),
    old("inference_pool_average_queue_size", "llm_d_epp_average_queue_size", POOL),
    old("inference_pool_average_running_requests", "llm_d_epp_average_running_requests", POOL),
    old("inference_pool_ready_pods", "llm_d_epp_ready_endpoints", POOL),
    old(
        "inference_pool_per_pod_queue_size",
        "llm_d_epp_per_endpoint_queue_size",
        &[("model_server_pod", "model_server_endpoint"), same("name")],
    ),
    old(
        "inference_extension_scheduler_attempts_total",
        "llm_d_epp_scheduler_attempts_total",
        &[same("namespace"), ("pod_name", "endpoint_name"), same("port"), same("status"), TARGET],
    ),
    old(
        "inference_extension_plugin_duration_seconds",
        "llm_d_epp_plugin_duration_seconds",
        &[same("extension_point"), same("plugin_name"), same("plugin_type")],
    ),
    old("inference_extension_info", "llm_d_epp_info", &[same("build_ref"), same("commit")]),
    old(
        "inference_extension_model_rewrite_decisions_total",
        "llm_d_epp_model_rewrite_decisions_total",
        &[MODEL, same("model_rewrite_name"), same("target_model")],
    ),
    old(
        "inference_extension_flow_control_pool_saturation",
        "llm_d_epp_flow_control_pool_saturation",
        FLOW_CONTROL,
    ),
    old("inference_extension_prefix_indexer_size", "llm_d_epp_prefix_indexer_size", &[]),
    old("inference_extension_prefix_indexer_hit_ratio", "llm_d_epp_prefix_indexer_hit_ratio", &[]),
    old("inference_extension_prefix_indexer_hit_bytes", "llm_d_epp_prefix_indexer_hit_bytes", &[]),
    old(
        "llm_d_inference_scheduler_datalayer_poll_errors_total",
        "llm_d_epp_datalayer_poll_errors_total",
        &[SOURCE],
    ),
    old(
        "llm_d_inference_scheduler_datalayer_extract_errors_total",
        "llm_d_epp_datalayer_extract_errors_total",
        &[same("extractor_type"), SOURCE],
    ),
];

impl Copy {
    /// Whether it is an old name.
    pub fn deprecated(&self) -> bool {
        self.help.is_none()
    }

    /// The copy of what was gathered; none where its source is not there.
    pub(super) fn made(&self, gathered: &[MetricFamily]) -> Option<MetricFamily> {
        let at = gathered.binary_search_by(|family| family.name().cmp(self.of)).ok()?;
        let source = gathered.get(at)?;
        let mut sums: BTreeMap<Vec<&str>, Added> = BTreeMap::new();
        for metric in source.get_metric() {
            let values = self.labels.iter().map(|(_, of)| value(metric, of)).collect();
            sums.entry(values).or_default().add(source.get_field_type(), metric, self.buckets);
        }
        let names = || self.labels.iter().map(|(name, _)| *name);
        let metrics = sums.into_iter().map(|(values, sum)| {
            let labels = names().zip(values).map(|(name, value)| pair(name, value)).collect();
            sum.metric(source.get_field_type(), labels)
        });
        let help = self.help.map_or_else(
            || format!("[Deprecated: use {}] {}", self.of, source.help()),
            str::to_owned,
        );
        let mut copy = MetricFamily::default();
        copy.set_name(self.name.to_owned());
        copy.set_help(help);
        copy.set_field_type(source.get_field_type());
        copy.set_metric(metrics.collect());
        Some(copy)
    }
}

/// What was added up of series that are one.
#[derive(Default)]
struct Added {
    /// Of counters and gauges.
    value: f64,
    count: u64,
    sum: f64,
    /// Upper bounds, and how many are not above.
    buckets: Vec<(f64, u64)>,
}

impl Added {
    fn add(&mut self, kind: MetricType, metric: &Metric, bounds: &[f64]) {
        match kind {
            MetricType::COUNTER => self.value += metric.get_counter().get_value(),
            MetricType::GAUGE => self.value += metric.get_gauge().get_value(),
            MetricType::HISTOGRAM => self.pour(metric.get_histogram(), bounds),
            MetricType::SUMMARY | MetricType::UNTYPED => {}
        }
    }

    fn pour(&mut self, histogram: &Histogram, bounds: &[f64]) {
        self.count += histogram.get_sample_count();
        self.sum += histogram.get_sample_sum();
        let shown = |bucket: &&Bucket| {
            let bound = bucket.upper_bound().to_bits();
            bounds.is_empty() || bounds.iter().any(|it| it.to_bits() == bound)
        };
        let shown = histogram.get_bucket().iter().filter(shown);
        if self.buckets.is_empty() {
            self.buckets
                .extend(shown.map(|bucket| (bucket.upper_bound(), bucket.cumulative_count())));
        } else {
            let all = self.buckets.iter_mut().zip(shown);
            all.for_each(|((_, count), bucket)| *count += bucket.cumulative_count());
        }
    }

    fn metric(self, kind: MetricType, labels: Vec<LabelPair>) -> Metric {
        let mut metric = Metric::from_label(labels);
        match kind {
            MetricType::COUNTER => {
                let mut counter = Counter::default();
                counter.set_value(self.value);
                metric.set_counter(counter);
            }
            MetricType::GAUGE => {
                let mut gauge = Gauge::default();
                gauge.set_value(self.value);
                metric.set_gauge(gauge);
            }
            MetricType::HISTOGRAM => metric.set_histogram(self.histogram()),
            MetricType::SUMMARY | MetricType::UNTYPED => {}
        }
        metric
    }

    fn histogram(self) -> Histogram {
        let bucket = |(bound, count)| {
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(bound);
            bucket.set_cumulative_count(count);
            bucket
        };
        let mut histogram = Histogram::default();
        histogram.set_sample_count(self.count);
        histogram.set_sample_sum(self.sum);
        histogram.set_bucket(self.buckets.into_iter().map(bucket).collect());
        histogram
    }
}

/// The value of a label; empty where it has none.
fn value<'a>(metric: &'a Metric, label: &str) -> &'a str {
    let pair = metric.get_label().iter().find(|pair| pair.name() == label);
    pair.map_or("", LabelPair::value)
}

/// A label with its value.
pub(super) fn pair(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crate::metrics::{COPIES, Labels, Metrics};

    fn page() -> String {
        let metrics = Metrics::new("ns", "pool", false).unwrap();
        for (flow, seconds) in [("a", 0.3), ("b", 0.3), ("b", 7.0)] {
            let labels = Labels { model: "m", target: "t", fairness_id: flow, priority: 0 };
            let series = metrics.series(&labels);
            series.requests.inc();
            series.running.inc();
            series.duration.observe(seconds);
        }
        metrics.decision_duration.observe(0.000_007);
        metrics.decision_duration.observe(0.000_15);
        metrics.page_with_old_names().unwrap()
    }

    fn has(page: &str, line: &str) {
        assert!(page.lines().any(|it| it == line), "{line}\n{page}");
    }

    #[test]
    fn series_that_differ_in_a_dropped_label_alone_are_one() {
        let page = page();
        has(
            &page,
            r#"inference_objective_request_total{model_name="m",priority="0",target_model_name="t"} 3"#,
        );
        has(&page, r#"inference_objective_running_requests{model_name="m"} 3"#);
        let labels = r#"model_name="m",target_model_name="t""#;
        for line in [
            format!(
                r#"inference_objective_request_duration_seconds_bucket{{{labels},le="0.4"}} 2"#
            ),
            format!(r#"inference_objective_request_duration_seconds_bucket{{{labels},le="8"}} 3"#),
            format!(
                r#"inference_objective_request_duration_seconds_bucket{{{labels},le="+Inf"}} 3"#
            ),
            format!("inference_objective_request_duration_seconds_sum{{{labels}}} 7.6"),
            format!("inference_objective_request_duration_seconds_count{{{labels}}} 3"),
        ] {
            has(&page, &line);
        }
    }

    #[test]
    fn a_copy_may_have_fewer_buckets() {
        let page = page();
        let name = "llm_d_epp_scheduler_e2e_duration_seconds";
        let buckets = page.lines().filter(|line| line.starts_with(&format!("{name}_bucket")));
        assert_eq!(buckets.count(), 11, "{page}");
        has(&page, &format!(r#"{name}_bucket{{le="0.0001"}} 1"#));
        has(&page, &format!(r#"{name}_bucket{{le="0.0002"}} 2"#));
        has(&page, &format!("{name}_count 2"));
    }

    #[test]
    fn old_names_say_what_to_use_and_can_be_left_out() {
        let page = page();
        has(
            &page,
            "# HELP inference_objective_request_total [Deprecated: use llm_d_epp_request_total] Requests that were placed.",
        );
        let metrics = Metrics::new("ns", "pool", false).unwrap();
        metrics.decision_duration.observe(0.1);
        let page = metrics.page().unwrap();
        assert!(!page.contains("\ninference_"), "{page}");
        assert!(page.contains("\nllm_d_epp_scheduler_e2e_duration_seconds_count 1\n"), "{page}");
    }

    #[test]
    fn every_name_stands_once_in_the_table_and_no_copy_is_of_a_copy() {
        let names: HashSet<_> = COPIES.iter().map(|copy| copy.name).collect();
        assert_eq!(names.len(), COPIES.len());
        assert!(COPIES.iter().all(|copy| !names.contains(copy.of)));
    }
}
