use bytes::Bytes;

use super::*;
use crate::pool::InFlight;
use crate::schedule::profile::FilterStep;
use crate::schedule::{Admitter, AdmitterStep, Detector, Filter};

/// A detector of the table, under the name `detector`.
fn detector(type_name: &str, raw: serde_json::Value) -> DetectorStep {
    let Build::Detector(build, _) = find(&[PLUGINS], type_name).unwrap().build else {
        panic!("a detector")
    };
    DetectorStep { name: "detector".into(), detector: build(raw).unwrap() }
}

fn utilization() -> DetectorStep {
    detector("utilization-detector", Parameters::Null)
}

/// Endpoints with so many requests in their queue each; none was never read.
fn queues(waiting: &[Option<f32>]) -> Arc<ArcSwap<Snapshot>> {
    let sample =
        |waiting: &Option<f32>| waiting.map(|n| Sample { waiting: Some(n), ..Sample::default() });
    let samples: Vec<_> = waiting.iter().map(sample).collect();
    Arc::new(ArcSwap::from_pointee(fixture::sampled(&samples, clock::now())))
}

/// What becomes of a request of a priority, with a body and without.
struct Request {
    priority: i32,
    subset: Subset,
    headers: Headers,
}

impl Request {
    fn of(priority: i32) -> Self {
        Self { priority, subset: Subset::All, headers: Headers::default() }
    }

    fn decide(&self, director: &Director, bodyless: bool) -> Result<Decision, Rejection> {
        let (request, chain) = (Parsed::default(), Chain::default());
        let Self { priority, subset, headers } = self;
        let priority = *priority;
        let (request, chain, model) = (&request, &chain, Some("llama"));
        director.decide(Ask { request, chain, headers, bodyless, model, priority, subset }, 0)
    }

    /// Why it is refused; none when it is not.
    fn refusal(&self, director: &Director) -> Option<Rejection> {
        let [with, without] = [false, true].map(|bodyless| self.decide(director, bodyless).err());
        assert_eq!(with, without, "a body makes no difference");
        with
    }
}

// FR-046
#[test]
fn a_sheddable_request_is_refused_while_no_endpoint_has_room() {
    let full = director(&queues(&[Some(5.0), Some(60.0)])).with_admission(utilization());
    assert_eq!(Request::of(-1).refusal(&full), Some(Rejection::Shed));
    assert_eq!(Request::of(i32::MIN).refusal(&full), Some(Rejection::Shed));
    let room = director(&queues(&[Some(4.0), Some(60.0)])).with_admission(utilization());
    assert_eq!(Request::of(-1).refusal(&room), None);
}

// FR-046
#[test]
fn a_request_of_priority_zero_or_more_is_never_shed() {
    let full = director(&queues(&[Some(60.0)])).with_admission(utilization());
    for priority in [0, 1, i32::MAX] {
        assert_eq!(Request::of(priority).refusal(&full), None);
    }
}

#[test]
fn an_idle_pool_that_was_never_read_sheds_nobody() {
    let pool = queues(&[None, None]);
    let unread = director(&pool).with_admission(utilization());
    assert_eq!(Request::of(-1).refusal(&unread), None);
    let endpoints: Vec<_> = pool.load().endpoints().cloned().collect();
    let begin = |_| endpoints.iter().map(|endpoint| InFlight::begin(&endpoint.live, 0));
    let _in_flight: Vec<_> = (0..100).flat_map(begin).collect();
    assert_eq!(Request::of(-1).refusal(&unread), Some(Rejection::Shed), "what we sent there tells");
}

#[test]
fn only_the_endpoints_that_could_take_the_request_count() {
    let pool = queues(&[Some(0.0), Some(9.0)]);
    let by_subset = director(&pool).with_admission(utilization());
    let second = pool.load().endpoints().nth(1).unwrap().spec.address;
    let subset = Subset::Only([crate::pool::Allowed::Endpoint(second)].into_iter().collect());
    let request = Request { subset, ..Request::of(-1) };
    assert_eq!(request.refusal(&by_subset), Some(Rejection::Shed));

    let pool = super::pool(&[Some(("llama", &[])), Some(("qwen", &[]))]);
    let requests = detector("concurrency-detector", serde_json::json!({"maxConcurrency": 1}));
    let by_model = director(&pool).with_admission(requests);
    assert_eq!(Request::of(-1).refusal(&by_model), None);
    let snapshot = pool.load();
    let _in_flight = InFlight::begin(&snapshot.endpoints().next().unwrap().live, 0);
    assert_eq!(Request::of(-1).refusal(&by_model), Some(Rejection::Shed));
}

// FR-076
#[test]
fn what_was_just_placed_counts_for_the_next_decision() {
    let pool = queues(&[Some(0.0)]);
    let requests = detector("concurrency-detector", serde_json::json!({"maxConcurrency": 4}));
    let director = director(&pool).with_admission(requests);
    let decide = |_| Request::of(-1).decide(&director, false);
    let (placed, shed): (Vec<_>, Vec<_>) = (0..10).map(decide).partition(Result::is_ok);
    assert_eq!((placed.len(), shed.len()), (4, 6));
    assert!(director.fullness(clock::now()).unwrap().saturation >= 1.0, "and the gauge tells");
}

