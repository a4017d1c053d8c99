//! The families of the reference, written down from its documents: names, types, labels, buckets, old names.

use super::*;

/// Without the prefix `llm_d_epp_`: name, type, labels, number of buckets and greatest bound, old name with its labels.
/// `B` stands for the labels of a request.
const FAMILIES: &str = "
request_total | counter | B | | inference_objective_request_total model_name,priority,target_model_name
request_error_total | counter | B,error_code | | inference_objective_request_error_total error_code,model_name,target_model_name
request_duration_seconds | histogram | B | 35 3600 | inference_objective_request_duration_seconds model_name,target_model_name
request_size_bytes | histogram | B | 25 1073741824 | inference_objective_request_sizes model_name,target_model_name
response_size_bytes | histogram | B | 15 65536 | inference_objective_response_sizes model_name,target_model_name
request_input_tokens | histogram | B | 19 1048576 | inference_objective_input_tokens model_name,target_model_name
request_output_tokens | histogram | B | 12 8192 | inference_objective_output_tokens model_name,target_model_name
request_cached_tokens | histogram | B | 19 1048576 | inference_objective_prompt_cached_tokens model_name,target_model_name
request_running | gauge | B | | inference_objective_running_requests model_name
request_ntpot_seconds | histogram | B | 13 10 | inference_objective_normalized_time_per_output_token_seconds model_name,target_model_name
request_ttft_seconds | histogram | B,streaming | 24 120 |
request_streaming_tpot_seconds | histogram | B | 19 2 |
request_streaming_itl_seconds | histogram | B | 15 2 |
request_processing_duration_seconds | histogram | | 16 10 |
response_processing_duration_seconds | histogram | | 15 5 |
average_kv_cache_utilization | gauge | name | | inference_pool_average_kv_cache_utilization name
average_queue_size | gauge | name | | inference_pool_average_queue_size name
average_running_requests | gauge | name | | inference_pool_average_running_requests name
std_dev_kv_cache_utilization | gauge | name | |
std_dev_queue_size | gauge | name | |
std_dev_running_requests | gauge | name | |
ready_endpoints | gauge | name | | inference_pool_ready_pods name
per_endpoint_queue_size | gauge | model_server_endpoint,name | | inference_pool_per_pod_queue_size model_server_pod,name
scheduler_e2e_duration_seconds | histogram | | 10 0.1 | inference_extension_scheduler_e2e_duration_seconds
scheduler_attempts_total | counter | endpoint_name,namespace,port,status,target_model_name | | inference_extension_scheduler_attempts_total namespace,pod_name,port,status,target_model_name
plugin_duration_seconds | histogram | extension_point,plugin_name,plugin_type | 10 0.1 | inference_extension_plugin_duration_seconds extension_point,plugin_name,plugin_type
info | gauge | build_ref,commit | | inference_extension_info build_ref,commit
model_rewrite_decisions_total | counter | model_name,model_rewrite_name,target_model | | inference_extension_model_rewrite_decisions_total model_name,model_rewrite_name,target_model
datalayer_poll_errors_total | counter | source_type | | llm_d_inference_scheduler_datalayer_poll_errors_total source_type
datalayer_extract_errors_total | counter | extractor_type,source_type | | llm_d_inference_scheduler_datalayer_extract_errors_total extractor_type,source_type
flow_control_pool_saturation | gauge | inference_pool,stage | | inference_extension_flow_control_pool_saturation inference_pool,stage
flow_control_stale_endpoints | gauge | detector | |
extproc_streams_inflight | gauge | | |
extproc_stream_duration_seconds | histogram | | 14 600 |
extproc_streams_total | counter | code | |
inflight_requests | gauge | endpoint_name,fairness_id,namespace,priority,producer_name | |
inflight_tokens | gauge | endpoint_name,fairness_id,namespace,priority,producer_name | |
prefix_indexer_size | gauge | plugin_name,plugin_type | | inference_extension_prefix_indexer_size
prefix_indexer_hit_ratio | histogram | plugin_name,plugin_type | 11 1 | inference_extension_prefix_indexer_hit_ratio
prefix_indexer_hit_bytes | histogram | plugin_name,plugin_type | 14 65536 | inference_extension_prefix_indexer_hit_bytes
";

const REQUEST: &str = "fairness_id,model_name,priority,target_model_name";

