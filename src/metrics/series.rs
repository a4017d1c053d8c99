//! The families that a request's own labels tell apart.
//!
//! Label values come from clients, so they are capped for the life of the process: 1,000 model names and 1,000 fairness
//! ids of at most 128 bytes, 500 combinations of all (a combination has some 250 lines on the page); what is beyond is
//! shown as `other`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::RwLock;
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};
use smallvec::SmallVec;

use super::tokens::TokenFamilies;
use super::{Attempts, Chosen, Families, Spent, attempts, buckets, tokens};

/// Distinct values that a label of a client may take.
const CAP: usize = 1000;

/// Longest value of a label in bytes.
const LONGEST: usize = 128;

/// Combinations of label values: 500 make a page of some 15 MB.
const COMBINATIONS: usize = 500;

/// Names of objects for each combination: one at a time, but each can be replaced by one of another name.
const OBJECTS: usize = 16;

/// What stands for the values beyond the cap.
const OTHER: &str = "other";

const LABELS: [&str; 4] = ["model_name", "target_model_name", "fairness_id", "priority"];
const TTFT_LABELS: [&str; 5] =
    ["model_name", "target_model_name", "fairness_id", "priority", "streaming"];
const ERROR_LABELS: [&str; 5] =
    ["model_name", "target_model_name", "fairness_id", "priority", "error_code"];
const REWRITE_LABELS: [&str; 3] = ["model_rewrite_name", "model_name", "target_model"];

/// What tells the series of requests apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Labels<'a> {
    /// The model that the client asked for; empty when the API names none.
    pub model: &'a str,
    /// The model that the server is asked for; empty when the API names none.
    pub target: &'a str,
    /// The flow.
    pub fairness_id: &'a str,
    /// Greater is more urgent.
    pub priority: i32,
}

/// The cells of one set of labels.
#[derive(Debug)]
pub struct Series {
    /// Requests that were placed.
    pub requests: IntCounter,
    /// Placed requests whose stream is open.
    pub running: IntGauge,
    /// Seconds from the request's headers to the end of the answer.
    pub duration: Histogram,
    /// Bytes of request bodies.
    pub request_size: Histogram,
    /// Bytes of answers.
    pub response_size: Histogram,
    /// Prompt tokens.
    pub input_tokens: Histogram,
    /// Generated tokens.
    pub output_tokens: Histogram,
    /// Prompt tokens found in a cache.
    pub cached_tokens: Histogram,
    /// Seconds per generated token, of the whole request.
    pub ntpot: Histogram,
    /// Seconds to the first token of a streamed answer.
    pub ttft: Histogram,
    /// Seconds per generated token after the first, of a streamed answer.
    pub tpot: Histogram,
    /// Seconds between events of a streamed answer.
    pub itl: Histogram,
    attempts: Arc<attempts::OfModel>,
    tokens: tokens::OfModel,
    errors: IntCounterVec,
    rewrites: IntCounterVec,
    /// Objects that are shown under their names; at most [`OBJECTS`].
    objects: RwLock<HashSet<Box<str>>>,
    labels: [Box<str>; 4],
}

impl Series {
    /// The endpoint was chosen that has this number for the life of the process; `named` is asked when it is the first
    /// time.
    pub fn placed(&self, number: u64, named: impl FnOnce() -> Chosen) {
        self.requests.inc();
        self.attempts.placed(number, named);
    }

    /// A request with this objective took so many tokens; empty for none.
    pub fn spent(&self, objective: &str, spent: Spent) {
        self.tokens.spent(objective, spent);
    }

    /// No endpoint could be chosen.
    pub fn unplaced(&self) {
        self.attempts.failed();
    }

    /// Counts a request that failed.
    pub fn error(&self, code: &str) {
        let [model, target, fairness_id, priority] = &self.labels;
        self.errors.with_label_values(&[&**model, target, fairness_id, priority, code]).inc();
    }

