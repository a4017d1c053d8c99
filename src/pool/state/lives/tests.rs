use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::FutureExt as _;

use super::*;
use crate::pool::{Event, InFlight, Prompt, Remaining, Sample, Snapshot};
use crate::server::clock;

const SECOND: Duration = Duration::from_secs(1);

/// A pool of pods, each with one endpoint.
struct Pool {
    state: State,
    now: Instant,
}

impl Pool {
    fn of(pods: &[u8]) -> Self {
        let mut pool = Self { state: State::new(SECOND * 2), now: clock::now() };
        pool.list(pods);
        pool
    }

    fn list(&mut self, pods: &[u8]) -> Change {
        self.state.apply(Event::Endpoints(pods.iter().copied().map(spec).collect()), self.now)
    }

    /// The source tells of these pods that they leave, and whether they still serve.
    fn leaving(&mut self, pods: &[(u8, bool)]) -> Change {
        let drain = |serves| Drain { reason: Reason::PodDeleted, until: None, serves };
        let told = pods.iter().map(|(pod, serves)| (uid(*pod).into(), drain(*serves)));
        self.state.apply(Event::Drains(told.collect()), self.now)
    }

    fn order(&mut self, pod: u8, drain: Option<Drain>) -> Change {
        let id = self.id(pod);
        self.state.apply(Event::Drain { id, drain }, self.now)
    }

    fn pass(&mut self, time: Duration) -> Change {
        self.now += time;
        self.state.watch(self.now)
    }

    fn page(&mut self, pod: u8, waiting: f32, running: f32) {
        let sample = Sample { waiting: Some(waiting), running: Some(running), ..Sample::default() };
        let (id, at, interval) = (self.id(pod), self.now, SECOND / 20);
        self.state.apply(Event::Scraped { id, sample, at, interval }, at);
    }

    fn snapshot(&mut self) -> Snapshot {
        self.state.snapshot()
    }

    fn id(&mut self, pod: u8) -> EndpointId {
        let name = format!("{}-rank-0", uid(pod));
        let snapshot = self.snapshot();
        snapshot.named(&name).next().expect("in the pool").id
    }

    /// The pods that may be chosen.
    fn ready(&mut self) -> Vec<String> {
        let snapshot = self.snapshot();
        let names = snapshot.ready().iter().filter_map(|&slot| snapshot.endpoint(slot));
        names.map(|endpoint| endpoint.spec.uid.clone()).collect()
    }

    fn remaining(&mut self, pod: u8) -> Remaining {
        let id = self.id(pod);
        self.snapshot().remaining(id.slot, self.now).unwrap()
    }

    /// Where endpoints went since the last call.
    fn went(&mut self) -> Vec<String> {
        let word = |it: &Transition| {
            let pod = it.endpoint.trim_end_matches("-rank-0");
            format!("{pod}: {} {} {}", it.from.name(), it.to.name(), it.reason.name())
        };
        self.state.transitions().iter().map(word).collect()
    }
}

fn uid(pod: u8) -> String {
    format!("pod-{pod}")
}

fn spec(pod: u8) -> EndpointSpec {
    EndpointSpec {
        name: format!("{}-rank-0", uid(pod)),
        namespace: "default".to_owned(),
        address: ([10, 0, 0, pod], 8000).into(),
        labels: BTreeMap::new(),
        uid: uid(pod),
        other_ips: Vec::new(),
    }
}

#[test]
fn an_endpoint_warms_up_once_it_is_heard_of() {
    let mut pool = Pool::of(&[1, 2]);
    assert_eq!(pool.pass(SECOND), Change::Nothing);
    pool.page(1, 0.0, 0.0);
    assert_eq!(pool.pass(SECOND), Change::Load);
    pool.pass(SECOND * 30);
    assert_eq!(
        pool.went(),
        [
            "pod-1: new warming heard",
            "pod-1: warming ready warmed_up",
            "pod-2: new ready warmed_up"
        ]
    );
    pool.list(&[1]);
    assert_eq!(pool.went(), ["pod-2: ready gone removed"]);
}

#[test]
fn an_endpoint_is_looked_at_while_its_answer_comes_as_a_whole() {
    let mut pool = Pool::of(&[1]);
    let id = pool.id(1);
    let live = Arc::clone(&pool.snapshot().by_id(id).unwrap().live);
    let prompt = Prompt { tokens: 100, at: pool.now, streams: false, loads: false };
    let _request = InFlight::begin(&live, 100).computing(prompt);
    assert_eq!(pool.pass(SECOND), Change::Nothing, "and nothing waits for itself");
}

