//! Who was chosen for which model, and how often nobody could be.
//!
//! The reference's `scheduler_attempts_total`, which it does not bound: here an endpoint that has left the pool is shown
//! once more and then forgotten, and beyond 10,000 series what comes is counted as `other`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::RwLock;
use prometheus::core::Desc;
use prometheus::proto::{Counter, Metric, MetricFamily, MetricType};

use super::copies::pair;

/// The family.
const NAME: &str = "llm_d_epp_scheduler_attempts_total";
const HELP: &str = "Decisions, by the model that was asked for and the endpoint that was chosen; with empty names where none could be.";

/// The labels, sorted as they are shown.
const LABELS: [&str; 5] = ["endpoint_name", "namespace", "port", "status", "target_model_name"];

/// Series of models and endpoints: a page of some 2 MB.
const SERIES: usize = 10_000;

/// What stands for endpoints beyond that.
const OTHER: u64 = u64::MAX;

/// An endpoint as the labels name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Its name.
    pub name: Box<str>,
    /// The namespace of its pod.
    pub namespace: Box<str>,
    /// Its port.
    pub port: u16,
}

/// All attempts.
#[derive(Debug, Default)]
pub struct Attempts {
    /// Bounded by the cap on names of models.
    models: RwLock<HashMap<Box<str>, Arc<OfModel>>>,
    series: Arc<AtomicUsize>,
}

/// The attempts for one model.
#[derive(Debug)]
pub(super) struct OfModel {
    failed: AtomicU64,
    /// By the number that an endpoint has for the life of the process.
    placed: RwLock<HashMap<u64, (Option<Chosen>, AtomicU64)>>,
    /// Of all models.
    series: Arc<AtomicUsize>,
}

impl Attempts {
    /// Those of a model.
    pub(super) fn of(&self, model: &str) -> Arc<OfModel> {
        if let Some(known) = self.models.read().get(model) {
            return Arc::clone(known);
        }
        let new = || OfModel {
            failed: AtomicU64::default(),
            placed: RwLock::default(),
            series: Arc::clone(&self.series),
        };
        Arc::clone(self.models.write().entry(model.into()).or_insert_with(|| Arc::new(new())))
    }

    /// What the family is.
    ///
    /// # Errors
    /// When it is malformed, which a test excludes.
    pub fn desc() -> prometheus::Result<Desc> {
        let labels = LABELS.map(str::to_owned).into();
        Desc::new(NAME.to_owned(), HELP.to_owned(), labels, HashMap::new())
    }

    /// All that was counted; endpoints that are not in the pool by their numbers are forgotten afterwards.
    pub fn collect(&self, in_pool: impl Fn(u64) -> bool) -> MetricFamily {
        let models = self.models.read().clone();
        let mut metrics = Vec::new();
        for (model, attempts) in &models {
            attempts.show(model, &mut metrics);
            attempts.forget(&in_pool);
        }
        let mut family = MetricFamily::default();
        family.set_name(NAME.to_owned());
        family.set_help(HELP.to_owned());
        family.set_field_type(MetricType::COUNTER);
        family.set_metric(metrics);
        family
    }
}

impl OfModel {
    /// Nobody could be chosen.
    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// The endpoint of this number was chosen; `named` is asked when it is the first time.
    pub(super) fn placed(&self, number: u64, named: impl FnOnce() -> Chosen) {
        if let Some((_, count)) = self.placed.read().get(&number) {
            count.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut placed = self.placed.write();
        let room = self.series.load(Ordering::Relaxed) < SERIES;
        let (number, chosen) = if room { (number, Some(named())) } else { (OTHER, None) };
        let (_, count) = placed.entry(number).or_insert_with(|| {
            self.series.fetch_add(usize::from(room), Ordering::Relaxed);
            (chosen, AtomicU64::default())
        });
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn show(&self, model: &str, metrics: &mut Vec<Metric>) {
        let failed = self.failed.load(Ordering::Relaxed);
        if failed > 0 {
            metrics.push(metric(["", "", "", "failure", model], failed));
        }
        for (chosen, count) in self.placed.read().values() {
            let count = count.load(Ordering::Relaxed);
            let Some(Chosen { name, namespace, port }) = chosen else {
                metrics.push(metric(["other", "", "", "success", model], count));
                continue;
            };
            metrics.push(metric([name, namespace, &port.to_string(), "success", model], count));
        }
    }

    fn forget(&self, in_pool: impl Fn(u64) -> bool) {
        let mut placed = self.placed.write();
        let before = placed.len();
        placed.retain(|&number, _| number == OTHER || in_pool(number));
        self.series.fetch_sub(before - placed.len(), Ordering::Relaxed);
    }
}

fn metric(values: [&str; LABELS.len()], count: u64) -> Metric {
    let labels = LABELS.into_iter().zip(values).map(|(name, value)| pair(name, value));
    let mut metric = Metric::from_label(labels.collect());
    let mut counter = Counter::default();
    counter.set_value(count as f64);
    metric.set_counter(counter);
    metric
}

#[cfg(test)]
mod tests {
    use prometheus::proto::LabelPair;

    use super::*;

    fn chosen(number: u64) -> Chosen {
        Chosen { name: format!("pod-{number}").into(), namespace: "prod".into(), port: 8000 }
    }

    fn place(attempts: &Attempts, model: &str, number: u64) {
        attempts.of(model).placed(number, || chosen(number));
    }

    /// The values of the labels and the count of each series, sorted.
    fn shown(attempts: &Attempts, in_pool: impl Fn(u64) -> bool) -> Vec<String> {
        let family = attempts.collect(in_pool);
        let values = |metric: &Metric| {
            let labels: Vec<_> = metric.get_label().iter().map(LabelPair::value).collect();
            format!("{} {}", labels.join(","), metric.get_counter().get_value())
        };
        let mut lines: Vec<_> = family.get_metric().iter().map(values).collect();
        lines.sort();
        lines
    }

    #[test]
    fn choices_are_counted_by_model_and_endpoint() {
        let attempts = Attempts::default();
        for (model, number) in [("a", 1), ("a", 1), ("a", 2), ("b", 1)] {
            place(&attempts, model, number);
        }
        attempts.of("b").failed();
        assert_eq!(
            shown(&attempts, |_| true),
            [
                ",,,failure,b 1",
                "pod-1,prod,8000,success,a 2",
                "pod-1,prod,8000,success,b 1",
                "pod-2,prod,8000,success,a 1",
            ]
        );
    }

    #[test]
    fn an_endpoint_that_has_left_is_shown_once_more() {
        let attempts = Attempts::default();
        (1..=2).for_each(|number| place(&attempts, "a", number));
        let stays = |number| number == 2;
        assert_eq!(shown(&attempts, stays).len(), 2);
        assert_eq!(shown(&attempts, stays), ["pod-2,prod,8000,success,a 1"]);
    }

    #[test]
    fn endpoints_without_end_are_bounded_and_make_room_when_they_leave() {
        let attempts = Attempts::default();
        for number in 0..20_000 {
            place(&attempts, ["a", "b"][usize::from(number % 2 == 0)], number);
        }
        let lines = shown(&attempts, |_| false);
        assert_eq!(lines.len(), SERIES + 2);
        assert!(lines.contains(&"other,,,success,a 5000".to_owned()));
        place(&attempts, "a", 7);
        assert!(shown(&attempts, |_| true).contains(&"pod-7,prod,8000,success,a 1".to_owned()));
    }
}