    /// Counts a request whose model was chosen by a rule of this object; beyond 16 names it counts as `other`.
    pub fn rewritten(&self, object: &str) {
        let [model, target, ..] = &self.labels;
        let object = if self.shows(object) { object } else { OTHER };
        self.rewrites.with_label_values(&[object, model, target]).inc();
    }

    fn shows(&self, object: &str) -> bool {
        if self.objects.read().contains(object) {
            return true;
        }
        let mut objects = self.objects.write();
        let room = objects.len() < OBJECTS;
        if room {
            objects.insert(object.into());
        }
        room
    }
}

/// The families of [`Series`].
#[derive(Debug)]
pub(super) struct RequestFamilies {
    requests: IntCounterVec,
    errors: IntCounterVec,
    rewrites: IntCounterVec,
    running: IntGaugeVec,
    duration: HistogramVec,
    request_size: HistogramVec,
    response_size: HistogramVec,
    input_tokens: HistogramVec,
    output_tokens: HistogramVec,
    cached_tokens: HistogramVec,
    ntpot: HistogramVec,
    ttft: HistogramVec,
    tpot: HistogramVec,
    itl: HistogramVec,
    tokens: TokenFamilies,
}

impl RequestFamilies {
    pub(super) fn new(new: &Families<'_>) -> prometheus::Result<Self> {
        let histogram = |name: &str, help: &str, buckets| {
            new.histograms(&format!("llm_d_epp_{name}"), help, buckets, &LABELS)
        };
        let (seconds, tokens) = (buckets::LATENCY, buckets::INPUT_TOKENS);
        Ok(Self {
            requests: new.reference_counters(
                "llm_d_epp_request_total",
                "Requests that were placed.",
                &LABELS,
            )?,
            errors: errors(new)?,
            rewrites: rewrites(new)?,
            running: new.gauges(
                "llm_d_epp_request_running",
                "Placed requests whose stream is open.",
                &LABELS,
            )?,
            duration: histogram(
                "request_duration_seconds",
                "Time to the end of the answer.",
                seconds,
            )?,
            request_size: histogram(
                "request_size_bytes",
                "Sizes of bodies.",
                buckets::REQUEST_SIZE,
            )?,
            response_size: histogram(
                "response_size_bytes",
                "Sizes of answers.",
                buckets::RESPONSE_SIZE,
            )?,
            input_tokens: histogram("request_input_tokens", "Prompt tokens.", tokens)?,
            output_tokens: histogram(
                "request_output_tokens",
                "Generated tokens.",
                buckets::OUTPUT_TOKENS,
            )?,
            cached_tokens: histogram(
                "request_cached_tokens",
                "Prompt tokens found in a cache.",
                tokens,
            )?,
            ntpot: histogram("request_ntpot_seconds", "Time per generated token.", buckets::NTPOT)?,
            ttft: ttft(new)?,
            tpot: histogram(
                "request_streaming_tpot_seconds",
                "Time per token after the first.",
                buckets::TPOT,
            )?,
            itl: histogram(
                "request_streaming_itl_seconds",
                "Time between events of an answer.",
                buckets::ITL,
            )?,
            tokens: TokenFamilies::new(new)?,
        })
    }

    fn series(&self, labels: [Box<str>; 4], attempts: &Attempts) -> Series {
        let [model, target, fairness_id, priority] = &labels;
        let values: [&str; 4] = [model, target, fairness_id, priority];
        Series {
            requests: self.requests.with_label_values(&values),
            running: self.running.with_label_values(&values),
            duration: self.duration.with_label_values(&values),
            request_size: self.request_size.with_label_values(&values),
            response_size: self.response_size.with_label_values(&values),
            input_tokens: self.input_tokens.with_label_values(&values),
            output_tokens: self.output_tokens.with_label_values(&values),
            cached_tokens: self.cached_tokens.with_label_values(&values),
            ntpot: self.ntpot.with_label_values(&values),
            ttft: self.ttft.with_label_values(&[&**model, target, fairness_id, priority, "true"]),
            tpot: self.tpot.with_label_values(&values),
            itl: self.itl.with_label_values(&values),
            attempts: attempts.of(target),
            tokens: self.tokens.of(model, target),
            errors: self.errors.clone(),
            rewrites: self.rewrites.clone(),
            objects: RwLock::default(),
            labels,
        }
    }
}

