//! Where signals come from: the parameters of `metrics-data-source`, `core-metrics-extractor`, `models-data-source` and
//! `models-data-extractor`.

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use crate::config::engines::{BadSelector, Engine, Engines, Metric, Selector, Signal};
use crate::pool::Attributes;
use crate::pool::is_label_key;
use crate::schedule::registry::{BadParameters, Parameters, parameters};
use crate::units::GoDuration;

/// The shortest interval; shorter ones are raised to it, as in the reference.
pub const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// The types, each with a sentence for the manual.
pub const TYPES: [(&str, &str); 4] = [
    ("metrics-data-source", "Reads the metrics page of each endpoint."),
    ("core-metrics-extractor", "Says which metrics of which engine tell what."),
    ("models-data-source", "Reads the list of models of each endpoint."),
    ("models-data-extractor", "Takes the models out of the list."),
];

/// All that is read from endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// Their metrics pages; none reads no page, and routes by what is in flight.
    pub metrics: Option<Page>,
    /// Their lists of models; none asks the server of the metrics page at `/v1/models`.
    pub models: Option<Page>,
    /// What stands on a metrics page.
    pub engines: Engines,
}

/// A page of every endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Page {
    /// `http` unless given.
    pub scheme: Scheme,
    /// Where it is on the server; by the type of source unless given.
    pub path: Option<Path>,
    /// Its port, 1 ..= 65535; the endpoint's own unless given.
    pub port: Option<NonZeroU16>,
    /// Whether certificates are left unverified; true unless given, as in the reference, but false with a CA.
    pub insecure_skip_verify: Option<bool>,
    /// PEM file of the authorities to trust, in place of the system's.
    pub ca_cert_path: Option<PathBuf>,
    /// PEM file of our own certificate.
    pub client_cert_path: Option<PathBuf>,
    /// PEM file of its key.
    pub client_key_path: Option<PathBuf>,
    /// Time between two readings; adaptive unless given.
    pub interval: Option<GoDuration>,
}

/// How a page is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// In the clear.
    #[default]
    Http,
    /// By TLS.
    Https,
}

/// An absolute path, with its query if it has one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Path(http::uri::PathAndQuery);

/// What an instance of one of [`TYPES`] is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Where the metrics page is.
    Metrics(Page),
    /// What stands on it.
    Engines(Engines),
    /// Where the list of models is.
    Models(Page),
    /// How the list is read: there is one way.
    ModelsExtractor,
}

/// Parameters of `core-metrics-extractor`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Extractor {
    engine_label_key: Option<String>,
    default_engine: Option<String>,
    engine_configs: Vec<EngineConfig>,
}

/// An engine of `engineConfigs`; an empty metric is not read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct EngineConfig {
    name: String,
    queued_requests_spec: String,
    running_requests_spec: String,
    kv_usage_spec: String,
    lora_spec: String,
    cache_info_spec: String,
    cache_block_size_label_name: String,
    cache_num_blocks_label_name: String,
    cache_block_size_spec: String,
    cache_num_blocks_spec: String,
    custom_metrics: Vec<CustomMetric>,
}

/// A number of an engine beyond those that all have.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct CustomMetric {
    /// The attribute that plugins find it by.
    attribute_key: String,
    /// The metric.
    metric_spec: String,
}

impl Source {
    /// Reads the parameters of `type_name`; none when it is no type of source.
    pub fn read(type_name: &str, raw: Parameters) -> Option<Result<Self, BadParameters>> {
        Some(match type_name {
            "metrics-data-source" => Page::read(raw).map(Self::Metrics),
            "core-metrics-extractor" => {
                parameters(raw).and_then(Extractor::engines).map(Self::Engines)
            }
            "models-data-source" => Page::read(raw).map(Self::Models),
            "models-data-extractor" => {
                parameters::<Empty>(raw).map(|Empty {}| Self::ModelsExtractor)
            }
            _ => return None,
        })
    }

    /// The page that a source is; none for what reads one.
    pub fn page(&self) -> Option<&Page> {
        match self {
            Self::Metrics(page) | Self::Models(page) => Some(page),
            Self::Engines(_) | Self::ModelsExtractor => None,
        }
    }

    /// Whether `extractor` reads what this source gives.
    pub fn takes(&self, extractor: &Self) -> bool {
        matches!(
            (self, extractor),
            (Self::Metrics(_), Self::Engines(_)) | (Self::Models(_), Self::ModelsExtractor)
        )
    }
}

/// No parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Empty {}

impl Page {
    fn read(raw: Parameters) -> Result<Self, BadParameters> {
        let page: Self = parameters(raw)?;
        if page.client_cert_path.is_some() != page.client_key_path.is_some() {
            let message = "clientCertPath and clientKeyPath need each other, give both or neither";
            return Err(BadParameters(message.to_owned()));
        }
        Ok(page)
    }

    /// Whether the certificate of an endpoint must be good.
    pub fn verified(&self) -> bool {
        !self.insecure_skip_verify.unwrap_or_else(|| self.ca_cert_path.is_none())
    }

    /// Path and query, or `default`.
    pub fn path<'a>(&'a self, default: &'a str) -> &'a str {
        self.path.as_ref().map_or(default, |Path(path)| path.as_str())
    }

    /// The time between two readings, at least [`MIN_INTERVAL`].
    pub fn interval(&self) -> Option<Duration> {
        self.interval.map(|GoDuration(interval)| interval.max(MIN_INTERVAL))
    }

