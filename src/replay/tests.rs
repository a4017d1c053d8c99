//! Small fleets with exact expectations.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::prefix::Chain;
use crate::sim::engine::{AdapterId, EngineSpec};

mod hot_prefix;
mod ramp;
mod spread;

const MS: Duration = Duration::from_millis(1);

/// A prompt of which nobody else has any block.
fn unique(id: u64, at: Duration, prompt_tokens: usize) -> Arrival {
    shared(id, 0, at, prompt_tokens)
}

/// A prompt that begins with `shared_tokens` of prompt 0.
fn shared(id: u64, shared_tokens: usize, at: Duration, prompt_tokens: usize) -> Arrival {
    let blocks = |size: usize| -> Vec<u64> {
        let owner = |end: usize| if end <= shared_tokens { 0 } else { id };
        let ends = (1..=prompt_tokens / size).map(|block| block * size);
        ends.map(|end| owner(end) << 40 | (size * 100_000 + end) as u64).collect()
    };
    Arrival {
        at,
        prompt_tokens,
        output_tokens: 5,
        adapter: None,
        chain: Arc::new(Chain::from(blocks(64))),
        blocks: blocks(16).into(),
        shared_tokens,
        counts: true,
    }
}

fn workload(arrivals: impl IntoIterator<Item = Arrival>) -> Workload {
    Workload { arrivals: arrivals.into_iter().collect() }
}

fn fleet(pods: usize) -> Fleet {
    Fleet {
        engines: vec![EngineSpec::default(); pods],
        scrape_interval: 50 * MS,
        outages: Vec::new(),
    }
}

fn all() -> impl Iterator<Item = Contender> {
    Contender::NAMES.into_iter().map(|name| Contender::named(name).unwrap())
}

fn ttfts(outcome: &Outcome) -> Vec<Duration> {
    outcome.served.iter().map(|served| served.ttft).collect()
}

/// Mixed lengths, shared beginnings, some at one instant.
fn crowd(requests: u64) -> Workload {
    let mut rng = fastrand::Rng::with_seed(7);
    workload((1..=requests).map(|id| {
        let at = MS * u32::try_from(id / 4 * 150).unwrap();
        shared(id, rng.usize(0..3) * 1_024, at, rng.usize(100..6_000))
    }))
}

#[test]
fn a_lone_request_waits_for_its_prefill_alone_whoever_places_it() {
    let alone = workload([unique(1, 7 * MS, 1_000)]);
    for contender in all() {
        let outcome = run(&alone, &fleet(3), &contender, 1).unwrap();
        let [served] = *outcome.served else { panic!("{contender:?} {outcome:?}") };
        assert_eq!(served.ttft, 125 * MS, "{contender:?}");
        assert_eq!(served.end_to_end, (125 + 4 * 20) * MS, "{contender:?}");
    }
}

#[test]
fn what_arrives_at_one_instant_may_be_in_one_step() {
    let pair = workload([unique(1, MS, 800), unique(2, MS, 800)]);
    let outcome = run(&pair, &fleet(1), &Contender::RoundRobin, 1).unwrap();
    assert_eq!(ttfts(&outcome), [200 * MS; 2]);
}

// FR-048
#[test]
fn a_burst_is_spread_evenly_by_those_who_count_it() {
    let burst = workload((1..=160).map(|id| unique(id, 200 * MS, 1_000)));
    for contender in [Contender::Configured(None), Contender::LeastRequest, Contender::Oracle] {
        let placed = run(&burst, &fleet(16), &contender, 1).unwrap().placed;
        assert!(placed.iter().all(|&n| (9..=11).contains(&n)), "{contender:?} {placed:?}");
    }
}

#[test]
fn who_does_not_count_what_he_decides_herds() {
    let busy = unique(1_000, Duration::ZERO, 9_000);
    let burst = (1..=160).map(|id| unique(id, 200 * MS, 1_000));
    let placed =
        run(&workload([busy].into_iter().chain(burst)), &fleet(2), &Contender::Reference, 1)
            .unwrap()
            .placed;
    assert!(placed.contains(&1), "{placed:?}");
}

