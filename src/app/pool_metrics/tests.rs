use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::mpsc;
use std::time::Duration;

use expect_test::expect_file;

use super::*;
use crate::director::{Ask, Clock, DECISION_DEADLINE, Director, Settings};
use crate::metrics::{COPIES, Chosen, Copy, Labels, Metrics};
use crate::pool::{FailureMode, Sample, Subset};
use crate::schedule::fixture;
use crate::schedule::registry::PLUGINS;

mod reference;

const HEAD: &str = "# Metrics

On `/metrics` of the metrics port (9090). Families named `llm_d_epp_*` have the names, labels and buckets of the
llm-d-router EPP; `lodesman_*` are ours and carry the labels `namespace` and `pool` besides those listed. Label values that
come from clients are capped: 1,000 model names, 1,000 fairness ids, 500 combinations; what is beyond, or has control characters, is
`other`. Endpoints that leave the pool leave `llm_d_epp_scheduler_attempts_total` after one more page.

| family | labels | meaning |
|---|---|---|
";

const OLD: &str = "
## Deprecated names

The old names of the llm-d-router EPP and of the Gateway API Inference Extension are on the page too, made of the families
above when it is asked for; `--legacy-metrics=false` leaves them out. Where a name has fewer labels than the family that it
stands for, the series are added up. Not here are old names of parts that Lodesman does not have (predicted latencies,
disaggregation, the exact prefix index).

| old name | labels | stands for |
|---|---|---|
";

const TAIL: &str = "
## Values of labels

Outcomes of a request: `ok`, `upstream_4xx`, `upstream_5xx`, `rejected`, `shed`, `client_disconnect` (the stream was reset
before the answer ended), `unobserved` (the end of the answer was not ours to see), `epp_error`. Rungs of a degraded
decision: `policy` (without a plugin that failed), `load_only` (signals are lost, or the deadline was missed), `refused`,
`report` (nothing was learnt of an answer). Their causes: `no_signals`, `deadline`, `panic`, `no_choice`.
";

fn sources(pool: Snapshot, metrics: &Metrics) -> Sources {
    Sources {
        pool: Arc::new(ArcSwap::from_pointee(pool)),
        budget: Budget::new(1),
        scrapes: Arc::default(),
        prefix: Arc::default(),
        attempts: Arc::clone(&metrics.attempts),
    }
}

// FR-149
#[test]
fn the_manual_lists_every_family() {
    let metrics = Metrics::new("ns", "pool", true).unwrap();
    let pool = PoolMetrics::new(sources(Snapshot::default(), &metrics), "ns", "pool").unwrap();
    let saturation = Saturation::new(std::sync::Weak::new(), "pool").unwrap();
    let watches = crate::k8s::Watches::new(Vec::new(), "ns", "pool").unwrap();
    let added = pool.desc().into_iter().chain(saturation.desc()).chain(watches.desc());
    let families = metrics.families().iter().chain(added);
    let row = |family: &Desc| {
        let labels = family.variable_labels.iter().map(String::as_str);
        (family.fq_name.clone(), listed(labels), family.help.clone())
    };
    let copy = |copy: &Copy| {
        let labels = listed(copy.labels.iter().map(|(label, _)| *label));
        (copy.name.to_owned(), labels, copy.help.unwrap_or(copy.of).to_owned())
    };
    let (old, new): (Vec<_>, Vec<_>) = COPIES.iter().partition(|copy| copy.deprecated());
    let mut rows: Vec<_> = families.map(row).chain(new.into_iter().map(copy)).collect();
    rows.sort();
    let mut page = HEAD.to_owned();
    for (name, labels, help) in rows {
        writeln!(page, "| `{name}` | {labels} | {help} |").unwrap();
    }
    page.push_str(OLD);
    for (name, labels, of) in old.into_iter().map(copy) {
        writeln!(page, "| `{name}` | {labels} | `{of}` |").unwrap();
    }
    expect_file!["../../../docs/metrics.md"].assert_eq(&(page + TAIL));
}

fn listed<'a>(labels: impl Iterator<Item = &'a str>) -> String {
    labels.map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ")
}

