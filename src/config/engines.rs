//! Engines by the names of their metrics: the table of those that are known, and what a configuration makes of it.

use std::str::FromStr;
use std::sync::Arc;

use crate::config::flags::MetricNames;

/// All engines of this build, the usual one first; where two metrics tell the same, the first that a page has counts.
pub static ENGINES: &[(&str, &[Row])] = &[
    (
        "vllm",
        &[
            value(Signal::Waiting, "vllm:num_requests_waiting"),
            value(Signal::Running, "vllm:num_requests_running"),
            value(Signal::KvUsage, "vllm:kv_cache_usage_perc"),
            // Until vLLM 0.9.
            value(Signal::KvUsage, "vllm:gpu_cache_usage_perc"),
            value(Signal::Adapters, "vllm:lora_requests_info"),
            label(Signal::BlockSize, "vllm:cache_config_info", "block_size"),
            label(Signal::Blocks, "vllm:cache_config_info", "num_gpu_blocks"),
        ],
    ),
    (
        "sglang",
        &[
            value(Signal::Waiting, "sglang:num_queue_reqs"),
            value(Signal::Running, "sglang:num_running_reqs"),
            value(Signal::KvUsage, "sglang:token_usage"),
            label(Signal::BlockSize, "sglang:cache_config_info", "page_size"),
            label(Signal::Blocks, "sglang:cache_config_info", "num_pages"),
        ],
    ),
    (
        "trtllm-serve",
        &[
            value(Signal::Waiting, "trtllm_num_requests_waiting"),
            value(Signal::Running, "trtllm_num_requests_running"),
            value(Signal::KvUsage, "trtllm_kv_cache_utilization"),
            value(Signal::BlockSize, "trtllm_kv_cache_tokens_per_block"),
            value(Signal::Blocks, "trtllm_kv_cache_max_blocks"),
        ],
    ),
    (
        "triton-tensorrt-llm",
        &[
            value(Signal::Waiting, "nv_trt_llm_request_metrics{request_type=waiting}"),
            value(Signal::Running, "nv_trt_llm_request_metrics{request_type=scheduled}"),
            value(
                Signal::KvUsage,
                "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=fraction}",
            ),
            value(
                Signal::BlockSize,
                "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=tokens_per}",
            ),
            value(Signal::Blocks, "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=max}"),
        ],
    ),
    // What runs is told only by a counter of all that ever ran.
    ("triton", &[value(Signal::Waiting, "nv_inference_pending_request_count")]),
];

/// A metric of a known engine.
#[derive(Clone, Debug)]
pub struct Row {
    signal: Signal,
    series: &'static str,
    label: Option<&'static str>,
}

/// What a metric tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Requests that wait.
    Waiting,
    /// Requests that run.
    Running,
    /// Used share of the KV cache, 0.0 ..= 1.0.
    KvUsage,
    /// Adapters, in labels; the value is the time at which it was so.
    Adapters,
    /// Tokens in a block of the KV cache.
    BlockSize,
    /// Blocks of the KV cache.
    Blocks,
    /// A number that the configuration names.
    Attribute(Arc<str>),
}

/// An engine and its metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// Its name in the configuration and in labels of pods.
    pub name: Box<str>,
    /// What it tells.
    pub metrics: Vec<Metric>,
}

/// A metric of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// What it tells.
    pub signal: Signal,
    /// Which series it is.
    pub series: Selector,
    /// The label whose text is the number; the value of the series when none.
    pub label: Option<Box<str>>,
}

/// Series of one name, and those labels that tell them apart: `name` or `name{label=value,label="value"}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// The name of the metric.
    pub name: Box<str>,
    /// Labels that a series must have, with these values.
    pub labels: Vec<(Box<str>, Box<str>)>,
}

/// The engines of a configuration, and how one is chosen for an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engines {
    /// Configured engines, then the known ones that no configured one replaces.
    pub list: Vec<Engine>,
    /// Labels of an endpoint that name its engine, the first that is there counts.
    pub labels: Vec<Box<str>>,
    /// The engine of an endpoint without label; none leaves it to the metrics page to tell.
    pub default: Option<Box<str>>,
}

/// Why a text selects no series.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no metric such as name or name{{label=value}}")]
pub struct BadSelector(String);

impl Engine {
    /// A known engine.
    fn known(name: &str, rows: &[Row]) -> Self {
        let metric = |row: &Row| {
            let series = row.series.parse().ok()?;
            Some(Metric { signal: row.signal.clone(), series, label: row.label.map(Box::from) })
        };
        Self { name: name.into(), metrics: rows.iter().filter_map(metric).collect() }
    }

    /// Replaces the metrics of the signals that `names` names; those that are read from labels keep their labels.
    pub fn rename(&mut self, names: &MetricNames) {
        let given = [
            (&names.waiting, &[Signal::Waiting][..]),
            (&names.running, &[Signal::Running]),
            (&names.kv_usage, &[Signal::KvUsage]),
            (&names.adapters, &[Signal::Adapters]),
            (&names.cache, &[Signal::BlockSize, Signal::Blocks]),
        ];
        for (series, signals) in given {
            let Some(series) = series else { continue };
            for signal in signals {
                let old = self.metrics.iter().position(|metric| metric.signal == *signal);
                let label = old.and_then(|at| self.metrics.get(at)?.label.clone());
                self.metrics.retain(|metric| metric.signal != *signal);
                let (signal, series) = (signal.clone(), series.clone());
                self.metrics.push(Metric { signal, series, label });
            }
        }
    }
}

