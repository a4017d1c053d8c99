//! Engines made into what a scan looks for, and the choice of one for an endpoint.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::Engines;
use crate::config::engines::{Engine, Metric, Signal};
use crate::pool::Sample;

/// All engines of a configuration.
#[derive(Debug)]
pub struct Dialects {
    names: Vec<Box<str>>,
    each: Vec<Arc<Dialect>>,
    /// All of them at once, to recognize a page; of several on one page the first counts.
    any: Arc<Dialect>,
    labels: Vec<Box<str>>,
    default: Option<usize>,
}

/// How an endpoint's engine is known before its page is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice<'a> {
    /// By its label or by the configuration: the position of the engine.
    Known(usize),
    /// Not at all: the page will tell.
    Unknown,
    /// Its label names an engine that there is not, so the page will tell.
    Misnamed(&'a str),
}

/// What is looked for on a page.
#[derive(Debug)]
pub struct Dialect {
    /// What all names begin with; most lines of a page differ there or in the byte after it.
    common: Box<[u8]>,
    /// Bytes that go on after it.
    next: [bool; 256],
    families: Vec<Family>,
    /// Those of an engine together, those of one signal in the order of preference.
    pub(in crate::scrape) wanted: Vec<Wanted>,
}

/// Wanted metrics of one name.
#[derive(Debug)]
struct Family {
    name: Box<[u8]>,
    /// Positions in `wanted`.
    wanted: Vec<usize>,
}

/// A metric and what it tells.
#[derive(Debug)]
pub(in crate::scrape) struct Wanted {
    /// Whose it is.
    pub(in crate::scrape) engine: usize,
    pub(in crate::scrape) metric: Metric,
}

impl Dialects {
    /// The dialects of these engines.
    pub fn new(engines: &Engines) -> Self {
        let numbered = || engines.list.iter().enumerate();
        let position = |name: &str| engines.list.iter().position(|engine| &*engine.name == name);
        let default = engines.default.as_deref().and_then(position);
        Self {
            names: engines.list.iter().map(|engine| engine.name.clone()).collect(),
            each: numbered().map(|one| Arc::new(Dialect::new([one]))).collect(),
            any: Arc::new(Dialect::new(numbered())),
            labels: engines.labels.clone(),
            default,
        }
    }

    /// The engine of an endpoint with these labels.
    pub fn of<'a>(&self, labels: &'a BTreeMap<String, String>) -> Choice<'a> {
        let named = self.labels.iter().filter_map(|key| labels.get(&**key));
        let named = named.map(String::as_str).find(|name| !name.is_empty());
        match (named.map(|name| (name, self.position(name))), self.default) {
            (Some((_, Some(engine))), _) | (None, Some(engine)) => Choice::Known(engine),
            (Some((name, None)), _) => Choice::Misnamed(name),
            (None, None) => Choice::Unknown,
        }
    }

    /// The dialect of an engine; of any when none is given.
    pub fn dialect(&self, engine: Option<usize>) -> &Arc<Dialect> {
        engine.and_then(|engine| self.each.get(engine)).unwrap_or(&self.any)
    }

    /// The name of an engine.
    pub fn name(&self, engine: usize) -> &str {
        self.names.get(engine).map_or("", |name| name)
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| &**known == name)
    }
}

impl Choice<'_> {
    /// The engine, where it is known.
    pub fn engine(self) -> Option<usize> {
        match self {
            Self::Known(engine) => Some(engine),
            Self::Unknown | Self::Misnamed(_) => None,
        }
    }
}

