//! What an autoscaler asks for, as the metadata of a KEDA trigger says it.

use std::collections::HashMap;
use std::time::Duration;

use crate::pool::Selector;
use crate::scale::history::LONGEST_WINDOW;
use crate::scale::signals::Signals;
use crate::units::{GoDuration, Positive};

/// The window of a trigger that says none.
pub const WINDOW: Duration = Duration::from_secs(30);

/// Keys that KEDA reads itself and passes on.
const KEDAS: [&str; 4] = ["scalerAddress", "enableTLS", "unsafeSsl", "tlsCertFile"];

/// Our keys.
const OURS: [&str; 7] = ["pool", "model", "metric", "target", "activation", "window", "variant"];

/// Most characters of a value in a message.
const SHOWN: usize = 64;

/// A trigger.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// What is asked for.
    pub metric: Metric,
    /// The value that one replica is to have.
    pub target: f64,
    /// The value, or the number of requests within the window, above which there is work.
    pub activation: f64,
    /// The time over which values are means; after so long without a request there is no work any more.
    pub window: Duration,
    /// The endpoints that are scaled; all when it says nothing.
    pub variant: Selector,
    /// Endpoints that serve this model alone; none for all.
    pub model: Option<String>,
}

/// What can be asked for. All values are sums over the replicas: KEDA divides them by the number of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Requests that wait, in engines and for an endpoint.
    Queue,
    /// How full the endpoints are, 1.0 for each that is full.
    Saturation,
    /// Requests being computed.
    Running,
    /// Tokens a second, of prompts and answers.
    Tokens,
    /// Replicas that the load needs.
    Replicas,
    /// Requests a second, as a multiple of what one replica can bear.
    Qps,
}

/// What is wrong with a trigger.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {value:?} {fix}")]
pub struct BadTrigger {
    /// The key of its metadata.
    pub key: Box<str>,
    /// What it says there.
    pub value: Box<str>,
    /// What is wrong, and what to give instead.
    pub fix: Box<str>,
}

impl Metric {
    /// All of them, by the word of the metadata.
    pub const ALL: [(&'static str, Self); 6] = [
        ("queue", Self::Queue),
        ("saturation", Self::Saturation),
        ("running", Self::Running),
        ("tokens", Self::Tokens),
        ("replicas", Self::Replicas),
        ("qps", Self::Qps),
    ];

    /// The name under which KEDA knows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queue => "lodesman-queue",
            Self::Saturation => "lodesman-saturation",
            Self::Running => "lodesman-running",
            Self::Tokens => "lodesman-tokens",
            Self::Replicas => "lodesman-replicas",
            Self::Qps => "lodesman-qps",
        }
    }

    /// The target unless it is given; none where there is no number that suits most.
    fn target(self) -> Option<f64> {
        match self {
            Self::Queue => Some(5.0),
            Self::Saturation | Self::Qps => Some(0.8),
            Self::Replicas => Some(1.0),
            Self::Running | Self::Tokens => None,
        }
    }

    /// Its value.
    pub fn of(self, signals: &Signals) -> f64 {
        match self {
            Self::Queue => signals.queue,
            Self::Saturation => signals.filled,
            Self::Running => signals.running,
            Self::Tokens => signals.tokens,
            Self::Replicas => f64::from(signals.recommended),
            Self::Qps => signals.requests / signals.knee.max(f64::MIN_POSITIVE),
        }
    }
}

impl Query {
    /// Reads the metadata of a trigger for a picker that serves this pool.
    ///
    /// # Errors
    /// When a key is unknown or its value is none that it takes.
    pub fn read(metadata: &HashMap<String, String>, pool: &str) -> Result<Self, BadTrigger> {
        let mut keys: Vec<_> = metadata.keys().map(String::as_str).collect();
        keys.sort_unstable();
        let known = |key: &&str| OURS.contains(key) || KEDAS.contains(key);
        if let Some(key) = keys.into_iter().find(|key| !known(key)) {
            let fix = format!("is of no known key, give one of {}", OURS.join(", "));
            return Err(bad(metadata, key, fix));
        }
        let given =
            |key: &str| metadata.get(key).map(|value| value.trim()).filter(|it| !it.is_empty());
        if given("pool").is_some_and(|name| name != pool) {
            return Err(bad(
                metadata,
                "pool",
                format!("is not served here, give {pool} or nothing"),
            ));
        }
        let metric = metric(metadata, given("metric"))?;
        let target = number(metadata, "target")?.or_else(|| metric.target());
        let target = target.filter(|target| *target > 0.0);
        Ok(Self {
            metric,
            target: target.ok_or_else(|| {
                bad(
                    metadata,
                    "target",
                    "is no target, give what one replica is to have, more than 0",
                )
            })?,
            activation: number(metadata, "activation")?.unwrap_or_default(),
            window: window(metadata, given("window"))?,
            variant: match given("variant").unwrap_or_default().parse() {
                Ok(variant) => variant,
                Err(error) => {
                    let fix = format!("is no label selector such as app=a,tier in (b,c): {error}");
                    return Err(bad(metadata, "variant", fix));
                }
            },
            model: given("model").map(str::to_owned),
        })
    }
}

