//! Engines and the names of their metrics.

use crate::config::MetricNames;

/// All engines of this build; the first is the default.
pub static ENGINES: &[Engine] = &[Engine {
    name: "vllm",
    waiting: &["vllm:num_requests_waiting"],
    running: &["vllm:num_requests_running"],
    // The second until vLLM 0.9.
    kv_usage: &["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"],
}];

/// An engine's names for what is read of it; where there are several, the first that a page has counts.
#[derive(Clone, Copy, Debug)]
pub struct Engine {
    /// Its name in the configuration.
    pub name: &'static str,
    /// Requests that wait.
    pub waiting: &'static [&'static str],
    /// Requests that run.
    pub running: &'static [&'static str],
    /// Used share of the KV cache, 0.0 ..= 1.0.
    pub kv_usage: &'static [&'static str],
}

/// What is looked for on a page.
#[derive(Clone, Debug)]
pub struct Dialect {
    /// The metrics, those of one signal in the order of preference.
    pub(in crate::scrape) wanted: Vec<Wanted>,
    /// Whether a wanted name begins with a byte.
    pub(in crate::scrape) first: [bool; 256],
}

/// A metric and what it tells.
#[derive(Clone, Debug)]
pub(in crate::scrape) struct Wanted {
    pub(in crate::scrape) name: Box<[u8]>,
    pub(in crate::scrape) signal: Signal,
}

/// What a metric tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scrape) enum Signal {
    Waiting,
    Running,
    KvUsage,
}

impl Dialect {
    /// The dialect of an engine, with names that stand in for its own.
    pub fn new(engine: &Engine, names: &MetricNames) -> Self {
        let signals = [
            (Signal::Waiting, engine.waiting, &names.waiting),
            (Signal::Running, engine.running, &names.running),
            (Signal::KvUsage, engine.kv_usage, &names.kv_usage),
        ];
        let mut dialect = Self { wanted: Vec::new(), first: [false; 256] };
        for (signal, own, given) in signals {
            match given {
                Some(name) => dialect.want(name, signal),
                None => own.iter().for_each(|name| dialect.want(name, signal)),
            }
        }
        dialect
    }

    fn want(&mut self, name: &str, signal: Signal) {
        for (byte, first) in (0..=u8::MAX).zip(&mut self.first) {
            *first |= name.as_bytes().first() == Some(&byte);
        }
        self.wanted.push(Wanted { name: name.as_bytes().into(), signal });
    }
}

impl Default for Dialect {
    fn default() -> Self {
        let none = Engine { name: "", waiting: &[], running: &[], kv_usage: &[] };
        Self::new(ENGINES.first().unwrap_or(&none), &MetricNames::default())
    }
}