#[test]
fn an_endpoint_without_a_history_beside_others_gets_what_it_can_show_for() {
    let mut pool = Pool::of(&[1, 2]);
    let (first, slot) = (pool.id(1), pool.id(2).slot);
    let of = |snapshot: &Snapshot| Arc::clone(&snapshot.endpoint(slot).unwrap().live);
    let live = of(&pool.snapshot());
    let place = |now| {
        let prompt = Prompt { tokens: 100, at: now, streams: true, loads: false };
        InFlight::begin(&live, 100).computing(prompt)
    };
    let mut placed: Vec<_> = (0..4).map(|_| place(pool.now)).collect();
    let snapshot = pool.snapshot();
    assert!(!snapshot.ramps(), "all are new");
    let known = Arc::clone(&snapshot.by_id(first).unwrap().live);
    for _ in 0..3 {
        let prompt = Prompt { tokens: 8_000, at: pool.now, streams: true, loads: false };
        let mut request = InFlight::begin(&known, 8_000).computing(prompt);
        pool.now += SECOND;
        request.answered(pool.now);
    }
    pool.pass(SECOND);
    let snapshot = pool.snapshot();
    assert!(snapshot.ramps() && snapshot.has_room(first.slot) && !snapshot.has_room(slot));
    for request in &mut placed {
        request.answered(pool.now);
    }
    assert!(snapshot.has_room(slot), "it has shown something");
    placed.extend((0..8).map(|_| place(pool.now)));
    assert!(!snapshot.has_room(slot));
    pool.pass(SECOND * 30);
    let snapshot = pool.snapshot();
    assert!(!snapshot.ramps() && snapshot.has_room(slot), "it had the time");
}

#[test]
fn an_endpoint_that_drains_is_not_chosen_and_stays_known() {
    let mut pool = Pool::of(&[1, 2, 3]);
    assert_eq!(pool.leaving(&[(2, true)]), Change::Members);
    assert_eq!(pool.leaving(&[(2, true)]), Change::Nothing);
    assert_eq!(pool.ready(), ["pod-1", "pod-3"]);
    assert_eq!((pool.snapshot().endpoints().count(), pool.snapshot().in_service()), (3, 2));
    pool.order(3, Some(Drain::ordered()));
    assert_eq!(pool.ready(), ["pod-1"]);
    pool.leaving(&[]);
    pool.order(3, None);
    assert_eq!(pool.ready(), ["pod-1", "pod-2", "pod-3"]);
    assert_eq!(
        pool.went(),
        [
            "pod-2: new draining pod_deleted",
            "pod-3: new draining ordered",
            "pod-2: draining new drain_withdrawn",
            "pod-3: draining new drain_withdrawn"
        ]
    );
}

#[test]
fn a_pool_that_drains_as_a_whole_is_served_by_those_that_still_answer() {
    let mut pool = Pool::of(&[1, 2, 3]);
    pool.leaving(&[(1, true), (2, false), (3, true)]);
    assert_eq!(pool.ready(), ["pod-1", "pod-3"]);
    assert_eq!(pool.snapshot().in_service(), 0);
    pool.list(&[1, 2, 3, 4]);
    assert_eq!(pool.ready(), ["pod-4"]);
}

#[test]
fn a_pod_that_ends_and_answers_nobody_does_not_join() {
    let mut pool = Pool::of(&[]);
    pool.leaving(&[(1, false), (2, true)]);
    pool.list(&[1, 2]);
    assert_eq!(pool.ready(), ["pod-2"]);
    pool.leaving(&[(1, false), (2, false)]);
    assert_eq!(pool.snapshot().endpoints().count(), 1, "what was there stays");
}

#[test]
fn a_drain_ends_at_its_time_and_an_order_goes_with_its_endpoint() {
    let mut pool = Pool::of(&[1, 2]);
    let until = Some(pool.now + SECOND);
    pool.order(1, Some(Drain { until, ..Drain::ordered() }));
    assert_eq!(pool.ready(), ["pod-2"]);
    assert_eq!(pool.pass(SECOND), Change::Members);
    assert_eq!(pool.ready(), ["pod-1", "pod-2"]);
    pool.order(1, Some(Drain::ordered()));
    pool.list(&[2]);
    pool.list(&[1, 2]);
    assert_eq!(pool.ready(), ["pod-2", "pod-1"], "it is another one now");
}

#[test]
fn what_answers_errors_is_quarantined_until_it_rests() {
    let mut pool = Pool::of(&[1, 2]);
    let id = pool.id(1);
    let live = Arc::clone(&pool.snapshot().by_id(id).unwrap().live);
    (0..3).for_each(|_| InFlight::begin(&live, 1).answered_with(true, pool.now));
    assert_eq!(pool.pass(SECOND), Change::Load);
    pool.pass(SECOND * 5);
    assert!(live.held(), "no probe tells, so it rests for longer");
    pool.pass(SECOND * 5);
    assert_eq!(pool.went(), ["pod-1: new quarantined errors", "pod-1: quarantined new answers"]);
    assert!(!live.held());
}

