//! A decision after parsing, over 100 endpoints, by the default policy and by eight scorers.
//!
//! `cargo bench --bench decision` gives microseconds, the best of several rounds. `ROUNDS=n` makes so many decisions of
//! each kind and measures nothing: what callgrind counts for 2n less what it counts for n are n decisions.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program for the terminal")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use lodesman::director::{Ask, Clock, DECISION_DEADLINE, Director, Policy, Settings};
use lodesman::metrics::Metrics;
use lodesman::pool::{EndpointSpec, Event, FailureMode, Sample, State, Subset};
use lodesman::prefix::{Chain, Index};
use lodesman::request::{Parsed, PromptPart};
use lodesman::schedule::Headers;
use lodesman::schedule::registry::PLUGINS;
use lodesman_e2e::wait::now;

const ENDPOINTS: u8 = 100;

/// Decisions of a round.
const DECISIONS: u64 = 2_000;

const EIGHT: &str = "\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: running-requests-size-scorer
- type: kv-cache-utilization-scorer
- type: load-aware-scorer
- type: active-request-scorer
- type: token-load-scorer
- type: lora-affinity-scorer
- type: prefix-cache-scorer
";

fn main() {
    let rounds: Option<u64> = std::env::var("ROUNDS").ok().map(|rounds| rounds.parse().unwrap());
    let only = std::env::var("ONLY").ok();
    for (name, text) in [("default", None), ("eight", Some(EIGHT))] {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let (director, chain) = director(text);
        if let Some(rounds) = rounds {
            decide(&director, &chain, rounds);
            continue;
        }
        let best = (0..9).map(|_| {
            let began = now();
            decide(&director, &chain, DECISIONS);
            began.elapsed().as_secs_f64() * 1e6 / DECISIONS as f64
        });
        println!("{name}: {:.2} us a decision", best.fold(f64::INFINITY, f64::min));
    }
}

fn decide(director: &Director, chain: &Chain, times: u64) {
    let mut request = Parsed::default();
    (request.prompt_tokens, request.stream) = (2_000, true);
    let ask = Ask {
        request: &request,
        chain,
        headers: &Headers::default(),
        bodyless: false,
        model: Some("m"),
        priority: 0,
        subset: &Subset::All,
    };
    for dice in 0..times {
        drop(director.decide(ask, dice).unwrap());
    }
}

fn director(text: Option<&str>) -> (Director, Chain) {
    let spec = |n: u8| EndpointSpec {
        name: format!("pod-{n}"),
        namespace: "default".to_owned(),
        address: ([10, 0, 0, n], 8000).into(),
        labels: BTreeMap::new(),
        uid: String::new(),
        other_ips: Vec::new(),
    };
    let mut state = State::new(Duration::from_hours(1));
    state.apply(Event::Endpoints((0..ENDPOINTS).map(spec).collect()), now());
    let ids: Vec<_> = state.snapshot().endpoints().map(|endpoint| endpoint.id).collect();
    for (n, id) in ids.into_iter().enumerate() {
        let sample = Sample {
            waiting: Some((n % 3) as f32),
            running: Some((n % 7) as f32),
            kv_usage: Some(0.5),
            ..Sample::default()
        };
        let interval = Duration::from_secs(1);
        state.apply(Event::Scraped { id, sample, at: now(), interval }, now());
    }
    let pool = Arc::new(ArcSwap::from_pointee(state.snapshot()));
    let resolved = lodesman::config::load(text, &[PLUGINS]).unwrap();
    let settings = Settings {
        forced_failure_mode: None,
        failure_mode: FailureMode::FailClose,
        deadline: DECISION_DEADLINE,
        scores: false,
        clock: Clock::new(now),
    };
    let metrics = Metrics::new("ns", "pool", false).unwrap();
    let index = Arc::new(Index::new(resolved.prefix.unwrap_or_default(), 1));
    let mut hashing = index.hashing();
    hashing.feed(PromptPart::Text(&[b'x'; 8_000]));
    let policy = Policy::new(resolved.profiles, Some(resolved.detector));
    (
        Director::new(pool, policy, metrics, settings).with_prefix(index),
        hashing.end(Some("m"), None),
    )
}
