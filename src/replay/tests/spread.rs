//! How the default policy spreads what comes one after another, and in waves.

use super::*;

const DEFAULT: Contender = Contender::Configured(None);

fn placed(arrivals: impl IntoIterator<Item = Arrival>, pods: usize) -> Vec<u64> {
    run(&workload(arrivals), &fleet(pods), &DEFAULT, 1).unwrap().placed
}

// FR-053
#[test]
fn prompts_that_nobody_knows_fill_all_caches_alike_though_they_come_one_by_one() {
    let at = |id: u64| MS * u32::try_from(id).unwrap() * 600;
    let placed = placed((1..=400).map(|id| unique(id, at(id), 3_000)), 4);
    assert!(placed.iter().all(|count| (70..=130).contains(count)), "{placed:?}");
}

// FR-057
#[test]
fn equal_prompts_one_by_one_go_where_the_first_went() {
    let at = |id: u64| MS * u32::try_from(id).unwrap() * 1_000;
    let mut placed = placed((1..=10).map(|id| shared(id, 1_000, at(id), 1_000)), 3);
    placed.sort_unstable();
    assert_eq!(placed, [0, 0, 10]);
}

/// Mean and 99th percentile of the time to the first token.
fn waits(waves: &Workload, contender: &Contender) -> (Duration, Duration) {
    let mut waits = ttfts(&run(waves, &fleet(8), contender, 1).unwrap());
    waits.sort_unstable();
    let count = u32::try_from(waits.len()).unwrap();
    (waits.iter().sum::<Duration>() / count, waits[waits.len() * 99 / 100])
}

// FR-049
#[test]
fn waves_of_equal_requests_wait_no_longer_than_by_the_count_of_requests() {
    let at = |id: u64| MS * u32::try_from((id - 1) / 100).unwrap() * 2_000;
    let wave = |id| Arrival { output_tokens: 50, ..unique(id, at(id), 1_000) };
    let waves = workload((1..=1_000).map(wave));
    let (ours, least) = (waits(&waves, &DEFAULT), waits(&waves, &Contender::LeastRequest));
    let slack = |wait: Duration| wait.mul_f64(1.02);
    assert!(ours.0 <= slack(least.0) && ours.1 <= slack(least.1), "{ours:?} against {least:?}");
}
