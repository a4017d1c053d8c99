//! The families of tokens: what requests took, by model and objective, and what placing them well has spared.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::RwLock;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounter, IntCounterVec};

use super::Families;

/// Objectives that are told apart for a model; those that are known to the pool come here.
const OBJECTIVES: usize = 64;

/// What stands for those beyond that.
const OTHER: &str = "other";

/// How a number of tokens is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The model server has said it.
    Reported,
    /// It has not: prompts are counted by their text, answers by the events of their stream.
    Estimated,
}

impl Source {
    /// The value of the metric label `source`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reported => "reported",
            Self::Estimated => "estimated",
        }
    }
}

/// Tokens of a request, each with how that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// Of the prompt, what was found in a cache included.
    pub prompt: (u64, Source),
    /// Of the prompt, found in a cache.
    pub cached: (u64, Source),
    /// Of the answer.
    pub generated: (u64, Source),
}

/// The families.
#[derive(Clone, Debug)]
pub(super) struct TokenFamilies {
    tokens: IntCounterVec,
}

impl TokenFamilies {
    pub(super) fn new(new: &Families<'_>) -> prometheus::Result<Self> {
        Ok(Self {
            tokens: new.counters(
                "lodesman_tokens_total",
                "Tokens of requests, by kind: prompt (cached ones included), cached, generated; as the model server reported them, or estimated where it did not.",
                &["model_name", "target_model_name", "objective", "kind", "source"],
            )?,
        })
    }

    /// Those of a model under both its names.
    pub(super) fn of(&self, model: &str, target: &str) -> OfModel {
        let (model, target) = (model.into(), target.into());
        OfModel { tokens: self.tokens.clone(), model, target, objectives: RwLock::default() }
    }
}

/// What is counted of one model.
#[derive(Debug)]
pub(super) struct OfModel {
    tokens: IntCounterVec,
    model: Box<str>,
    target: Box<str>,
    objectives: RwLock<HashMap<Box<str>, Arc<Cells>>>,
}

/// The cells of an objective.
#[derive(Debug)]
struct Cells {
    prompt: Cell,
    cached: Cell,
    generated: Cell,
}

#[derive(Debug)]
struct Cell {
    reported: IntCounter,
    estimated: IntCounter,
}

impl OfModel {
    /// Adds the tokens of a request with this objective; empty for none.
    pub(super) fn spent(&self, objective: &str, spent: Spent) {
        let cells = self.cells(objective);
        cells.prompt.add(spent.prompt);
        cells.cached.add(spent.cached);
        cells.generated.add(spent.generated);
    }

    fn cells(&self, objective: &str) -> Arc<Cells> {
        if let Some(cells) = self.objectives.read().get(objective) {
            return Arc::clone(cells);
        }
        let mut objectives = self.objectives.write();
        let objective = if objectives.len() < OBJECTIVES { objective } else { OTHER };
        let new = || Arc::new(self.new_cells(objective));
        Arc::clone(objectives.entry(objective.into()).or_insert_with(new))
    }

    fn new_cells(&self, objective: &str) -> Cells {
        let cell = |kind: &str, source: Source| {
            let labels = [&*self.model, &self.target, objective, kind, source.name()];
            self.tokens.with_label_values(&labels)
        };
        let both = |kind| Cell {
            reported: cell(kind, Source::Reported),
            estimated: cell(kind, Source::Estimated),
        };
        Cells { prompt: both("prompt"), cached: both("cached"), generated: both("generated") }
    }
}

impl Cell {
    fn add(&self, (tokens, source): (u64, Source)) {
        match source {
            Source::Reported => self.reported.inc_by(tokens),
            Source::Estimated => self.estimated.inc_by(tokens),
        }
    }
}

/// Tokens that were found in caches beyond what a choice in turn would have found.
///
/// Single requests may find less: what is shown is the most that the sum has ever been, as a counter may not fall.
#[derive(Clone, Debug)]
pub struct Avoided {
    sum: Arc<AtomicI64>,
    shown: IntCounter,
}

impl Avoided {
    pub(super) fn new(new: &Families<'_>) -> prometheus::Result<Self> {
        let opts = new.ours(
            "lodesman_prefill_tokens_avoided_total",
            "Prompt tokens that model servers reported to have had in their caches, less those that a candidate had on average: what a choice in turn would have computed besides.",
        );
        let avoided = Self { sum: Arc::default(), shown: IntCounter::with_opts(opts)? };
        new.registered(avoided)
    }

    /// The chosen endpoint had so many tokens of a prompt, and a candidate so many on average.
    pub fn count(&self, had: u64, average: u64) {
        let less = |tokens| i64::try_from(tokens).unwrap_or(i64::MAX);
        self.sum.fetch_add(less(had).saturating_sub(less(average)), Ordering::Relaxed);
    }
}

impl Collector for Avoided {
    fn desc(&self) -> Vec<&Desc> {
        self.shown.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let sum = u64::try_from(self.sum.load(Ordering::Relaxed)).unwrap_or(0);
        self.shown.inc_by(sum.saturating_sub(self.shown.get()));
        self.shown.collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::{Labels, Metrics, Source, Spent};

    fn spent(source: Source) -> Spent {
        Spent { prompt: (100, source), cached: (60, source), generated: (7, source) }
    }

    fn has(metrics: &Metrics, line: &str) {
        let page = metrics.page().unwrap();
        assert!(page.lines().any(|it| it == line), "{line}\n{page}");
    }

    const OURS: &str = r#"namespace="ns""#;

    #[test]
    fn tokens_are_told_apart_by_objective_and_by_how_they_are_known() {
        let metrics = Metrics::new("ns", "p", false).unwrap();
        for flow in ["a", "b"] {
            let labels = Labels { model: "m", target: "t", fairness_id: flow, priority: 0 };
            let series = metrics.series(&labels);
            series.spent("batch", spent(Source::Reported));
            series.spent("", spent(Source::Estimated));
        }
        for (kind, objective, source, tokens) in [
            ("prompt", "batch", "reported", 200),
            ("cached", "batch", "reported", 120),
            ("generated", "batch", "reported", 14),
            ("generated", "batch", "estimated", 0),
            ("generated", "", "estimated", 14),
        ] {
            has(
                &metrics,
                &format!(
                    r#"lodesman_tokens_total{{kind="{kind}",model_name="m",{OURS},objective="{objective}",pool="p",source="{source}",target_model_name="t"}} {tokens}"#
                ),
            );
        }
    }

    #[test]
    fn objectives_without_end_are_other() {
        let metrics = Metrics::new("ns", "p", false).unwrap();
        let series =
            metrics.series(&Labels { model: "m", target: "m", fairness_id: "f", priority: 0 });
        for number in 0..200 {
            series.spent(&format!("objective-{number}"), spent(Source::Reported));
        }
        has(
            &metrics,
            &format!(
                r#"lodesman_tokens_total{{kind="generated",model_name="m",{OURS},objective="other",pool="p",source="reported",target_model_name="m"}} 952"#
            ),
        );
    }

    #[test]
    fn what_was_avoided_never_falls() {
        let metrics = Metrics::new("ns", "p", false).unwrap();
        let shows = |tokens| {
            let line =
                format!(r#"lodesman_prefill_tokens_avoided_total{{{OURS},pool="p"}} {tokens}"#);
            has(&metrics, &line);
        };
        metrics.avoided.count(100, 120);
        shows(0);
        metrics.avoided.count(100, 30);
        shows(50);
        metrics.avoided.count(0, 40);
        shows(50);
        metrics.avoided.count(60, 0);
        shows(70);
    }
}