/// What a page shows of a family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Shown {
    kind: String,
    /// Sorted, with commas.
    labels: String,
    /// Number of finite buckets and the greatest bound.
    buckets: String,
}

impl Shown {
    fn new(kind: &str, labels: &str, buckets: &str) -> Self {
        let labels = labels.replacen('B', REQUEST, 1);
        let mut labels: Vec<_> = labels.split(',').filter(|label| !label.is_empty()).collect();
        labels.sort_unstable();
        Self { kind: kind.to_owned(), labels: labels.join(","), buckets: buckets.to_owned() }
    }
}

/// A page with a series of every family.
fn page() -> String {
    let metrics = Metrics::new("ns", "pool", true).unwrap();
    let sample =
        Sample { waiting: Some(1.0), running: Some(1.0), kv_usage: Some(0.5), ..Sample::default() };
    let sources = sources(fixture::sampled(&[Some(sample)], clock::now()), &metrics);
    let index = crate::app::prefix_index(crate::prefix::Settings::default());
    metrics.prefix(&index.settings().name).observe(1, 2);
    sources.prefix.store(Some(index));
    let director = director(&sources.pool, &metrics);
    let saturation = Saturation::new(Arc::downgrade(&director), "pool").unwrap();
    metrics.register(Box::new(saturation)).unwrap();
    metrics.register(Box::new(PoolMetrics::new(sources, "ns", "pool").unwrap())).unwrap();
    metrics.plugins.took("Filter", "type", "name", Duration::from_millis(1));
    metrics.streams.began();
    metrics.streams.ended("Ok", Duration::from_millis(1));
    let labels = Labels { model: "m", target: "t", fairness_id: "f", priority: 0 };
    let series = metrics.series(&labels);
    series.unplaced();
    series.error("Unknown");
    series.rewritten("object");
    metrics.page_with_old_names().unwrap()
}

/// All families of a page; a test name of a family is a prefix of none other's samples.
fn families(page: &str) -> BTreeMap<String, Shown> {
    let mut families: BTreeMap<String, Shown> = BTreeMap::new();
    let mut bounds: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut current = String::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            name.clone_into(&mut current);
            families.insert(current.clone(), Shown::new(kind, "", ""));
        } else if !line.starts_with('#') {
            let labels =
                line.split_once('{').map_or("", |(_, rest)| rest.split_once('}').unwrap().0);
            let pairs: Vec<_> = labels.split(',').filter_map(|it| it.split_once('=')).collect();
            let of = |wanted: bool| pairs.iter().filter(move |(name, _)| (*name == "le") == wanted);
            let names: Vec<_> = of(false).map(|(name, _)| *name).collect();
            let shown = families.get_mut(&current).unwrap();
            shown.labels = Shown::new("", &names.join(","), "").labels;
            let bound = of(true).filter_map(|(_, it)| it.trim_matches('"').parse::<f64>().ok());
            bounds.entry(current.clone()).or_default().extend(bound.filter(|it| it.is_finite()));
        }
    }
    for (name, bounds) in bounds {
        if let Some(greatest) = bounds.last() {
            families.get_mut(&name).unwrap().buckets = format!("{} {greatest}", bounds.len());
        }
    }
    families
}

#[test]
fn the_references_families_have_its_labels_buckets_and_old_names() {
    let page = page();
    let mut shown = families(&page);
    shown.retain(|name, _| !name.starts_with("lodesman_"));
    let mut expected = BTreeMap::new();
    for line in FAMILIES.lines().filter(|line| !line.is_empty()) {
        let fields: Vec<_> = line.split('|').map(str::trim).collect();
        let [name, kind, labels, buckets, old] = fields[..] else { panic!("{line}") };
        expected.insert(format!("llm_d_epp_{name}"), Shown::new(kind, labels, buckets));
        let (old, labels) = old.split_once(' ').unwrap_or((old, ""));
        if !old.is_empty() {
            expected.insert(old.to_owned(), Shown::new(kind, labels, buckets));
        }
    }
    for (name, family) in &expected {
        assert_eq!(shown.get(name), Some(family), "{name}\n{page}");
    }
    let more: Vec<_> = shown.keys().filter(|name| !expected.contains_key(*name)).collect();
    assert!(more.is_empty(), "not of the reference: {more:?}");
}
