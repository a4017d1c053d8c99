use parking_lot::Mutex;

use super::*;
use crate::director::explain::{CandidateTold, EndpointTold, Explanation};
use crate::pool::{Allowed, InFlight, Prompt};
use crate::schedule::profile::FilterStep;
use crate::schedule::{Filter, Part, Scorer};

/// Scores by slot, in two parts.
#[derive(Debug)]
struct BySlot;

impl Scorer for BySlot {
    fn score(&self, _: PickContext<'_>, candidates: &[Slot], scores: &mut [f32]) {
        scores.iter_mut().zip(candidates).for_each(|(score, slot)| *score = slot.index() as f32);
    }

    fn parts(&self, _: PickContext<'_>, candidates: &[Slot]) -> Vec<Part> {
        vec![Part { name: "wait_ms", values: vec![7.0; candidates.len()] }]
    }
}

/// Removes one endpoint, and says so.
#[derive(Debug)]
struct Without(usize);

impl Filter for Without {
    fn filter(&self, _: PickContext<'_>, candidates: &mut Vec<Slot>) {
        candidates.retain(|slot| slot.index() != self.0);
    }

    fn reason(&self, _: PickContext<'_>, slot: Slot) -> Option<String> {
        Some(format!("it is number {}", slot.index()))
    }
}

/// Without the last endpoint, by two scorers of which the first has the weight 0.5.
fn profile(endpoints: usize) -> Profile {
    let filter = Arc::new(Without(endpoints - 1));
    let filters =
        vec![FilterStep { name: "last".into(), type_name: "without", empty: Empty::Load, filter }];
    let scorer = |(name, weight): (&str, f32)| ScorerStep {
        name: name.into(),
        type_name: "by-slot",
        weight,
        scorer: Arc::new(BySlot),
    };
    let scorers = [("half", 0.5), ("whole", 1.0)].map(scorer).into();
    let Build::Picker(picker) = find(&[PLUGINS], "max-score-picker").unwrap().build else {
        panic!("a picker")
    };
    let picker = PickerStep {
        name: "best".into(),
        type_name: "max-score-picker",
        picker: picker(Parameters::Null).unwrap(),
    };
    Profile { filters, scorers, picker }
}