impl Engines {
    /// The known engines after `configured` ones, which replace those of their name.
    pub fn over_known(configured: Vec<Engine>) -> Self {
        let mut list = configured;
        for (name, rows) in ENGINES {
            if list.iter().all(|engine| &*engine.name != *name) {
                list.push(Engine::known(name, rows));
            }
        }
        let labels = ["llm-d.ai/engine-type", "inference.networking.k8s.io/engine-type"];
        Self { list, labels: labels.map(Box::from).into(), default: None }
    }

    /// Lets flags rename metrics of the default engine, the usual one unless another is configured.
    pub fn rename(&mut self, names: &MetricNames) {
        let usual = ENGINES.first().map_or("", |(name, _)| name);
        let name = self.default.as_deref().unwrap_or(usual);
        if let Some(engine) = self.list.iter_mut().find(|engine| &*engine.name == name) {
            engine.rename(names);
        }
    }
}

impl Default for Engines {
    fn default() -> Self {
        Self::over_known(Vec::new())
    }
}

impl FromStr for Selector {
    type Err = BadSelector;

    fn from_str(text: &str) -> Result<Self, BadSelector> {
        let bad = || BadSelector(text.to_owned());
        let (name, labels) = match text.trim().split_once('{') {
            Some((name, rest)) => (name, rest.strip_suffix('}').ok_or_else(bad)?),
            None => (text.trim(), ""),
        };
        if !is_name(name.trim_end(), ":") {
            return Err(bad());
        }
        let pairs = labels.split(',').map(str::trim).filter(|pair| !pair.is_empty());
        let labels = pairs.map(|pair| matcher(pair).ok_or_else(bad)).collect::<Result<_, _>>()?;
        Ok(Self { name: name.trim_end().into(), labels })
    }
}

/// Reads `label=value` or `label="value"`.
fn matcher(pair: &str) -> Option<(Box<str>, Box<str>)> {
    let (label, value) = pair.split_once('=')?;
    let (label, value) = (label.trim(), value.trim());
    let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    let value = quoted.unwrap_or(value);
    // `=~` is no equality.
    let operator = quoted.is_none() && value.starts_with(['=', '~']);
    let plain = !value.contains(['"', '{', '}']) && (quoted.is_some() || !value.contains(' '));
    let plain = plain && !operator;
    (is_name(label, "") && plain).then(|| (label.into(), value.into()))
}

fn is_name(text: &str, also: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_' || also.contains(c);
    text.starts_with(letter) && text.chars().all(|c| letter(c) || c.is_ascii_digit())
}

const fn value(signal: Signal, series: &'static str) -> Row {
    Row { signal, series, label: None }
}

const fn label(signal: Signal, series: &'static str, label: &'static str) -> Row {
    Row { signal, series, label: Some(label) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(text: &str) -> Option<(String, Vec<String>)> {
        let Selector { name, labels } = text.parse().ok()?;
        Some((
            name.into(),
            labels.iter().map(|(label, value)| format!("{label}:{value}")).collect(),
        ))
    }

    #[test]
    fn a_selector_is_a_name_with_labels() {
        let found = |name: &str, labels: &[&str]| {
            Some((name.to_owned(), labels.iter().map(|&label| label.to_owned()).collect()))
        };
        assert_eq!(selector("vllm:x_1"), found("vllm:x_1", &[]));
        assert_eq!(selector(" x {a=b, c = \"d e\"} "), found("x", &["a:b", "c:d e"]));
        assert_eq!(selector("x{}"), found("x", &[]));
        for bad in
            ["", "1x", "x{", "x}", "x{a}", "x{a=\"b}", "x{a!=b}", "x y", "x{a=b c}", "x{a=~b}"]
        {
            assert_eq!(selector(bad), None, "{bad}");
        }
    }

    #[test]
    fn every_row_of_the_table_is_good() {
        for (name, rows) in ENGINES {
            assert_eq!(Engine::known(name, rows).metrics.len(), rows.len(), "{name}");
            assert_eq!(rows.first().map(|row| &row.signal), Some(&Signal::Waiting), "{name}");
        }
    }

    #[test]
    fn a_configured_engine_replaces_the_known_one_of_its_name() {
        let own = Engine { name: "sglang".into(), metrics: Vec::new() };
        let engines = Engines::over_known(vec![own.clone()]);
        assert_eq!((engines.list.len(), &engines.list[0]), (ENGINES.len(), &own));
    }

    #[test]
    fn flags_rename_metrics_of_the_default_engine_alone() {
        let names = MetricNames {
            waiting: Some("w".parse().unwrap()),
            cache: Some("c{x=y}".parse().unwrap()),
            ..MetricNames::default()
        };
        let mut engines = Engines::default();
        engines.rename(&names);
        let of = |signal| {
            let mut metrics = engines.list[0].metrics.iter().filter(|m| m.signal == signal);
            let Metric { series, label, .. } = metrics.next().unwrap();
            assert_eq!(metrics.next(), None);
            (series.name.to_string(), label.clone().unwrap_or_default().to_string())
        };
        assert_eq!(of(Signal::Waiting), ("w".to_owned(), String::new()));
        assert_eq!(of(Signal::Blocks), ("c".to_owned(), "num_gpu_blocks".to_owned()));
        assert_eq!(of(Signal::BlockSize), ("c".to_owned(), "block_size".to_owned()));
        assert_eq!(engines.list[1..], Engines::default().list[1..]);
    }
}
