use std::collections::BTreeMap;

use super::place::EXPECTED_OUTPUT;
use super::*;
use crate::pool::{Adapters, EndpointSpec, Event, FailureMode, Models, Sample, Standing, State};
use crate::prefix::Chain;
use crate::schedule::fixture;
use crate::schedule::profile::{PickerStep, ScorerStep};
use crate::schedule::registry::{Build, PLUGINS, Parameters, find};
use crate::schedule::{DetectorStep, Profiles};
use crate::server::clock;

mod admission;
mod explain;
mod handlers;
mod reports;
mod spread;

/// Endpoints that list a base model and adapters each; the last adapter runs there, in one of two slots.
fn pool(lists: &[Option<(&str, &[&str])>]) -> Arc<ArcSwap<Snapshot>> {
    let (mut state, now) = (State::new(Duration::from_mins(1)), clock::now());
    let spec = |n: usize| EndpointSpec {
        name: format!("pod-{n}"),
        namespace: "default".to_owned(),
        address: ([10, 0, 0, u8::try_from(n).unwrap()], 8000).into(),
        labels: BTreeMap::new(),
        uid: String::new(),
        other_ips: Vec::new(),
    };
    state.apply(Event::Endpoints((0..lists.len()).map(spec).collect()), now);
    let ids: Vec<_> = state.snapshot().endpoints().map(|endpoint| endpoint.id).collect();
    for (id, list) in ids.into_iter().zip(lists) {
        let running = list.and_then(|(_, adapters)| adapters.last().copied());
        let running = running.into_iter().collect();
        let adapters = Adapters { running, slots: Some(2), ..Adapters::default() };
        let sample = Sample { adapters: Some(Arc::new(adapters)), ..Sample::default() };
        let interval = Duration::from_mins(1);
        state.apply(Event::Scraped { id, sample, at: now, interval }, now);
        if let Some((base, adapters)) = list {
            let base = [*base].into_iter().collect();
            let models = Models { base, adapters: adapters.iter().copied().collect() };
            state.apply(Event::Listed { id, models, at: now }, now);
        }
    }
    Arc::new(ArcSwap::from_pointee(state.snapshot()))
}

fn director(pool: &Arc<ArcSwap<Snapshot>>) -> Director {
    by(random(), pool)
}

fn settings() -> Settings {
    Settings {
        forced_failure_mode: None,
        failure_mode: FailureMode::FailClose,
        deadline: Duration::from_mins(1),
        scores: false,
        clock: Clock::new(clock::now),
    }
}

fn by(profiles: impl Into<Profiles>, pool: &Arc<ArcSwap<Snapshot>>) -> Director {
    with(settings(), profiles, pool)
}

fn with(
    settings: Settings,
    profiles: impl Into<Profiles>,
    pool: &Arc<ArcSwap<Snapshot>>,
) -> Director {
    let policy = Policy::new(profiles, None);
    Director::new(Arc::clone(pool), policy, Metrics::new("ns", "pool", false).unwrap(), settings)
}

impl Director {
    /// Refuses what may be shed while the detector says that the pool is full.
    pub(crate) fn with_admission(self, detector: DetectorStep) -> Self {
        let rules = Arc::into_inner(self.rules.into_inner()).expect("nobody decides");
        let Policy { profiles, .. } = Arc::into_inner(rules.policy).expect("nobody decides");
        let policy = Arc::new(Policy::new(profiles, Some(detector)));
        Self { rules: ArcSwap::from_pointee(Rules { policy, ..rules }), ..self }
    }
}

fn random() -> Profile {
    let Build::Picker(picker) = find(&[PLUGINS], "random-picker").unwrap().build else {
        panic!("a picker")
    };
    let picker = PickerStep {
        name: "picker".into(),
        type_name: "random-picker",
        picker: picker(Parameters::Null).unwrap(),
    };
    Profile { filters: Vec::new(), scorers: Vec::new(), picker }
}

fn decide(director: &Director, model: &str, output_cap: Option<u64>, dice: u64) -> Decision {
    let mut request = Parsed::default();
    (request.prompt_tokens, request.output_cap) = (10, output_cap);
    let subset = Subset::All;
    let ask = Ask {
        request: &request,
        headers: &Headers::default(),
        bodyless: false,
        model: Some(model),
        priority: 0,
        subset: &subset,
        chain: &Chain::default(),
    };
    director.decide(ask, dice).expect("a place")
}

/// Names of the endpoints that requests for `model` reach.
fn reached(director: &Director, model: &str) -> Vec<String> {
    let name = |dice| decide(director, model, None, dice).endpoints[0].spec.name.clone();
    let mut names: Vec<_> = (0..200).map(name).collect();
    names.sort();
    names.dedup();
    names
}

// FR-165
#[test]
fn two_models_in_a_pool_are_kept_apart_and_what_nobody_serves_goes_anywhere() {
    let pool = pool(&[Some(("llama", &["sql"])), Some(("qwen", &[])), None]);
    let director = director(&pool);
    assert_eq!(reached(&director, "llama"), ["pod-0", "pod-2"]);
    assert_eq!(reached(&director, "sql"), ["pod-0", "pod-2"]);
    assert_eq!(reached(&director, "qwen"), ["pod-1", "pod-2"]);
    assert_eq!(reached(&director, "other"), ["pod-0", "pod-1", "pod-2"]);
}