/// Asks for this model at these endpoints, and does something with it.
fn asking<T>(model: &str, subset: &Subset, then: impl FnOnce(Ask<'_>) -> T) -> T {
    let mut request = Parsed::default();
    request.prompt_tokens = 100;
    then(Ask {
        request: &request,
        headers: &Headers::default(),
        bodyless: false,
        model: Some(model),
        priority: 0,
        subset,
        chain: &Chain::default(),
    })
}

fn explained(director: &Director, model: &str, subset: &Subset) -> Explanation {
    asking(model, subset, |ask| director.explain(ask, 3))
}

fn logging(endpoints: u16, entries: usize) -> (Director, Arc<DecisionLog>) {
    let pool = Arc::new(ArcSwap::from_pointee(fixture::snapshot(endpoints)));
    let log = Arc::new(DecisionLog::new(entries));
    (by(profile(endpoints.into()), &pool).with_log(Arc::clone(&log)), log)
}

fn decide_as(director: &Director, id: u64, request_id: &str) -> Result<Decision, Rejection> {
    let tag = Tag { id, request_id: request_id.as_bytes(), traced: false };
    asking("llama", &Subset::All, |ask| director.decide_noted(Some(tag), ask, 3, &mut None))
}

fn found(log: &DecisionLog, wanted: &Wanted) -> Vec<Explanation> {
    log.find(wanted, clock::now())
}

// FR-151
#[test]
fn each_removal_is_told_with_its_reason() {
    let mut lists = vec![Some(("llama", &[][..])); 6];
    lists[1] = Some(("qwen", &[]));
    let pool = pool(&lists);
    pool.load().endpoints().nth(2).unwrap().live.reach(true);
    let allowed = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"];
    let subset = Subset::Only(allowed.into_iter().filter_map(Allowed::parse).collect());
    let told = explained(&by(profile(6), &pool), "llama", &subset);
    let out = |endpoint: &EndpointTold| endpoint.left_out.as_ref().map(|out| out.by.clone());
    let by: Vec<_> = told.endpoints.iter().map(out).collect();
    let [subset, silent, model] = ["subset", "not_answering", "model"].map(|by| Some(by.into()));
    assert_eq!(by, [subset, model, silent, None, None, None]);
    let pass = &told.passes[0];
    assert_eq!(pass.began_with, 3);
    assert_eq!(pass.filters[0].removed[0].endpoint, "pod-5");
    assert_eq!(pass.filters[0].removed[0].reason.as_deref(), Some("it is number 5"));
    assert_eq!(pass.candidates.len(), 2);
}

#[test]
fn the_sums_are_those_that_the_picker_saw_and_the_choice_is_the_one_that_is_made() {
    let director = by(profile(4), &pool(&[Some(("llama", &[][..])); 4]));
    let told = explained(&director, "llama", &Subset::All);
    let pass = &told.passes[0];
    let sums = |candidate: &CandidateTold| {
        let weighted: f32 = candidate.scores.iter().map(|score| score.weighted).sum();
        (candidate.sum, Some(weighted))
    };
    assert!(pass.candidates.iter().map(sums).all(|(sum, weighted)| sum == weighted), "{pass:#?}");
    let best = pass.candidates.iter().find(|told| told.endpoint == "pod-2").unwrap();
    assert_eq!((best.sum, best.scores[0].weighted), (Some(1.5), 0.5));
    assert_eq!(best.scores[0].raw, Some(2.0), "before it is clamped");
    assert_eq!(best.scores[0].parts["wait_ms"], Some(7.0));
    assert_eq!(pass.candidates[2].sum, Some(0.0), "the best come first");
    assert_eq!((pass.equals, pass.picker.as_deref()), (2, Some("best")));
    let decided = decide_as(&director, 1, "").unwrap();
    assert_eq!(told.outcome.endpoints, [decided.endpoints[0].spec.name.as_str()]);
    assert_eq!(told.outcome.rung.as_deref(), Some("policy"));
}

#[test]
fn an_explanation_has_no_effect() {
    let pool = pool(&[Some(("llama", &["sql"][..])); 3]);
    let director = by(profile(3), &pool);
    let page = director.metrics().page().unwrap();
    for _ in 0..3 {
        explained(&director, "sql", &Subset::All);
    }
    assert!(pool.load().endpoints().all(|endpoint| endpoint.live.requests() == 0));
    assert_eq!(director.metrics().page().unwrap(), page);
}

#[test]
fn a_decision_is_found_by_its_id_and_by_its_requests() {
    let (director, log) = logging(3, 100);
    let first = decide_as(&director, 10, "a").unwrap();
    let _second = decide_as(&director, 11, "b").unwrap();
    let _third = decide_as(&director, 12, "a").unwrap();
    let ids = |wanted| found(&log, &wanted).into_iter().filter_map(|told| told.decision);
    let by_request = Wanted { request_id: Some("a".to_owned()), limit: 9, ..Wanted::default() };
    let newest_first = ["000000000000000c", "000000000000000a"];
    assert_eq!(ids(by_request).collect::<Vec<_>>(), newest_first);
    assert_eq!(ids(Wanted { limit: 2, ..Wanted::default() }).count(), 2);
    let told = found(&log, &Wanted { id: Some(10), limit: 1, ..Wanted::default() }).remove(0);
    assert_eq!(told.request_id.as_deref(), Some("a"));
    assert_eq!(told.outcome.endpoints, [first.endpoints[0].spec.name.as_str()]);
    let seen = &told.endpoints[first.endpoints[0].id.slot.index()];
    assert_eq!(seen.in_flight.requests, 0, "as it was before its own charge");
    let later = found(&log, &Wanted { id: Some(12), limit: 1, ..Wanted::default() }).remove(0);
    let tokens: u32 = later.endpoints.iter().map(|told| told.in_flight.prompt_tokens).sum();
    assert_eq!(tokens, 200, "the charges of the two before");
}

#[test]
fn the_log_keeps_the_last_decisions_and_no_more() {
    let (director, log) = logging(50, 10_000);
    for id in 0..10_050 {
        drop(decide_as(&director, id, "x"));
    }
    assert_eq!(log.len(), 10_000);
    let all = |limit| found(&log, &Wanted { limit, ..Wanted::default() });
    assert_eq!(all(1)[0].decision.as_deref(), Some("0000000000002741"));
    assert!(found(&log, &Wanted { id: Some(49), limit: 1, ..Wanted::default() }).is_empty());
    let (crowded, wide) = logging(10_000, usize::MAX);
    for id in 0..300 {
        drop(decide_as(&crowded, id, "x"));
    }
    assert!((100..290).contains(&wide.len()), "by memory: {}", wide.len());
}

#[test]
fn decisions_are_kept_while_somebody_watches_and_forgotten_when_he_is_gone() {
    let time = Arc::new(Mutex::new(clock::now()));
    let shared = Arc::clone(&time);
    let settings = Settings { clock: Clock::new(move || *shared.lock()), ..settings() };
    let pool = Arc::new(ArcSwap::from_pointee(fixture::snapshot(3)));
    let log = Arc::new(DecisionLog::new(0));
    let director = with(settings, profile(3), &pool).with_log(Arc::clone(&log));
    drop(decide_as(&director, 1, "before"));
    assert!(log.is_empty() && !director.keeps_log());
    log.watch(*time.lock());
    assert!(director.keeps_log());
    for id in 2..200 {
        drop(decide_as(&director, id, "watched"));
    }
    assert_eq!(log.len(), 100);
    *time.lock() += Duration::from_secs(11);
    drop(decide_as(&director, 200, "after"));
    assert!(log.is_empty() && !director.keeps_log());
}

#[test]
fn a_decision_in_short_says_what_was_decisive() {
    let (director, log) = logging(4, 9);
    let said = |log: &DecisionLog| log.recent(1, clock::now()).remove(0);
    let _first = decide_as(&director, 0xab, "r").unwrap();
    let brief = said(&log);
    assert_eq!((brief.id.as_str(), brief.request_id.as_str()), ("00000000000000ab", "r"));
    assert_eq!((brief.model.as_deref(), brief.prompt_tokens), (Some("llama"), 100));
    assert!(brief.why.starts_with("drawn among 2 equal, of 3"), "{}", brief.why);
    let (two, log) = logging(2, 9);
    let _in_flight = decide_as(&two, 1, "r").unwrap();
    assert!(said(&log).why.starts_with("the only one left of 2"), "{}", said(&log).why);
    let _other = decide_as(&two, 2, "r").unwrap();
    let brief = said(&log);
    assert!(brief.why.contains("1 of ours"), "before its own charge: {}", brief.why);
    assert_eq!(brief.endpoint.as_deref(), Some("pod-0"));
    let (none, log) = logging(1, 9);
    decide_as(&none, 3, "r").unwrap_err();
    let brief = said(&log);
    assert_eq!((brief.endpoint, brief.why.as_str()), (None, "all endpoints are busy"));
}

// FR-151
#[test]
fn the_lead_over_the_next_is_told_with_the_scorer_that_made_it() {
    #[derive(Debug)]
    struct First(f32);
    impl Scorer for First {
        fn score(&self, _: PickContext<'_>, _: &[Slot], scores: &mut [f32]) {
            scores.iter_mut().take(1).for_each(|score| *score = self.0);
        }
    }
    let pool = Arc::new(ArcSwap::from_pointee(fixture::snapshot(3)));
    let log = Arc::new(DecisionLog::new(9));
    let scorer = |(name, score): (&str, f32)| ScorerStep {
        name: name.into(),
        type_name: "first-scorer",
        weight: 1.0,
        scorer: Arc::new(First(score)),
    };
    let scorers = [("little", 0.25), ("much", 0.5)].map(scorer).into();
    let profile = Profile { filters: Vec::new(), scorers, ..profile(3) };
    let director = by(profile, &pool).with_log(Arc::clone(&log));
    let _placed = decide_as(&director, 1, "r").unwrap();
    let why = log.recent(1, clock::now()).remove(0).why;
    assert!(why.starts_with("best of 3 by 0.75, mostly by much"), "{why}");
}

#[test]
fn a_refusal_is_told_and_kept_too() {
    let (director, log) = logging(1, 5);
    let refused = decide_as(&director, 1, "r").unwrap_err();
    assert_eq!(refused, Rejection::Saturated, "the filter leaves nobody");
    let told = found(&log, &Wanted { limit: 1, ..Wanted::default() }).remove(0);
    assert_eq!(told.outcome.refused.as_deref(), Some("all endpoints are busy"));
    assert_eq!(told.passes[0].filters[0].removed[0].endpoint, "pod-0");
    assert!(told.outcome.endpoints.is_empty());
}

#[test]
fn an_endpoint_that_warms_up_is_passed_by_where_it_has_as_much_as_it_can_show_for() {
    let both = fixture::snapshot(2).endpoints().map(|it| it.spec.clone()).collect();
    let (mut state, later) = (fixture::state(1), clock::now() + Duration::from_mins(1));
    state.watch(later);
    state.apply(Event::Endpoints(both), later);
    let pool = Arc::new(ArcSwap::from_pointee(state.snapshot()));
    let director = by(profile(3), &pool);
    let live = Arc::clone(&pool.load().endpoints().nth(1).unwrap().live);
    let prompt = Prompt { tokens: 100, at: later, streams: true, loads: false };
    let out = || {
        let told = explained(&director, "llama", &Subset::All);
        told.endpoints
            .iter()
            .map(|it| it.left_out.as_ref().map(|out| out.by.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(out(), [None, None]);
    let _all: Vec<_> = (0..4).map(|_| InFlight::begin(&live, 100).computing(prompt)).collect();
    assert_eq!(out(), [None, Some("warming".to_owned())]);
}