fn errors(new: &Families<'_>) -> prometheus::Result<IntCounterVec> {
    new.reference_counters("llm_d_epp_request_error_total", "Requests that failed.", &ERROR_LABELS)
}

fn rewrites(new: &Families<'_>) -> prometheus::Result<IntCounterVec> {
    let help = "Requests whose model was chosen by a rewrite rule, by the object that says it.";
    new.reference_counters("llm_d_epp_model_rewrite_decisions_total", help, &REWRITE_LABELS)
}

fn ttft(new: &Families<'_>) -> prometheus::Result<HistogramVec> {
    let help = "Time to the first token of a streamed answer.";
    new.histograms("llm_d_epp_request_ttft_seconds", help, buckets::TTFT, &TTFT_LABELS)
}

/// Finds the cells of labels without asking every family.
#[derive(Debug, Default)]
pub(super) struct SeriesCache {
    known: RwLock<Known>,
}

/// Bounded by the caps.
#[derive(Debug, Default)]
struct Known {
    series: HashMap<Key, Arc<Series>>,
    models: HashSet<Box<str>>,
    fairness_ids: HashSet<Box<str>>,
}

/// Labels in one piece, as they are looked up: on the stack unless they are long.
type Key = SmallVec<[u8; 128]>;

impl SeriesCache {
    pub(super) fn find(
        &self,
        labels: &Labels<'_>,
        families: &RequestFamilies,
        attempts: &Attempts,
    ) -> Arc<Series> {
        if let Some(series) = self.known.read().find(labels) {
            return series;
        }
        let mut known = self.known.write();
        let labels = known.admit(labels);
        let new = || {
            let priority = labels.priority.to_string();
            let values = [labels.model, labels.target, labels.fairness_id, &priority];
            Arc::new(families.series(values.map(Box::from), attempts))
        };
        Arc::clone(known.series.entry(key(&labels)).or_insert_with(new))
    }
}

impl Known {
    /// The cells of labels that were seen, or that are beyond a cap.
    fn find(&self, labels: &Labels<'_>) -> Option<Arc<Series>> {
        let found = self.series.get(&key(labels));
        let folded = || self.series.get(&key(&self.shown(labels)));
        found.or_else(folded).map(Arc::clone)
    }

    /// The labels as they are shown: with `other` for what is beyond a cap.
    fn shown<'a>(&self, labels: &Labels<'a>) -> Labels<'a> {
        if self.series.len() >= COMBINATIONS {
            return Labels { model: OTHER, target: OTHER, fairness_id: OTHER, priority: 0 };
        }
        Labels {
            model: capped(&self.models, labels.model),
            target: capped(&self.models, labels.target),
            fairness_id: capped(&self.fairness_ids, labels.fairness_id),
            priority: labels.priority,
        }
    }

    /// The labels as they are shown from now on.
    fn admit<'a>(&mut self, labels: &Labels<'a>) -> Labels<'a> {
        let shown = self.shown(labels);
        for model in [shown.model, shown.target] {
            // Two new names may come at once where there is room for one.
            let model = capped(&self.models, model);
            self.models.insert(model.into());
        }
        self.fairness_ids.insert(shown.fairness_id.into());
        self.shown(labels)
    }
}

/// Each value after its length: no two sets of labels have one key.
fn key(labels: &Labels<'_>) -> Key {
    let mut key = Key::new();
    for value in [labels.model, labels.target, labels.fairness_id] {
        key.extend_from_slice(&value.len().to_le_bytes());
        key.extend_from_slice(value.as_bytes());
    }
    key.extend_from_slice(&labels.priority.to_le_bytes());
    key
}

