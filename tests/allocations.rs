//! What a decision allocates: nothing, once its buffers are warm.
#![expect(clippy::unwrap_used, clippy::tests_outside_test_module, reason = "an integration test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use allocation_counter::measure;
use arc_swap::ArcSwap;
use lodesman::director::{Ask, Clock, DECISION_DEADLINE, Director, Settings};
use lodesman::metrics::Metrics;
use lodesman::pool::{EndpointSpec, Event, FailureMode, Sample, State, Subset};
use lodesman::prefix::{Chain, Index};
use lodesman::request::{Parsed, PromptPart};
use lodesman::schedule::Headers;
use lodesman::schedule::registry::PLUGINS;
use lodesman_e2e::wait::now;

/// A director by the default policy over so many endpoints with fresh samples, and a prompt of 2,000 tokens.
fn director(endpoints: u16) -> (Director, Chain) {
    let spec = |n: u16| EndpointSpec {
        name: format!("pod-{n}"),
        namespace: "default".to_owned(),
        address: ([10, 0, n.to_be_bytes()[0], n.to_be_bytes()[1]], 8000).into(),
        labels: BTreeMap::new(),
        uid: String::new(),
        other_ips: Vec::new(),
    };
    let mut state = State::new(Duration::from_hours(1));
    state.apply(Event::Endpoints((0..endpoints).map(spec).collect()), now());
    let ids: Vec<_> = state.snapshot().endpoints().map(|endpoint| endpoint.id).collect();
    for (n, id) in ids.into_iter().enumerate() {
        let sample =
            Sample { waiting: Some((n % 3) as f32), kv_usage: Some(0.5), ..Sample::default() };
        state.apply(
            Event::Scraped { id, sample, at: now(), interval: Duration::from_secs(1) },
            now(),
        );
    }
    let pool = Arc::new(ArcSwap::from_pointee(state.snapshot()));
    let policy = lodesman::config::load(None, &[PLUGINS]).unwrap();
    let settings = Settings {
        forced_failure_mode: None,
        failure_mode: FailureMode::FailClose,
        deadline: DECISION_DEADLINE,
        scores: false,
        clock: Clock::new(now),
    };
    let metrics = Metrics::new("ns", "pool", false).unwrap();
    let index = Arc::new(Index::new(policy.prefix.unwrap(), 1));
    let mut hashing = index.hashing();
    hashing.feed(PromptPart::Text(&vec![b'x'; 32_000]));
    let director = Director::new(pool, policy.profile, metrics, settings).with_prefix(index);
    (director, hashing.end(Some("m"), None))
}

#[test]
fn a_decision_with_warm_buffers_allocates_nothing() {
    for endpoints in [1, 8, 1000] {
        let (director, chain) = director(endpoints);
        let (request, subset) = (Parsed::default(), Subset::All);
        let ask = Ask {
            request: &request,
            chain: &chain,
            headers: &Headers::default(),
            bodyless: false,
            model: Some("m"),
            priority: 0,
            subset: &subset,
        };
        let placed = director.decide(ask, 0).unwrap().endpoints[0].id;
        let mut again = None;
        let allocated = measure(|| again = Some(director.decide(ask, 1)));
        assert_eq!(again.unwrap().unwrap().endpoints[0].id, placed, "the prompt is known there");
        assert_eq!(allocated.count_total, 0, "{endpoints} endpoints: {allocated:?}");
    }
}