#[test]
fn the_default_policy_sends_a_request_where_its_adapter_is_loaded() {
    let all: &[&str] = &["chat", "sql"];
    let pool = pool(&[
        Some(("llama", &["sql", "chat"])),
        Some(("llama", all)),
        Some(("llama", &["sql", "chat"])),
    ]);
    let policy = crate::config::load(None, &[PLUGINS]).unwrap().profiles;
    let director = by(policy, &pool);
    assert_eq!(reached(&director, "sql"), ["pod-1"]);
    assert_eq!(reached(&director, "chat"), ["pod-0", "pod-2"]);
    assert_eq!(
        reached(&director, "llama"),
        ["pod-0", "pod-1", "pod-2"],
        "a base model goes anywhere"
    );
}

#[test]
fn a_decision_charges_prompt_output_and_adapter_until_it_ends() {
    let pool = pool(&[Some(("llama", &["sql"]))]);
    let director = director(&pool);
    let counts = |decision: &Decision| {
        let live = &decision.endpoints[0].live;
        (live.requests(), live.prompt_tokens(), live.decode_tokens())
    };
    let first = decide(&director, "sql", Some(7), 0);
    assert_eq!(counts(&first), (1, 10, 7), "no more than the client allows");
    let second = decide(&director, "llama", None, 0);
    assert_eq!(counts(&second), (2, 20, 7 + EXPECTED_OUTPUT));
    let snapshot = pool.load();
    let standing = |name| snapshot.standing(snapshot.ready()[0], name, clock::now());
    assert_eq!(standing("sql"), Some(Standing::Resident));
    assert_eq!(standing("llama"), Some(Standing::Room), "a base model is no adapter");
    let live = Arc::clone(&first.endpoints[0].live);
    drop((first, second));
    assert_eq!((live.requests(), live.prompt_tokens(), live.decode_tokens()), (0, 0, 0));
}

#[test]
fn without_signals_what_is_in_flight_decides_whatever_the_policy() {
    let pool = Arc::new(ArcSwap::from_pointee(fixture::snapshot(2)));
    let Build::Scorer(build) = find(&[PLUGINS], "kv-cache-utilization-scorer").unwrap().build
    else {
        panic!("a scorer")
    };
    let scorer = build(Parameters::Null).unwrap().into();
    let scorers = vec![ScorerStep {
        name: "kv".into(),
        type_name: "kv-cache-utilization-scorer",
        weight: 1.0,
        scorer,
    }];
    let director = by(Profile { scorers, ..random() }, &pool);
    let busy = decide(&director, "m", None, 1);
    let id = busy.endpoints[0].id;
    assert!((0..50).all(|dice| decide(&director, "m", None, dice).endpoints[0].id != id));
}

#[test]
fn a_request_without_a_body_does_not_take_an_unknown_server_for_an_idle_one() {
    let now = clock::now();
    let waiting = |waiting| Some(Sample { waiting: Some(waiting), ..Sample::default() });
    let snapshot = fixture::sampled(&[waiting(2.0), None, waiting(8.0)], now);
    let pool = Arc::new(ArcSwap::from_pointee(snapshot));
    let director = director(&pool);
    let (request, subset) = (Parsed::default(), Subset::All);
    let chain = Chain::default();
    let ask = Ask {
        request: &request,
        headers: &Headers::default(),
        bodyless: true,
        model: None,
        priority: 0,
        subset: &subset,
        chain: &chain,
    };
    let placed: Vec<_> = (0..3).map(|dice| director.decide(ask, dice).unwrap()).collect();
    let known = |decision: &Decision| decision.endpoints[0].spec.name != "pod-2";
    assert!(placed.iter().all(known), "the median of 2 and 8 is 2: the busiest is not taken");
    assert_eq!(placed[0].rung, Rung::Policy);
}

// FR-065
#[test]
fn an_endpoint_that_does_not_answer_is_taken_only_when_no_other_is_left() {
    let pool = pool(&[None, None]);
    let director = director(&pool);
    let endpoints: Vec<_> = pool.load().endpoints().cloned().collect();
    endpoints[0].live.reach(true);
    assert_eq!(reached(&director, "m"), ["pod-1"]);
    endpoints[1].live.reach(true);
    assert_eq!(reached(&director, "m"), ["pod-0", "pod-1"]);
}

#[test]
fn the_flag_stands_over_the_pool_and_the_pool_over_the_file() {
    use FailureMode::{FailClose, FailOpen};
    let mode = |flag, told, file| {
        let mut state = State::new(Duration::from_mins(1));
        state.apply(Event::FailureMode(told), clock::now());
        let pool = Arc::new(ArcSwap::from_pointee(state.snapshot()));
        let how = Settings { forced_failure_mode: flag, failure_mode: file, ..settings() };
        with(how, random(), &pool).failure_mode()
    };
    assert_eq!(mode(Some(FailClose), Some(FailOpen), FailOpen), FailClose);
    assert_eq!(mode(Some(FailOpen), Some(FailClose), FailClose), FailOpen);
    assert_eq!(mode(None, Some(FailOpen), FailClose), FailOpen);
    assert_eq!(mode(None, Some(FailClose), FailOpen), FailClose);
    assert_eq!(mode(None, None, FailOpen), FailOpen);
}
