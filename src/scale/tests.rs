//! The history over a pool that is played.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::pool::{
    Drain, EndpointSpec, Event, InFlight, Prompt, Sample, Selector, Snapshot, State,
};
use crate::scale::board::Aims;
use crate::scale::estimate::Goal;
use crate::scale::{Board, History, Metric, Query, Signals, Unplaced, WINDOW, Wanted};
use crate::server::clock;

const SECOND: Duration = Duration::from_secs(1);

const AIMS: Aims =
    Aims { goal: Goal { ttft: 2.0, utilization: 0.8 }, lead: Duration::from_mins(1) };

fn endpoint(n: u16) -> EndpointSpec {
    let [high, low] = n.to_be_bytes();
    EndpointSpec {
        name: n.to_string(),
        namespace: String::new(),
        uid: String::new(),
        address: ([10, 0, high, low], 80).into(),
        other_ips: Vec::new(),
        labels: BTreeMap::from([("variant".to_owned(), (n % 2).to_string())]),
    }
}

fn pool(count: u16) -> State {
    let mut state = State::new(Duration::from_secs(2));
    state.apply(Event::Endpoints((0..count).map(endpoint).collect()), clock::now());
    state
}

fn scraped(state: &mut State, slot: usize, sample: Sample, at: Instant) {
    let id = state.snapshot().endpoints().nth(slot).unwrap().id;
    state.apply(Event::Scraped { id, sample, at, interval: SECOND }, at);
}

fn busy(waiting: f32, running: f32, kv_usage: f32) -> Sample {
    Sample {
        waiting: Some(waiting),
        running: Some(running),
        kv_usage: Some(kv_usage),
        ..Sample::default()
    }
}

fn all(history: &History, now: Instant) -> Signals {
    history.signals(Wanted { window: WINDOW, counts: &|_| true, aims: AIMS }, now)
}

fn query(metric: Metric, variant: &str) -> Query {
    let variant = variant.parse::<Selector>().unwrap();
    Query { metric, target: 1.0, activation: 0.0, window: WINDOW, variant, model: None }
}

/// Requests of 1,000 tokens that are placed on the endpoints in turn and end at once.
fn pass(snapshot: &Snapshot, count: u64, at: Instant) {
    let endpoints: Vec<_> = snapshot.endpoints().collect();
    for n in 0..count {
        let live = &endpoints[usize::try_from(n).unwrap() % endpoints.len()].live;
        let prompt = Prompt { tokens: 1_000, at, streams: true, loads: false };
        let mut request = InFlight::begin(live, 1_000).computing(prompt);
        request.answered(at + SECOND / 4);
        request.told(200);
    }
}

// FR-161
#[test]
fn engines_say_what_waits_and_runs_whoever_sent_it() {
    let (mut state, now) = (pool(2), clock::now());
    scraped(&mut state, 0, busy(4.0, 10.0, 0.4), now);
    scraped(&mut state, 1, busy(6.0, 20.0, 0.2), now);
    let mut history = History::default();
    let unplaced = Unplaced { held: 5, lacked: 5, refused: 0 };
    let id = state.snapshot().endpoints().nth(1).unwrap().id;
    state.apply(Event::Drain { id, drain: Some(Drain::ordered()) }, now);
    history.look(&state.snapshot(), unplaced, now);
    let signals = all(&history, now);
    assert_eq!((signals.ready, signals.draining, signals.held), (1, 1, 5));
    assert_eq!((signals.queue, signals.running), (15.0, 30.0));
    // of the ready one: 0.4 for ten requests, and as much for each of the four that wait
    assert!((signals.kv_pressure - 0.56).abs() < 1e-6, "{signals:?}");
    assert!((signals.saturation - 0.8).abs() < 1e-6, "{signals:?}");
    assert!((signals.filled - 1.8).abs() < 1e-6, "five held are one full endpoint: {signals:?}");
    assert_eq!(signals.unmeasured, 0);
}

#[test]
fn an_endpoint_without_a_page_counts_by_what_we_have_there_and_is_told() {
    let (mut state, now) = (pool(2), clock::now());
    let snapshot = state.snapshot();
    let live = &snapshot.endpoints().next().unwrap().live;
    let _requests: Vec<_> = (0..3).map(|_| InFlight::begin(live, 10)).collect();
    let mut history = History::default();
    history.look(&snapshot, Unplaced::default(), now);
    let signals = all(&history, now);
    assert_eq!((signals.unmeasured, signals.running, signals.queue), (2, 3.0, 0.0));
}

