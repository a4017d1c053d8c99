//! A load that grows: autoscalers are told before the target is missed.

use super::*;

const TARGET: Duration = Duration::from_secs(2);

/// The time that a replica takes to start, at least.
const AHEAD: Duration = Duration::from_secs(30);

/// Requests of 1,000 tokens and 50 tokens of answer whose rate grows from 1 to 16 a second: two pods bear 13.
fn ramp(length: f64, seed: u64) -> Workload {
    let (mut dice, mut at) = (fastrand::Rng::with_seed(seed), 0.0);
    let mut arrivals = Vec::new();
    while at < length {
        let rate = 1.0 + 15.0 * at / length;
        at -= (1.0 - dice.f64()).ln() / rate;
        let id = arrivals.len() as u64 + 1;
        let arrival = unique(id, Duration::from_secs_f64(at), 1_000);
        arrivals.push(Arrival { output_tokens: 50, ..arrival });
    }
    workload(arrivals)
}

/// When more than one in ten of the first tokens of the last 10 s were late; none of those that come later than that are.
fn missed(ramp: &Workload, outcome: &Outcome) -> Duration {
    let ttfts = ramp.arrivals.iter().zip(&outcome.served);
    let all: Vec<_> = ttfts.map(|(arrival, served)| (arrival.at, served.ttft)).collect();
    let late = |(end, _): &(Duration, Duration)| {
        let recent = all.iter().filter(|(at, _)| at <= end && *at + 10 * 1_000 * MS > *end);
        let (count, late) = recent.fold((0, 0), |(count, late), (_, ttft)| {
            (count + 1, late + usize::from(*ttft > TARGET))
        });
        late * 10 > count
    };
    all.iter().find(|one| late(one)).expect("two pods do not bear it").0
}

#[test]
fn more_replicas_are_recommended_half_a_minute_before_the_target_is_missed() {
    for (length, seed) in [(120.0, 1), (300.0, 2), (600.0, 3)] {
        let ramp = ramp(length, seed);
        let outcome = run(&ramp, &fleet(2), &Contender::Configured(None), seed).unwrap();
        assert_eq!(outcome.served.len(), ramp.arrivals.len());
        let missed = missed(&ramp, &outcome);
        let told = outcome.needed.iter().find(|(_, needed)| *needed > 2).expect("a third").0;
        assert!(told + AHEAD <= missed, "{length} s: told at {told:?}, missed at {missed:?}");
        let most = outcome.needed.iter().map(|(_, needed)| *needed).max();
        assert!((3..=5).contains(&most.unwrap()), "{:?}", outcome.needed);
        let shown = Figures::of(&outcome, RequestHit::Any).recommended_replicas;
        assert!((shown - f64::from(most.unwrap())).abs() < 0.1, "{shown}");
    }
}

#[test]
fn a_steady_load_that_two_bear_is_not_said_to_need_more() {
    let mut dice = fastrand::Rng::with_seed(4);
    let mut at = 0.0;
    let steady = workload((1..=2_400).map(|id| {
        at -= (1.0 - dice.f64()).ln() / 8.0;
        Arrival { output_tokens: 50, ..unique(id, Duration::from_secs_f64(at), 1_000) }
    }));
    let outcome = run(&steady, &fleet(2), &Contender::Configured(None), 4).unwrap();
    let beyond = outcome.needed.iter().filter(|(_, needed)| *needed > 2).count();
    assert_eq!(beyond, 0, "{:?}", outcome.needed);
}