#[test]
fn a_prefix_is_found_again_and_its_loss_counted() {
    let pair =
        workload([shared(1, 1_024, Duration::ZERO, 2_000), shared(2, 1_024, 900 * MS, 2_000)]);
    for name in ["default", "reference", "reference-ideal", "oracle"] {
        let outcome = run(&pair, &fleet(4), &Contender::named(name).unwrap(), 1).unwrap();
        assert_eq!(outcome.served[1].cached_tokens, 1_024, "{name}");
        assert_eq!((outcome.served[1].ttft, outcome.recomputed_tokens), (122 * MS, 0), "{name}");
    }
    let outcome = run(&pair, &fleet(4), &Contender::RoundRobin, 1).unwrap();
    assert_eq!((outcome.served[1].ttft, outcome.recomputed_tokens), (250 * MS, 1_024));
}

#[test]
fn the_same_run_twice_is_equal_also_beside_others() {
    let (workload, fleet) = (crowd(150), fleet(4));
    for contender in all() {
        let once = run(&workload, &fleet, &contender, 3).unwrap();
        let same = std::thread::scope(|scope| {
            let again = || run(&workload, &fleet, &contender, 3).unwrap();
            let threads = [scope.spawn(again), scope.spawn(again)];
            threads.map(|thread| thread.join().unwrap() == once)
        });
        assert_eq!(same, [true; 2], "{contender:?}");
        assert_eq!(once.served.len(), 150);
    }
}

#[test]
fn an_outage_loses_no_request_and_warms_no_cache() {
    let outage = Outage { pod: 0, from: 700 * MS, to: 1_500 * MS };
    let fleet = Fleet { outages: vec![outage], ..fleet(2) };
    let workload = crowd(120);
    for contender in all() {
        let outcome = run(&workload, &fleet, &contender, 1).unwrap();
        assert_eq!((outcome.served.len(), outcome.refused), (120, 0), "{contender:?}");
        let again = outcome.placed.iter().sum::<u64>() - 120;
        assert!(again > 0, "{contender:?}");
    }
}

#[test]
fn time_is_counted_from_the_first_arrival_and_nothing_goes_to_a_pod_that_is_gone() {
    let outage = Outage { pod: 0, from: 100 * MS, to: 10_000 * MS };
    let fleet = Fleet { outages: vec![outage], ..fleet(2) };
    let pair = workload([unique(1, Duration::ZERO, 1_000), unique(2, 5_000 * MS, 1_000)]);
    let outcome = run(&pair, &fleet, &Contender::RoundRobin, 1).unwrap();
    assert_eq!(ttfts(&outcome), [225 * MS, 125 * MS]);
    assert_eq!(outcome.placed, [1, 2]);
}

#[test]
fn without_a_pod_that_is_up_requests_are_refused() {
    let outage = Outage { pod: 0, from: Duration::ZERO, to: 1_000 * MS };
    let fleet = Fleet { outages: vec![outage], ..fleet(1) };
    let pair = workload([unique(1, 500 * MS, 1_000), unique(2, 1_000 * MS, 1_000)]);
    for contender in all() {
        let outcome = run(&pair, &fleet, &contender, 1).unwrap();
        assert_eq!((outcome.refused, outcome.served.len()), (1, 1), "{contender:?}");
    }
}

#[test]
fn what_no_cache_holds_is_left_out_and_what_does_not_count_is_not_counted() {
    let warming = Arrival { counts: false, ..unique(1, Duration::ZERO, 1_000) };
    let workload = workload([warming, unique(2, MS, 500_000), unique(3, MS, 1_000)]);
    let outcome = run(&workload, &fleet(1), &Contender::Configured(None), 1).unwrap();
    assert_eq!((outcome.left_out, outcome.served.len()), (1, 1));
    assert_eq!(outcome.placed, [1]);
}

#[test]
fn adapters_are_asked_for_by_name_and_their_loads_counted() {
    let with =
        |id, at, adapter| Arrival { adapter: Some(AdapterId(adapter)), ..unique(id, at, 640) };
    let requests = (0..40).map(|n| with(u64::from(n) + 1, MS * 400 * n, n % 2));
    let workload = workload(requests);
    let default = run(&workload, &fleet(4), &Contender::Configured(None), 1).unwrap();
    let random = run(&workload, &fleet(4), &Contender::Random, 1).unwrap();
    assert!(default.adapter_loads < random.adapter_loads, "{default:?}");
    assert_eq!(random.adapter_loads, 8, "each on each");
}