/// A director by the default policy over a pool.
fn director(pool: &Arc<ArcSwap<Snapshot>>, metrics: &Arc<Metrics>) -> Arc<Director> {
    let resolved = crate::config::load(None, &[PLUGINS]).unwrap();
    let settings = Settings {
        forced_failure_mode: None,
        failure_mode: FailureMode::FailClose,
        deadline: DECISION_DEADLINE,
        scores: false,
        clock: Clock::new(clock::now),
    };
    let policy = crate::app::configuration::policy(resolved);
    Arc::new(Director::new(Arc::clone(pool), policy, Arc::clone(metrics), settings))
}

// FR-076, FR-079
#[test]
fn saturation_is_that_of_the_configured_detector() {
    let busy = |waiting| Some(Sample { waiting: Some(waiting), ..Sample::default() });
    for (samples, saturation, stale) in [
        (vec![busy(1000.0), busy(0.0)], "0.5", 0),
        (vec![busy(1000.0), busy(1000.0)], "1", 0),
        (vec![busy(0.0), None], "0", 1),
        (vec![], "1", 0),
    ] {
        let metrics = Metrics::new("ns", "pool", false).unwrap();
        let pool = Arc::new(ArcSwap::from_pointee(fixture::sampled(&samples, clock::now())));
        let director = director(&pool, &metrics);
        let shown = Saturation::new(Arc::downgrade(&director), "p").unwrap();
        metrics.register(Box::new(shown)).unwrap();
        let page = metrics.page().unwrap();
        for line in [
            format!(
                r#"llm_d_epp_flow_control_pool_saturation{{inference_pool="p",stage="effective"}} {saturation}"#
            ),
            format!(
                r#"llm_d_epp_flow_control_stale_endpoints{{detector="utilization-detector"}} {stale}"#
            ),
        ] {
            assert!(page.lines().any(|it| it == line), "{line}\n{page}");
        }
    }
}

#[test]
fn an_endpoint_that_left_is_no_more_in_the_attempts() {
    let metrics = Metrics::new("ns", "pool", false).unwrap();
    let sources = sources(fixture::snapshot(1), &metrics);
    let pool = Arc::clone(&sources.pool);
    let number = pool.load().endpoints().next().unwrap().id.epoch;
    let page = PoolMetrics::new(sources, "ns", "pool").unwrap();
    metrics.register(Box::new(page)).unwrap();
    let labels = Labels { model: "m", target: "m", fairness_id: "f", priority: 0 };
    let named = || Chosen { name: "pod-0".into(), namespace: "default".into(), port: 8000 };
    metrics.series(&labels).placed(number, named);
    let line = r#"llm_d_epp_scheduler_attempts_total{endpoint_name="pod-0",namespace="default",port="8000",status="success",target_model_name="m"} 1"#;
    let shows = || metrics.page().unwrap().contains(line);
    assert!(shows() && shows(), "as long as it is in the pool");
    pool.store(Arc::default());
    assert!(shows() && !shows(), "and once more");
}

/// Lines of a page of these endpoints, read so long ago.
fn lines(samples: &[Option<Sample>], age: Duration) -> Vec<String> {
    let metrics = Metrics::new("ns", "pool", false).unwrap();
    let read = clock::now().checked_sub(age).unwrap();
    let sources = sources(fixture::sampled(samples, read), &metrics);
    metrics.register(Box::new(PoolMetrics::new(sources, "ns", "pool").unwrap())).unwrap();
    metrics.page().unwrap().lines().map(str::to_owned).collect()
}

/// The value of a series; none where it is absent.
fn value(lines: &[String], series: &str) -> Option<f64> {
    let line = lines.iter().find(|line| line.starts_with(&format!("{series} ")))?;
    line.rsplit(' ').next()?.parse().ok()
}