/// The value itself where it is known or the label has room for it; empty values are free. What has control characters is
/// no name: they would be written as they are, to the terminal too of whoever reads the page.
fn capped<'a>(known: &HashSet<Box<str>>, value: &'a str) -> &'a str {
    let fits = || value.len() <= LONGEST && !value.contains(char::is_control);
    let room = known.len() < CAP && fits();
    if value.is_empty() || room || known.contains(value) { value } else { OTHER }
}

#[cfg(test)]
mod tests {
    use crate::metrics::{Labels, Metrics};

    fn labels(model: &str) -> Labels<'_> {
        Labels { model, target: model, fairness_id: "default-flow", priority: 0 }
    }

    #[test]
    fn the_same_labels_have_the_same_cells() {
        let metrics = Metrics::new("ns", "pool", false).unwrap();
        metrics.series(&labels("m")).requests.inc();
        metrics.series(&labels("m")).requests.inc();
        let page = metrics.page().unwrap();
        let want = r#"llm_d_epp_request_total{fairness_id="default-flow",model_name="m",priority="0",target_model_name="m"} 2"#;
        assert!(page.contains(want), "{page}");
    }

    #[test]
    fn model_names_beyond_the_cap_are_other() {
        let metrics = Metrics::new("ns", "pool", false).unwrap();
        for n in 0..1500 {
            metrics.series(&labels(&format!("model-{n}"))).requests.inc();
        }
        let page = metrics.page().unwrap();
        let series =
            page.lines().filter(|line| line.starts_with("llm_d_epp_request_total{")).count();
        assert_eq!(series, 501);
        assert!(
            page.contains(r#"model_name="other",priority="0",target_model_name="other"} 1000"#)
        );
    }

    #[test]
    fn any_mix_of_long_and_many_labels_is_bounded() {
        let metrics = Metrics::new("ns", "pool", false).unwrap();
        let long = "x".repeat(10_000);
        for n in 0..6000 {
            let (model, flow) = (format!("model-{}", n % 100), format!("flow-{n}"));
            metrics.series(&Labels {
                model: &model,
                target: &long,
                fairness_id: &flow,
                priority: n % 7,
            });
        }
        let page = metrics.page().unwrap();
        assert!(
            page.lines().filter(|line| line.starts_with("llm_d_epp_request_total{")).count() <= 501
        );
        assert!(!page.contains(&long));
    }

    #[test]
    fn what_has_control_characters_is_no_name() {
        let metrics = Metrics::new("ns", "pool", false).unwrap();
        for name in ["a\nb", "a\u{1b}[31mb", "a\rb"] {
            metrics.series(&labels(name)).requests.inc();
        }
        let page = metrics.page().unwrap();
        assert!(page.contains(r#"model_name="other",priority="0",target_model_name="other"} 3"#));
    }

    #[test]
    fn objects_that_are_replaced_without_end_are_other() {
        let metrics = Metrics::new("ns", "pool", false).unwrap();
        for n in 0..1000 {
            metrics.series(&labels("m")).rewritten(&format!("canary-{n}"));
        }
        metrics.series(&labels("m")).rewritten("canary-0");
        let page = metrics.page().unwrap();
        let lines: Vec<_> =
            page.lines().filter(|line| line.starts_with("llm_d_epp_model_rewrite_")).collect();
        assert_eq!(lines.len(), 17, "{lines:?}");
        assert!(lines.iter().any(|line| line.contains(r#""other""#) && line.ends_with(" 984")));
        assert!(lines.iter().any(|line| line.contains(r#""canary-0""#) && line.ends_with(" 2")));
    }

    #[test]
    fn a_failed_request_is_counted_by_its_code() {
        let metrics = Metrics::new("ns", "pool", false).unwrap();
        metrics.series(&labels("m")).error("Unknown");
        assert!(metrics.page().unwrap().contains(r#"error_code="Unknown""#));
    }
}