    /// What was written and has no effect, as field and reason.
    pub fn without_effect(&self) -> Option<(&'static str, &'static str)> {
        let tls = [
            ("insecureSkipVerify", self.insecure_skip_verify.is_some()),
            ("caCertPath", self.ca_cert_path.is_some()),
            ("clientCertPath", self.client_cert_path.is_some()),
        ];
        if self.scheme == Scheme::Http {
            let given = tls.into_iter().find(|(_, given)| *given);
            return given.map(|(field, _)| (field, "has no effect without scheme: https"));
        }
        let ignored = self.ca_cert_path.is_some() && !self.verified();
        ignored.then_some(("caCertPath", "has no effect with insecureSkipVerify: true"))
    }
}

impl TryFrom<String> for Path {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let path = text.parse::<http::uri::PathAndQuery>().ok();
        let path = path.filter(|path| path.as_str().starts_with('/'));
        path.map(Self).ok_or_else(|| format!("`{text}` is no absolute path such as /metrics"))
    }
}

impl Extractor {
    fn engines(self) -> Result<Engines, BadParameters> {
        let mut configured: Vec<Engine> = Vec::with_capacity(self.engine_configs.len());
        for (at, config) in self.engine_configs.into_iter().enumerate() {
            let wrong = |message| BadParameters(format!("engineConfigs[{at}]{message}"));
            let engine = config.engine().map_err(wrong)?;
            if configured.iter().any(|other| other.name == engine.name) {
                return Err(wrong(format!(".name: another engine is named `{}`", engine.name)));
            }
            configured.push(engine);
        }
        let mut engines = Engines::over_known(configured);
        let key = self.engine_label_key.filter(|key| !key.is_empty());
        if let Some(key) = key.as_deref().filter(|key| !is_label_key(key)) {
            let message = format!("`{key}` is no key of a label such as llm-d.ai/engine-type");
            return Err(BadParameters(message));
        }
        if let Some(key) = key
            && let Some(first) = engines.labels.first_mut()
        {
            *first = key.into();
        }
        engines.default = self.default_engine.filter(|name| !name.is_empty()).map(Box::from);
        match &engines.default {
            Some(name) if engines.list.iter().all(|engine| engine.name != *name) => {
                let names: Vec<_> = engines.list.iter().map(|engine| &*engine.name).collect();
                let known = names.join(", ");
                Err(BadParameters(format!("no engine is named `{name}`, give one of {known}")))
            }
            _ => Ok(engines),
        }
    }
}

impl EngineConfig {
    /// The engine, or what follows its path in a problem.
    fn engine(self) -> Result<Engine, String> {
        match self.name.as_str() {
            "" => return Err(".name is missing".to_owned()),
            "default" => return Err(".name: `default` is reserved".to_owned()),
            _ => {}
        }
        let (info, size, blocks) = (
            &self.cache_info_spec,
            label_or(self.cache_block_size_label_name, "block_size"),
            label_or(self.cache_num_blocks_label_name, "num_gpu_blocks"),
        );
        let all = [
            (Signal::Waiting, "queuedRequestsSpec", &self.queued_requests_spec, None),
            (Signal::Running, "runningRequestsSpec", &self.running_requests_spec, None),
            (Signal::KvUsage, "kvUsageSpec", &self.kv_usage_spec, None),
            (Signal::Adapters, "loraSpec", &self.lora_spec, None),
            (Signal::BlockSize, "cacheBlockSizeSpec", &self.cache_block_size_spec, None),
            (Signal::Blocks, "cacheNumBlocksSpec", &self.cache_num_blocks_spec, None),
            (Signal::BlockSize, "cacheInfoSpec", info, Some(size)),
            (Signal::Blocks, "cacheInfoSpec", info, Some(blocks)),
        ];
        let given = all.into_iter().filter(|(_, _, spec, _)| !spec.trim().is_empty());
        let metric = |(signal, field, spec, label): (_, &str, &String, _)| {
            let bad = |error: BadSelector| format!(".{field}: {error}");
            Ok(Metric { signal, series: spec.parse::<Selector>().map_err(bad)?, label })
        };
        let mut metrics = given.map(metric).collect::<Result<Vec<_>, String>>()?;
        metrics.extend(attributes(self.custom_metrics)?);
        Ok(Engine { name: self.name.into(), metrics })
    }
}

/// The attributes of an engine, or what follows its path in a problem.
fn attributes(custom: Vec<CustomMetric>) -> Result<Vec<Metric>, String> {
    if custom.len() > Attributes::MOST {
        let (count, most) = (custom.len(), Attributes::MOST);
        return Err(format!(".customMetrics: there are {count}, give {most} or fewer"));
    }
    let mut metrics: Vec<Metric> = Vec::with_capacity(custom.len());
    for (at, CustomMetric { attribute_key, metric_spec }) in custom.into_iter().enumerate() {
        let field = |name| format!(".customMetrics[{at}].{name}");
        let key = attribute_key.trim();
        let signal = Signal::Attribute(Arc::from(key));
        if key.is_empty() {
            return Err(format!("{} is missing", field("attributeKey")));
        }
        if metrics.iter().any(|other| other.signal == signal) {
            return Err(format!("{}: another is named `{key}`", field("attributeKey")));
        }
        let bad = |error: BadSelector| format!("{}: {error}", field("metricSpec"));
        let series = metric_spec.parse::<Selector>().map_err(bad)?;
        metrics.push(Metric { signal, series, label: None });
    }
    Ok(metrics)
}

/// A label's name, or vLLM's when none is given.
fn label_or(given: String, default: &str) -> Box<str> {
    if given.is_empty() { default.into() } else { given.into() }
}

#[cfg(test)]
mod tests;