#[test]
fn a_ramp_is_recommended_for_before_it_saturates_and_silence_needs_nobody() {
    let (mut state, mut now) = (pool(1), clock::now());
    let (snapshot, mut history) = (state.snapshot(), History::default());
    let mut first = None;
    for second in 0..300_u64 {
        pass(&snapshot, second / 50, now);
        now += SECOND;
        history.look(&snapshot, Unplaced::default(), now);
        let signals = all(&history, now);
        if signals.recommended > 1 && first.is_none() {
            first = Some(signals);
        }
    }
    let (first, last) = (first.expect("a second replica"), all(&history, now));
    assert!(first.requests < 0.8 * first.knee, "{first:?}");
    assert!(first.seconds_to_saturation > 30.0, "{first:?}");
    assert!(last.recommended >= 2 && (last.requests - 5.0).abs() < 0.5, "{last:?}");
    assert!((last.tokens - 6_000.0).abs() < 600.0, "{last:?}");
    assert!(last.queue_time.unwrap() > 0.0, "those behind the first wait: {last:?}");
    for _ in 0..=30 {
        now += SECOND;
        history.look(&snapshot, Unplaced::default(), now);
    }
    let silent = all(&history, now);
    assert_eq!((silent.recommended, silent.queue_time), (0, None));
    assert!(silent.seconds_to_saturation.is_infinite() && silent.knee > 1.0, "{silent:?}");
}

#[test]
fn the_traffic_of_others_needs_replicas_too() {
    let (mut state, mut now) = (pool(1), clock::now());
    let snapshot = state.snapshot();
    let live = &snapshot.endpoints().next().unwrap().live;
    let requests: Vec<_> = (0..10).map(|_| InFlight::begin(live, 10)).collect();
    let mut history = History::default();
    for _ in 0..30 {
        pass(&snapshot, 2, now);
        now += SECOND;
        scraped(&mut state, 0, busy(0.0, 32.25, 0.1), now);
        history.look(&state.snapshot(), Unplaced::default(), now);
    }
    drop(requests);
    let signals = all(&history, now);
    assert!((5.0..7.0).contains(&signals.requests), "two of three are of others: {signals:?}");
}

#[test]
fn the_first_request_for_an_empty_pool_is_work_at_once_and_for_a_window() {
    let (mut state, start) = (pool(0), clock::now());
    let (snapshot, board) = (state.snapshot(), Board::new(AIMS));
    let wanted = query(Metric::Queue, "");
    let look = |refused: u64, now| {
        let unplaced = Unplaced { held: 0, lacked: refused, refused };
        board.look(&snapshot, unplaced, now)
    };
    look(0, start);
    assert!(!board.active(&wanted, &snapshot, start));
    let mut changes = board.changes();
    changes.mark_unchanged();
    let came = start + SECOND / 2;
    board.lack(1, came);
    assert!(changes.has_changed().unwrap());
    assert!(board.active(&wanted, &snapshot, came));
    let choosy = Query { activation: 1.0, ..wanted.clone() };
    assert!(!board.active(&choosy, &snapshot, came), "one is not more than one");
    let signals = look(1, start + SECOND);
    assert_eq!(signals.recommended, 1);
    assert!(board.active(&wanted, &snapshot, start + WINDOW));
    look(1, start + WINDOW + SECOND * 2);
    assert!(!board.active(&wanted, &snapshot, start + WINDOW + SECOND * 2));
}

#[test]
fn requests_in_flight_are_work_however_long_they_take() {
    let (mut state, start) = (pool(1), clock::now());
    let (snapshot, board) = (state.snapshot(), Board::new(AIMS));
    let live = &snapshot.endpoints().next().unwrap().live;
    let request = InFlight::begin(live, 10);
    let later = start + Duration::from_hours(1);
    board.look(&snapshot, Unplaced::default(), later);
    assert!(board.active(&query(Metric::Queue, ""), &snapshot, later));
    drop(request);
    board.look(&snapshot, Unplaced::default(), later + SECOND);
    assert!(!board.active(&query(Metric::Queue, ""), &snapshot, later + SECOND));
}

#[test]
fn variants_are_told_apart_by_their_labels() {
    let (mut state, now) = (pool(4), clock::now());
    (0..4).for_each(|slot| scraped(&mut state, slot, busy(slot as f32, 1.0, 0.1), now));
    let (snapshot, board) = (state.snapshot(), Board::new(AIMS));
    board.look(&snapshot, Unplaced::default(), now);
    let queue = |variant: &str| board.value(&query(Metric::Queue, variant), &snapshot, now);
    assert_eq!((queue("variant=0"), queue("variant=1"), queue("")), (2.0, 4.0, 6.0));
    assert!(queue("variant=2").abs() < f64::EPSILON);
}

#[test]
fn a_pool_of_any_size_is_remembered_within_a_bound() {
    let (mut state, mut now) = (pool(5_000), clock::now());
    let (snapshot, mut history) = (state.snapshot(), History::default());
    for _ in 0..60 {
        now += SECOND;
        history.look(&snapshot, Unplaced::default(), now);
    }
    let looks = history.within(WINDOW).count();
    assert!((20..=26).contains(&looks), "{looks} looks at 5,000 endpoints");
    assert_eq!(all(&history, now).ready, 5_000);
}