impl Dialect {
    fn new<'a>(engines: impl IntoIterator<Item = (usize, &'a Engine)>) -> Self {
        let mut wanted = Vec::new();
        for (engine, Engine { metrics, .. }) in engines {
            wanted.extend(metrics.iter().map(|metric| Wanted { engine, metric: metric.clone() }));
        }
        let mut families: Vec<Family> = Vec::new();
        for (at, Wanted { metric, .. }) in wanted.iter().enumerate() {
            let name = metric.series.name.as_bytes();
            match families.iter_mut().find(|family| &*family.name == name) {
                Some(family) => family.wanted.push(at),
                None => families.push(Family { name: name.into(), wanted: vec![at] }),
            }
        }
        let common = common(families.iter().map(|family| &*family.name)).into();
        let mut dialect = Self { common, next: [false; 256], families, wanted };
        for family in &dialect.families {
            let next = family.name.get(dialect.common.len()).copied();
            // Without one the name itself is what all begin with, and any byte may follow.
            for (byte, wanted) in (0..=u8::MAX).zip(&mut dialect.next) {
                *wanted |= next.is_none_or(|next| next == byte);
            }
        }
        dialect
    }

    /// The wanted metrics whose name a line begins with, and what follows it.
    pub(in crate::scrape) fn find<'l>(&self, line: &'l [u8]) -> Option<(&[usize], &'l [u8])> {
        let next = line.strip_prefix(&*self.common)?.first()?;
        if self.next.get(usize::from(*next)) != Some(&true) {
            return None;
        }
        self.families.iter().find_map(|family| {
            let rest = line.strip_prefix(&*family.name)?;
            matches!(rest, [b'{' | b' ' | b'\t', ..]).then_some((&*family.wanted, rest))
        })
    }

    /// The metrics of load that tell nothing in a sample, for want of them or because they are no numbers.
    pub(in crate::scrape) fn lacking<'a>(
        &'a self,
        sample: &Sample,
    ) -> impl Iterator<Item = &'a str> {
        let Sample { waiting, running, kv_usage, .. } = *sample;
        let told = move |signal: &Signal| match signal {
            Signal::Waiting => waiting.is_some(),
            Signal::Running => running.is_some(),
            Signal::KvUsage => kv_usage.is_some(),
            Signal::Adapters | Signal::BlockSize | Signal::Blocks | Signal::Attribute(_) => true,
        };
        let lacking = self.wanted.iter().filter(move |wanted| !told(wanted.signal()));
        lacking.map(|wanted| &*wanted.metric.series.name)
    }

    /// The engines, each once.
    pub(in crate::scrape) fn engines(&self) -> impl Iterator<Item = usize> {
        let engines = self.wanted.chunk_by(|a, b| a.engine == b.engine);
        engines.filter_map(|of_one| Some(of_one.first()?.engine))
    }
}

impl Wanted {
    pub(in crate::scrape) fn signal(&self) -> &Signal {
        &self.metric.signal
    }
}

/// What all of them begin with.
fn common<'a>(mut names: impl Iterator<Item = &'a [u8]>) -> &'a [u8] {
    let first = names.next().unwrap_or_default();
    names.fold(first, |common, name| {
        let same = common.iter().zip(name).take_while(|(a, b)| a == b).count();
        common.get(..same).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_label_decides_then_the_old_label_then_the_configuration_then_the_page() {
        let mut engines = Engines::default();
        let chosen = |engines: &Engines, pairs: &[(&str, &str)]| {
            let dialects = Dialects::new(engines);
            match dialects.of(&labels(pairs)) {
                Choice::Known(engine) => dialects.name(engine).to_owned(),
                other @ (Choice::Unknown | Choice::Misnamed(_)) => format!("{other:?}"),
            }
        };
        let (new, old) = ("llm-d.ai/engine-type", "inference.networking.k8s.io/engine-type");
        assert_eq!(chosen(&engines, &[(new, "sglang"), (old, "vllm")]), "sglang");
        assert_eq!(chosen(&engines, &[(new, ""), (old, "trtllm-serve")]), "trtllm-serve");
        assert_eq!(chosen(&engines, &[]), "Unknown");
        assert_eq!(chosen(&engines, &[(new, "vlm")]), "Misnamed(\"vlm\")");
        engines.default = Some("triton".into());
        assert_eq!(chosen(&engines, &[]), "triton");
        assert_eq!(chosen(&engines, &[(old, "vllm")]), "vllm");
    }

    #[test]
    fn a_name_that_begins_another_is_found_as_itself() {
        let metric = |name: &str| Metric {
            signal: Signal::Waiting,
            series: name.parse().unwrap(),
            label: None,
        };
        let engine = Engine { name: "x".into(), metrics: vec![metric("abc"), metric("abcde")] };
        let dialect = Dialect::new([(0, &engine)]);
        let found = |line: &str| dialect.find(line.as_bytes()).map(|(wanted, _)| wanted.to_vec());
        assert_eq!(
            ["abc 1", "abcde{} 1", "abcd 1", "abc", "ab 1"].map(found),
            [Some(vec![0]), Some(vec![1]), None, None, None]
        );
    }
}
