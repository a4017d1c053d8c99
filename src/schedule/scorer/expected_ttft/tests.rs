use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::pool::{InFlight, Prompt, Sample, Snapshot};
use crate::schedule::fixture;
use crate::server::clock;

const SECOND: Duration = Duration::from_secs(1);

/// Scores of a prompt of so many tokens.
fn scores(snapshot: &Snapshot, tokens: u64, now: Instant) -> Vec<f32> {
    let mut asked = fixture::Asked::of(snapshot);
    asked.tokens(tokens);
    let mut scores = vec![0.0; snapshot.ready().len()];
    ExpectedTtft {}.score(asked.cx(now), snapshot.ready(), &mut scores);
    scores
}

/// A prompt is placed on an endpoint.
fn place(snapshot: &Snapshot, at: usize, tokens: u64, now: Instant) -> InFlight {
    let endpoint = snapshot.endpoint(snapshot.ready()[at]).unwrap();
    let prompt = Prompt { tokens, at: now, streams: true, loads: false };
    InFlight::begin(&endpoint.live, tokens).computing(prompt)
}

/// An endpoint computes prompts of 8,000 tokens in so many seconds each; returns when it is done.
fn learn(snapshot: &Snapshot, at: usize, seconds: u32, mut now: Instant) -> Instant {
    for _ in 0..20 {
        let mut in_flight = place(snapshot, at, 8_000, now);
        now += SECOND * seconds;
        in_flight.answered(now);
    }
    now
}

fn page(waiting: f32, running: f32, kv: f32) -> Sample {
    Sample {
        waiting: Some(waiting),
        running: Some(running),
        kv_usage: Some(kv),
        ..Sample::default()
    }
}

#[test]
fn endpoints_of_which_nothing_is_known_are_equal() {
    for endpoints in [1, 1000] {
        let scores = scores(&fixture::snapshot(endpoints), 100, clock::now());
        assert!(scores.iter().all(|score| *score >= 1.0), "{scores:?}");
    }
}

#[test]
fn each_prompt_that_was_placed_counts_at_once_by_its_tokens() {
    let (snapshot, now) = (fixture::snapshot(3), clock::now());
    let _long = place(&snapshot, 0, 8_000, now);
    let _short = [place(&snapshot, 1, 100, now), place(&snapshot, 1, 100, now)];
    let scores = scores(&snapshot, 1_000, now);
    assert!(scores[2] >= 1.0 && scores[2] > scores[1] && scores[1] > scores[0], "{scores:?}");
}

#[test]
fn what_waits_long_enough_counts_no_more_than_what_cannot_be_done() {
    let (snapshot, now) = (fixture::snapshot(2), clock::now());
    let _head = place(&snapshot, 0, 8_000, now);
    let (at_once, later) =
        (scores(&snapshot, 4_000, now), scores(&snapshot, 4_000, now + SECOND * 3 / 4));
    assert!(at_once[0] < later[0] && later[0] < 1.0, "{at_once:?} {later:?}");
}

#[test]
fn a_slow_endpoint_is_learnt_and_an_unknown_one_is_as_the_others() {
    let (snapshot, start) = (fixture::snapshot(3), clock::now());
    let now = learn(&snapshot, 0, 1, start).max(learn(&snapshot, 1, 4, start));
    let scores = scores(&snapshot, 4_000, now);
    assert!(scores[0] > scores[2] && scores[2] > scores[1], "{scores:?}");
}

#[test]
fn what_waits_on_an_unproven_endpoint_counts_double() {
    let (snapshot, start) = (fixture::snapshot(2), clock::now());
    let now = learn(&snapshot, 0, 1, start);
    let _both = [0, 1].map(|at| place(&snapshot, at, 4_000, now));
    let scores = scores(&snapshot, 4_000, now);
    assert!(scores[0] >= 1.0 && scores[1] < 0.8, "{scores:?}");
}

#[test]
fn requests_of_others_count_less_the_older_their_news() {
    let now = clock::now();
    let samples = [Some(page(9.0, 4.0, 0.2)), Some(page(0.0, 0.0, 0.2)), None];
    let snapshot = fixture::sampled(&samples, now);
    let fresh = scores(&snapshot, 1_000, now);
    assert!(fresh[1] >= 1.0 && fresh[1] > fresh[2] && fresh[2] > fresh[0], "{fresh:?}");
    let old = scores(&snapshot, 1_000, now + SECOND);
    assert!(old[0] > fresh[0], "{old:?}");
    let stale = scores(&snapshot, 1_000, now + SECOND * 60);
    assert!(stale.iter().all(|score| *score >= 1.0), "{stale:?}");
}

#[test]
fn our_own_requests_on_a_page_are_not_taken_for_those_of_others() {
    let now = clock::now();
    let mut state = fixture::state(2);
    let ids: Vec<_> = state.snapshot().endpoints().map(|endpoint| endpoint.id).collect();
    let first = Arc::clone(state.snapshot().by_id(ids[0]).unwrap());
    let ours: Vec<_> = (0..8).map(|_| InFlight::begin(&first.live, 0)).collect();
    let at = |id, running| crate::pool::Event::Scraped {
        id,
        sample: page(0.0, running, 0.1),
        at: now,
        interval: SECOND,
    };
    state.apply(at(ids[0], 9.0), now);
    state.apply(at(ids[1], 0.0), now);
    drop(ours);
    let scores = scores(&state.snapshot(), 1_000, now);
    assert!(scores.iter().all(|score| *score >= 1.0), "{scores:?}");
}

#[test]
fn a_cache_that_is_about_to_be_full_costs_time() {
    let now = clock::now();
    let kv = [0.5, 0.89, 0.95, 1.0].map(|used| Some(page(0.0, 0.0, used)));
    let scores = scores(&fixture::sampled(&kv, now), 1_000, now);
    assert!(scores[0] >= 1.0 && scores[1] >= 1.0, "{scores:?}");
    assert!(scores[1] > scores[2] && scores[2] > scores[3], "{scores:?}");
}

#[test]
fn sequences_that_decode_cost_their_share_of_the_steps() {
    let (snapshot, now) = (fixture::snapshot(2), clock::now());
    let mut decoding = place(&snapshot, 0, 1, now);
    decoding.answered(now);
    let scores = scores(&snapshot, 1_000, now);
    assert!(scores[1] >= 1.0 && scores[0] < 1.0, "{scores:?}");
}

#[test]
fn crowded_steps_cost_what_an_answer_takes_longer_in_them() {
    let among = |requests| Steps { lone: 0.02, growth: Speed::growth(requests) };
    assert!((among(20.0).crowd(80.0, None) - 3.42).abs() < 0.01);
    let spared = [
        ("few have one holder", among(3.0).crowd(12.0, None)),
        ("all have as many", among(80.0).crowd(80.0, None)),
        ("it is slow alone", among(20.0).crowd(20.0, Some(0.08))),
        ("it is faster with more", among(20.0).crowd(60.0, Some(0.005))),
    ];
    assert!(spared.iter().all(|(_, cost)| *cost <= 0.0), "{spared:?}");
    assert!(Steps::of(&[], 3.0, 12.0).is_none());
}