// FR-094, FR-095
#[test]
fn averages_are_of_fresh_pages_absent_without_one_and_zero_without_endpoints() {
    let queue =
        |waiting| Some(Sample { waiting: Some(waiting), running: Some(3.0), ..Sample::default() });
    let pages = [queue(1.0), queue(1.0), queue(0.0)];
    let names = ["average_queue_size", "average_running_requests", "ready_endpoints"];
    let told = |samples: &[Option<Sample>], age| {
        let lines = lines(samples, age);
        names.map(|name| value(&lines, &format!("llm_d_epp_{name}{{name=\"pool\"}}")))
    };
    assert_eq!(told(&pages, Duration::ZERO), [Some(2.0 / 3.0), Some(3.0), Some(3.0)]);
    assert_eq!(told(&pages, Duration::from_mins(1)), [None, None, Some(3.0)]);
    assert_eq!(told(&[], Duration::ZERO), [Some(0.0), Some(0.0), Some(0.0)]);
}

// FR-085
#[test]
fn what_pages_do_not_tell_is_counted_by_signal() {
    let whole =
        Sample { waiting: Some(1.0), running: Some(1.0), kv_usage: Some(0.1), ..Sample::default() };
    let renamed = Sample { kv_usage: None, ..whole.clone() };
    let lines = lines(&[Some(whole), Some(renamed), None], Duration::ZERO);
    let untold = |signal: &str| {
        let labels = format!("namespace=\"ns\",pool=\"pool\",signal=\"{signal}\"");
        value(&lines, &format!("lodesman_untold_signals{{{labels}}}"))
    };
    assert_eq!(["waiting", "running", "kv_usage"].map(untold), [Some(0.0), Some(0.0), Some(1.0)]);
}

/// A family that is long in coming.
struct Slow(IntGauge, mpsc::SyncSender<()>, parking_lot::Mutex<mpsc::Receiver<()>>);

impl Collector for Slow {
    fn desc(&self) -> Vec<&Desc> {
        self.0.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.1.send(()).unwrap();
        self.2.lock().recv().unwrap();
        self.0.collect()
    }
}

// FR-104
#[test]
fn a_page_that_is_being_made_holds_no_decision_up() {
    let metrics = Metrics::new("ns", "pool", false).unwrap();
    let pool = Arc::new(ArcSwap::from_pointee(fixture::snapshot(3)));
    let director = director(&pool, &metrics);
    let shown = Saturation::new(Arc::downgrade(&director), "p").unwrap();
    metrics.register(Box::new(shown)).unwrap();
    let (begun, begins) = mpsc::sync_channel(0);
    let (go_on, goes_on) = mpsc::sync_channel(0);
    let gauge = IntGauge::new("slow", "slow").unwrap();
    metrics.register(Box::new(Slow(gauge, begun, goes_on.into()))).unwrap();
    std::thread::scope(|threads| {
        let page = threads.spawn(|| metrics.page_with_old_names().unwrap());
        begins.recv().unwrap();
        // A page is being made until `go_on` is told; all that a decision and a new series need is to be had meanwhile.
        let subset = Subset::All;
        let decision = director.decide(
            Ask {
                request: &crate::request::Parsed::default(),
                chain: &crate::prefix::Chain::default(),
                headers: &crate::schedule::Headers::default(),
                bodyless: false,
                model: Some("m"),
                priority: -1,
                subset: &subset,
            },
            u64::MAX,
        );
        assert!(decision.is_ok());
        let labels = Labels { model: "new", target: "new", fairness_id: "f", priority: 0 };
        metrics.series(&labels).requests.inc();
        go_on.send(()).unwrap();
        page.join().unwrap();
    });
    let page = std::thread::scope(|threads| {
        let page = threads.spawn(|| metrics.page().unwrap());
        begins.recv().unwrap();
        go_on.send(()).unwrap();
        page.join().unwrap()
    });
    let timed = r#"llm_d_epp_plugin_duration_seconds_count{extension_point="Scorer",plugin_name="expected-ttft-scorer",plugin_type="expected-ttft-scorer"} 1"#;
    assert!(page.contains(timed), "the dice had its plugins timed: {page}");
}

#[test]
fn the_deviation_is_that_of_a_whole_population() {
    assert_eq!(spread(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), (5.0, 2.0));
    assert_eq!((spread(&[3.0]), spread(&[])), ((3.0, 0.0), (0.0, 0.0)));
}
