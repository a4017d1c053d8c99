//! The metrics page of a simulated server, in the names of the engine that it stands for.

mod overlay;

use std::{collections::BTreeSet, fmt::Write};

pub(super) use self::overlay::overlay;
use super::{
    ask::Catalog,
    driver::Load,
    engine::{AdapterId, EngineSpec},
};

/// An engine by its metric names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Dialect {
    /// vLLM 0.32.
    Vllm,
    /// SGLang.
    Sglang,
    /// TensorRT-LLM's own server.
    TrtllmServe,
    /// TensorRT-LLM behind Triton.
    #[value(name = "triton-tensorrt-llm")]
    TritonTensorrtLlm,
    /// llm-d-inference-sim: vLLM's names, without its `engine` label.
    LlmDSim,
}

/// One line of the page.
#[derive(Clone, Debug)]
pub(super) struct Series {
    name: &'static str,
    kind: &'static str,
    labels: Vec<(&'static str, String)>,
    value: f64,
}

impl Series {
    fn gauge(name: &'static str, value: f64) -> Self {
        Self { name, kind: "gauge", labels: Vec::new(), value }
    }

    fn counter(name: &'static str, value: u64) -> Self {
        Self { kind: "counter", ..Self::gauge(name, value as f64) }
    }

    fn with(mut self, label: &'static str, value: &(impl ToString + ?Sized)) -> Self {
        self.labels.push((label, value.to_string()));
        self
    }
}

/// What the page tells of one server at one moment.
pub(super) struct Facts<'a> {
    pub(super) load: &'a Load,
    pub(super) spec: &'a EngineSpec,
    pub(super) catalog: &'a Catalog,
    /// Seconds since 1970, now.
    pub(super) now: f64,
}

/// The live series under the names of `dialect`.
pub(super) fn series(dialect: Dialect, facts: &Facts<'_>) -> Vec<Series> {
    let model = facts.catalog.models.first().map_or("", String::as_str);
    match dialect {
        Dialect::Vllm => {
            let mut all = labeled(vllm(facts), &[("engine", "0"), ("model_name", model)]);
            all.push(cache_info(facts).with("engine", "0"));
            all.extend(lora_info(facts));
            all
        }
        Dialect::LlmDSim => {
            let mut all = labeled(vllm(facts), &[("model_name", model)]);
            all.push(cache_info(facts));
            all.extend(lora_info(facts));
            all
        }
        Dialect::Sglang => labeled(sglang(facts), &[("model_name", model)]),
        Dialect::TrtllmServe => labeled(trtllm_serve(facts), &[("model_name", model)]),
        Dialect::TritonTensorrtLlm => {
            labeled(triton(facts), &[("model", "tensorrt_llm"), ("version", "1")])
        }
    }
}

fn vllm(facts: &Facts<'_>) -> Vec<Series> {
    let Load { gauges, counters, .. } = facts.load;
    let waiting = gauges.waiting as f64;
    let by_reason = "vllm:num_requests_waiting_by_reason";
    vec![
        Series::gauge("vllm:num_requests_running", gauges.running as f64),
        Series::gauge("vllm:num_requests_waiting", waiting),
        Series::gauge(by_reason, waiting).with("reason", "capacity"),
        Series::gauge(by_reason, 0.0).with("reason", "deferred"),
        Series::gauge("vllm:kv_cache_usage_perc", gauges.kv_used),
        Series::counter("vllm:prefix_cache_queries_total", counters.queried_tokens),
        Series::counter("vllm:prefix_cache_hits_total", counters.cached_tokens),
        Series::counter("vllm:num_preemptions_total", counters.preempted),
        Series::counter("vllm:prompt_tokens_total", counters.queried_tokens),
        Series::counter("vllm:generation_tokens_total", counters.generated_tokens),
        Series::counter("vllm:request_success_total", counters.finished)
            .with("finished_reason", "length"),
        Series::counter("vllm:request_success_total", counters.cancelled)
            .with("finished_reason", "abort"),
    ]
}

fn cache_info(facts: &Facts<'_>) -> Series {
    Series::gauge("vllm:cache_config_info", 1.0)
        .with("block_size", &facts.spec.block_tokens)
        .with("num_gpu_blocks", &facts.spec.kv_blocks())
}