#[test]
fn without_endpoints_a_sheddable_request_is_told_so() {
    let none = director(&queues(&[])).with_admission(utilization());
    assert_eq!(Request::of(-1).refusal(&none), Some(Rejection::NoEndpoints));
}

/// Panics as a detector; as a filter keeps nobody.
#[derive(Debug)]
struct Broken;

impl Filter for Broken {
    fn filter(&self, _: PickContext<'_>, candidates: &mut Vec<Slot>) {
        candidates.clear();
    }

    fn headers(&self) -> Vec<&str> {
        vec!["x-b", "x-a"]
    }
}

impl Detector for Broken {
    fn fill(&self, _: PickContext<'_>, _: Slot) -> f32 {
        panic!("a detector of the test")
    }
}

#[test]
fn a_detector_that_fails_admits_and_the_fault_is_told() {
    let broken = DetectorStep { name: "broken".into(), detector: Box::new(Broken) };
    let director = director(&queues(&[Some(60.0)])).with_admission(broken);
    for bodyless in [false, true] {
        let decision = Request::of(-1).decide(&director, bodyless).unwrap();
        assert_eq!(decision.faults.as_slice(), [Fault::Panicked("broken".into())]);
        assert!(Request::of(0).decide(&director, bodyless).unwrap().faults.is_empty());
    }
    let page = director.metrics().page().unwrap();
    let counted = page.contains(r#"cause="panic",namespace="ns",pool="pool",rung="policy"} 2"#);
    assert!(counted, "{page}");
}

/// Refuses all, or panics.
#[derive(Debug)]
struct Hard {
    broken: bool,
}

impl Admitter for Hard {
    fn refuses(&self, _: PickContext<'_>, candidates: &[Slot]) -> bool {
        assert!(!self.broken, "an admitter of the test");
        !candidates.is_empty()
    }

    fn headers(&self) -> Vec<&str> {
        vec!["x-c"]
    }
}

/// Asks these, of which some are broken, besides a detector that sheds nobody.
fn admitted_by(broken: &[bool]) -> Director {
    let step =
        |&broken: &bool| AdmitterStep { name: "hard".into(), admitter: Box::new(Hard { broken }) };
    let director = director(&queues(&[Some(0.0)]));
    let steps = broken.iter().map(step).collect();
    director.adopt(Policy::new(random(), Some(utilization())).with_admitters(steps));
    director
}

#[test]
fn an_admitter_sheds_what_the_detector_would_not_but_only_below_priority_zero() {
    let hard = admitted_by(&[false]);
    assert_eq!(Request::of(-1).refusal(&hard), Some(Rejection::Shed));
    assert_eq!(Request::of(0).refusal(&hard), None);
    assert_eq!(Request::of(-1).refusal(&admitted_by(&[])), None);
    assert_eq!(hard.headers().iter().map(|name| &**name).collect::<Vec<_>>(), ["x-c"]);
}

#[test]
fn an_admitter_that_fails_refuses_nobody_and_the_others_are_asked() {
    let decision = Request::of(-1).decide(&admitted_by(&[true, true]), false).unwrap();
    assert_eq!(decision.faults.as_slice(), [Fault::Panicked("hard".into())]);
    assert_eq!(Request::of(-1).refusal(&admitted_by(&[true, false])), Some(Rejection::Shed));
}

fn filtered(empty: Empty, filter: Box<dyn Filter>) -> Director {
    let filters = vec![FilterStep {
        name: "filter".into(),
        type_name: "fake-filter",
        empty,
        filter: filter.into(),
    }];
    by(Profile { filters, ..random() }, &queues(&[Some(0.0), Some(3.0)]))
}

#[test]
fn a_request_without_a_body_is_bound_by_what_guards_a_capability_alone() {
    let capability = filtered(Empty::Capability, Box::new(Broken));
    assert_eq!(Request::of(0).refusal(&capability), Some(Rejection::NoEndpoints));
    let load = filtered(Empty::Load, Box::new(Broken));
    assert_eq!(Request::of(0).decide(&load, false).err(), Some(Rejection::Saturated));
    assert_eq!(Request::of(0).decide(&load, true).err(), None);
}

#[test]
fn headers_are_those_that_plugins_read_and_reach_them() {
    let Build::Filter(build, empty) =
        find(&[PLUGINS], "header-based-testing-filter").unwrap().build
    else {
        panic!("a filter")
    };
    let broken = DetectorStep { name: "broken".into(), detector: Box::new(Broken) };
    let director = filtered(empty, build(Parameters::Null).unwrap()).with_admission(broken);
    let names = director.headers();
    let names: Vec<_> = names.iter().map(|name| &**name).collect();
    assert_eq!(names, ["test-epp-endpoint-selection", "x-a", "x-b"]);
    let mut request = Request::of(0);
    let value = Bytes::from_static(b"10.0.0.1:8000");
    request.headers.take(&director.headers(), b"test-epp-endpoint-selection", &value);
    for bodyless in [false, true] {
        let placed = request.decide(&director, bodyless).unwrap();
        assert_eq!(placed.endpoints[0].spec.name, "pod-1", "the busier one, as asked");
    }
    assert!(super::director(&queues(&[])).headers().is_empty());
}