fn metric(metadata: &HashMap<String, String>, given: Option<&str>) -> Result<Metric, BadTrigger> {
    let found = Metric::ALL.iter().find(|(name, _)| Some(*name) == given);
    let names = || Metric::ALL.map(|(name, _)| name).join(", ");
    let fix = || format!("is no metric, give one of {}", names());
    found.map(|(_, metric)| *metric).ok_or_else(|| bad(metadata, "metric", fix()))
}

fn number(metadata: &HashMap<String, String>, key: &str) -> Result<Option<f64>, BadTrigger> {
    let Some(text) = metadata.get(key).filter(|text| !text.trim().is_empty()) else {
        return Ok(None);
    };
    let number =
        text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.map(Some).ok_or_else(|| bad(metadata, key, "is no number, give one such as 5 or 0.8"))
}

fn window(metadata: &HashMap<String, String>, given: Option<&str>) -> Result<Duration, BadTrigger> {
    let Some(text) = given else { return Ok(WINDOW) };
    let window = text.parse().map(|Positive(GoDuration(window))| window);
    let good = |window: &Duration| (Duration::from_secs(1)..=LONGEST_WINDOW).contains(window);
    window.ok().filter(good).ok_or_else(|| bad(metadata, "window", "is no window, give 1s to 2m"))
}

fn bad(metadata: &HashMap<String, String>, key: &str, fix: impl Into<String>) -> BadTrigger {
    let value = metadata.get(key).map(String::as_str).unwrap_or_default();
    let short = |text: &str| text.chars().take(SHOWN).collect::<String>().into();
    BadTrigger { key: short(key), value: short(value), fix: fix.into().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(metadata: &[(&str, &str)]) -> Result<Query, BadTrigger> {
        let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Query::read(&metadata.collect(), "llm")
    }

    #[test]
    fn a_trigger_needs_its_metric_alone() {
        let query = read(&[("scalerAddress", "a:9004"), ("metric", "queue")]).unwrap();
        let expected = Query {
            metric: Metric::Queue,
            target: 5.0,
            activation: 0.0,
            window: WINDOW,
            variant: Selector::default(),
            model: None,
        };
        assert_eq!(query, expected);
        let all = [
            ("metric", "tokens"),
            ("target", "2500.5"),
            ("activation", "3"),
            ("window", "1m"),
            ("variant", "gpu in (a,b)"),
            ("model", "llama"),
            ("pool", "llm"),
        ];
        let query = read(&all).unwrap();
        assert_eq!((query.target, query.activation), (2500.5, 3.0));
        assert_eq!((query.window, query.model.as_deref()), (Duration::from_mins(1), Some("llama")));
    }

    #[test]
    fn a_bad_one_is_told_by_key_value_and_fix() {
        for (metadata, told) in [
            (vec![], "metric: \"\" is no metric, give one of queue, saturation,"),
            (vec![("metric", "cpu")], "metric: \"cpu\" is no metric, give one of queue,"),
            (vec![("metrc", "queue")], "metrc: \"queue\" is of no known key, give one of pool,"),
            (vec![("metric", "running")], "target: \"\" is no target, give what one replica"),
            (vec![("metric", "queue"), ("target", "0")], "target: \"0\" is no target"),
            (vec![("metric", "queue"), ("target", "x")], "target: \"x\" is no number, give"),
            (vec![("metric", "queue"), ("activation", "-1")], "activation: \"-1\" is no number"),
            (
                vec![("metric", "queue"), ("window", "5m")],
                "window: \"5m\" is no window, give 1s to",
            ),
            (vec![("metric", "queue"), ("pool", "b")], "pool: \"b\" is not served here, give llm"),
            (
                vec![("metric", "queue"), ("variant", "a b")],
                "variant: \"a b\" is no label selector",
            ),
        ] {
            let error = read(&metadata).unwrap_err().to_string();
            assert!(error.starts_with(told), "{error}");
        }
        let long = read(&[("metric", &"m".repeat(1 << 20))]).unwrap_err().to_string();
        assert!(long.len() < 200, "{} bytes", long.len());
    }
}