/// Two series where adapters are in use, as the engine leaves older states on its page: the
/// newest, by its value, counts. None where no adapter is served.
fn lora_info(facts: &Facts<'_>) -> Vec<Series> {
    let state = |running: String, waiting: String, time: f64| {
        Series::gauge("vllm:lora_requests_info", time)
            .with("max_lora", &facts.spec.adapter_slots)
            .with("running_lora_adapters", &running)
            .with("waiting_lora_adapters", &waiting)
    };
    let names = |adapters: &BTreeSet<AdapterId>| {
        adapters.iter().map(|id| facts.catalog.name(*id)).collect::<Vec<_>>().join(",")
    };
    if facts.catalog.loras.is_empty() {
        return Vec::new();
    }
    let (running, waiting) = (&facts.load.running_adapters, &facts.load.waiting_adapters);
    let mut states = Vec::new();
    if !running.is_empty() || !waiting.is_empty() {
        states.push(state(String::new(), String::new(), facts.now - 1.0));
    }
    states.push(state(names(running), names(waiting), facts.now));
    states
}

fn sglang(facts: &Facts<'_>) -> Vec<Series> {
    let Load { gauges, counters, .. } = facts.load;
    vec![
        Series::gauge("sglang:num_running_reqs", gauges.running as f64),
        Series::gauge("sglang:num_queue_reqs", gauges.waiting as f64),
        Series::gauge("sglang:token_usage", gauges.kv_used),
        Series::counter("sglang:prompt_tokens_total", counters.queried_tokens),
        Series::counter("sglang:generation_tokens_total", counters.generated_tokens),
        Series::gauge("sglang:cache_config_info", 1.0)
            .with("page_size", &facts.spec.block_tokens)
            .with("num_pages", &facts.spec.kv_blocks()),
    ]
}

fn trtllm_serve(facts: &Facts<'_>) -> Vec<Series> {
    let gauges = facts.load.gauges;
    vec![
        Series::gauge("trtllm_num_requests_waiting", gauges.waiting as f64),
        Series::gauge("trtllm_num_requests_running", gauges.running as f64),
        Series::gauge("trtllm_kv_cache_utilization", gauges.kv_used),
        Series::gauge("trtllm_kv_cache_tokens_per_block", facts.spec.block_tokens as f64),
        Series::gauge("trtllm_kv_cache_max_blocks", facts.spec.kv_blocks() as f64),
    ]
}

fn triton(facts: &Facts<'_>) -> Vec<Series> {
    let gauges = facts.load.gauges;
    let requests = |kind: &str, count: usize| {
        Series::gauge("nv_trt_llm_request_metrics", count as f64).with("request_type", kind)
    };
    let blocks = |kind: &str, value: f64| {
        Series::gauge("nv_trt_llm_kv_cache_block_metrics", value).with("kv_cache_block_type", kind)
    };
    vec![
        requests("waiting", gauges.waiting),
        requests("scheduled", gauges.running),
        blocks("fraction", gauges.kv_used),
        blocks("tokens_per", facts.spec.block_tokens as f64),
        blocks("max", facts.spec.kv_blocks() as f64),
    ]
}

/// Adds the same labels to all.
fn labeled(series: Vec<Series>, labels: &[(&'static str, &str)]) -> Vec<Series> {
    let add = |series: Series| {
        labels.iter().fold(series, |series, (name, value)| series.with(name, *value))
    };
    series.into_iter().map(add).collect()
}

/// The page with these series and no others.
pub(super) fn render<'a>(series: impl IntoIterator<Item = &'a Series>) -> String {
    let mut page = String::new();
    let mut last = "";
    for series in series {
        if series.name != last {
            last = series.name;
            line(&mut page, format_args!("# TYPE {} {}", series.name, series.kind));
        }
        write_series(&mut page, series);
    }
    page
}

fn write_series(page: &mut String, series: &Series) {
    let labels = series.labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
    let labels = labels.collect::<Vec<_>>().join(",");
    line(page, format_args!("{}{{{labels}}} {:?}", series.name, series.value));
}

/// Escapes a label value as the exposition format asks.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn line(page: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    writeln!(page, "{text}").unwrap_or_default();
}