#[test]
fn who_is_doubted_and_drains_is_doubted_again_when_the_drain_is_withdrawn() {
    let mut pool = Pool::of(&[1, 2]);
    let id = pool.id(1);
    let live = Arc::clone(&pool.snapshot().by_id(id).unwrap().live);
    let doubted = || std::pin::pin!(live.doubted()).as_mut().now_or_never().is_some();
    (0..3).for_each(|_| InFlight::begin(&live, 1).answered_with(true, pool.now));
    pool.pass(SECOND);
    assert!(doubted() && !doubted(), "once");
    pool.order(1, Some(Drain::ordered()));
    pool.pass(SECOND);
    assert!(!doubted());
    pool.order(1, None);
    pool.pass(SECOND);
    assert!(doubted(), "a probe is to tell");
}

// FR-120, FR-160
#[test]
fn drained_is_what_drains_and_has_nothing_left_by_both_counts() {
    let mut pool = Pool::of(&[1, 2]);
    let drained = |pool: &mut Pool| pool.remaining(1).drained;
    let id = pool.id(1);
    let live = Arc::clone(&pool.snapshot().by_id(id).unwrap().live);
    pool.page(1, 0.0, 0.0);
    pool.pass(SECOND);
    assert!(!drained(&mut pool), "it does not drain");
    let request = InFlight::begin(&live, 1);
    pool.order(1, Some(Drain::ordered()));
    pool.pass(SECOND);
    assert!(!drained(&mut pool), "ours runs");
    drop(request);
    assert!(!drained(&mut pool), "its page is older than the drain");
    for (waiting, running, done) in [(1.0, 0.0, false), (0.0, 2.0, false), (0.0, 0.0, true)] {
        pool.pass(SECOND);
        pool.page(1, waiting, running);
        assert_eq!(drained(&mut pool), done, "{waiting} {running}");
    }
    pool.pass(SECOND * 9);
    assert!(!drained(&mut pool), "its page is stale");
    live.reach(true);
    assert!(drained(&mut pool), "nobody is there");
    let told = pool.remaining(1).to_string();
    assert_eq!(told, "pod-1-rank-0: draining (ordered), drained");
}

#[test]
fn where_no_page_was_ever_read_only_our_own_requests_count() {
    let mut pool = Pool::of(&[1, 2]);
    pool.order(1, Some(Drain::ordered()));
    assert!(!pool.remaining(1).drained, "a decision may still be on its way");
    pool.pass(SECOND);
    assert!(pool.remaining(1).drained);
    let id = pool.id(1);
    let live = Arc::clone(&pool.snapshot().by_id(id).unwrap().live);
    let _request = InFlight::begin(&live, 1);
    assert_eq!(
        pool.remaining(1).to_string(),
        "pod-1-rank-0: draining (ordered), 1 of our requests in flight, its own count is not known"
    );
}

#[test]
fn endpoints_are_found_by_their_own_name_or_that_of_their_pod() {
    let mut pool = Pool::of(&[1, 11]);
    let snapshot = pool.snapshot();
    let found = |name: &str| {
        snapshot.named(name).map(|endpoint| endpoint.spec.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(found("pod-1"), ["pod-1-rank-0"]);
    assert_eq!(found("pod-11-rank-0"), ["pod-11-rank-0"]);
    assert_eq!(found("pod"), [""; 0]);
    assert_eq!(found("pod-1-rank-"), [""; 0]);
}

#[test]
fn who_drains_takes_nobodys_place_in_quarantine() {
    let mut pool = Pool::of(&[1, 2, 3, 4]);
    let snapshot = pool.snapshot();
    let lives: Vec<_> = snapshot.endpoints().map(|it| Arc::clone(&it.live)).collect();
    pool.order(1, Some(Drain::ordered()));
    pool.order(2, Some(Drain::ordered()));
    for live in &lives {
        (0..2).for_each(|_| live.probe_failed());
    }
    pool.pass(SECOND);
    let held: Vec<_> = lives.iter().map(|live| live.held()).collect();
    assert_eq!(held, [false, false, true, false], "half of those in service");
}

#[test]
fn half_of_the_pool_is_in_quarantine_at_most() {
    let mut pool = Pool::of(&[1, 2, 3]);
    let snapshot = pool.snapshot();
    let lives: Vec<_> = snapshot.endpoints().map(|it| Arc::clone(&it.live)).collect();
    for live in &lives[..2] {
        (0..2).for_each(|_| live.probe_failed());
    }
    pool.pass(SECOND);
    let held = || lives.iter().map(|live| live.held()).collect::<Vec<_>>();
    assert_eq!(held(), [true, false, false]);
    lives[0].proven();
    pool.pass(SECOND);
    assert_eq!(held(), [false, true, false]);
    lives[1].proven();
    pool.pass(SECOND);
    assert_eq!(
        pool.went(),
        [
            "pod-1: new quarantined no_token",
            "pod-1: quarantined warming answers",
            "pod-2: new quarantined no_token",
            "pod-2: quarantined warming answers"
        ]
    );
}
