use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::pool::Reading;
use crate::server::clock;

const STALENESS: Duration = Duration::from_secs(2);

fn spec(n: u8) -> EndpointSpec {
    EndpointSpec {
        name: format!("pod-{n}"),
        namespace: "default".to_owned(),
        address: ([10, 0, 0, n], 8000).into(),
        labels: BTreeMap::new(),
    }
}

fn list(numbers: &[u8]) -> Event {
    Event::Endpoints(numbers.iter().copied().map(spec).collect())
}

fn id_of(snapshot: &Snapshot, n: u8) -> EndpointId {
    let slot = snapshot.by_address(spec(n).address).expect("in the pool");
    snapshot.endpoint(slot).expect("taken").id
}

fn scraped(id: EndpointId, waiting: f32) -> Event {
    let sample = Sample { waiting: Some(waiting), ..Sample::default() };
    Event::Scraped { id, sample, interval: Duration::from_millis(50) }
}

#[test]
fn a_pool_is_synced_by_its_first_list_even_when_that_is_empty() {
    let mut state = State::new(STALENESS);
    assert!(!state.snapshot().synced());
    assert_eq!(state.apply(list(&[]), clock::now()), Change::Members);
    assert!(state.snapshot().synced());
}

#[test]
fn an_endpoint_that_stays_keeps_its_slot_counts_and_sample() {
    let (mut state, now) = (State::new(STALENESS), clock::now());
    state.apply(list(&[1, 2]), now);
    let before = state.snapshot();
    let id = id_of(&before, 2);
    state.apply(scraped(id, 3.0), now);
    let _in_flight = crate::pool::InFlight::begin(&before.by_id(id).unwrap().live, 0);
    assert_eq!(state.apply(list(&[2, 3]), now), Change::Members);
    let after = state.snapshot();
    assert_eq!(id_of(&after, 2), id);
    assert_eq!(after.in_flight(id.slot), 1);
    assert_eq!(after.waiting(id.slot, now), Reading::Fresh(3.0));
    assert_eq!(state.apply(list(&[2, 3]), now), Change::Nothing);
}

#[test]
fn a_freed_slot_is_not_reused_within_the_quarantine_and_never_under_the_same_epoch() {
    let (mut state, now) = (State::new(STALENESS), clock::now());
    state.apply(list(&[1]), now);
    let old = id_of(&state.snapshot(), 1);
    state.apply(list(&[2]), now);
    assert_ne!(id_of(&state.snapshot(), 2).slot, old.slot);
    state.apply(list(&[2, 3]), now + QUARANTINE);
    let new = id_of(&state.snapshot(), 3);
    assert_eq!((new.slot, new.epoch == old.epoch), (old.slot, false));
    assert_eq!(
        state.apply(scraped(old, 9.0), now),
        Change::Nothing,
        "a late scrape of the old endpoint"
    );
    assert_eq!(state.snapshot().waiting(new.slot, now), Reading::Unknown);
}

#[test]
fn a_sample_is_stale_after_the_threshold_or_four_intervals() {
    let (mut state, now) = (State::new(STALENESS), clock::now());
    state.apply(list(&[1, 2]), now);
    let (a, b) = (id_of(&state.snapshot(), 1), id_of(&state.snapshot(), 2));
    state.apply(scraped(a, 1.0), now);
    let sample = Sample { waiting: Some(1.0), ..Sample::default() };
    state.apply(Event::Scraped { id: b, sample, interval: Duration::from_secs(1) }, now);
    let snapshot = state.snapshot();
    let later = now + Duration::from_secs(3);
    assert_eq!(snapshot.waiting(a.slot, later), Reading::Stale);
    assert_eq!(snapshot.waiting(b.slot, later), Reading::Fresh(1.0));
    assert_eq!(snapshot.kv_usage(b.slot, later), Reading::Unknown, "the page lacks it");
}

#[test]
fn two_endpoints_at_one_address_are_one() {
    let mut state = State::new(STALENESS);
    let mut twin = spec(1);
    twin.name = "twin".to_owned();
    state.apply(Event::Endpoints(vec![spec(1), twin]), clock::now());
    assert_eq!(state.snapshot().ready().len(), 1);
}

proptest! {
    #[test]
    fn after_any_lists_the_pool_is_the_last_one(lists in prop::collection::vec(prop::collection::vec(1..20_u8, 0..20), 1..20)) {
        let (mut state, start) = (State::new(STALENESS), clock::now());
        for (n, numbers) in lists.iter().enumerate() {
            state.apply(list(numbers), start + Duration::from_secs(7) * u32::try_from(n).unwrap());
            let snapshot = state.snapshot();
            let mut have: Vec<_> = snapshot.endpoints().map(|e| e.spec.address).collect();
            let mut want: Vec<_> = numbers.iter().map(|&n| spec(n).address).collect();
            have.sort();
            want.sort();
            want.dedup();
            prop_assert_eq!(have, want);
            prop_assert_eq!(snapshot.ready().len(), snapshot.endpoints().count());
            for endpoint in snapshot.endpoints() {
                prop_assert_eq!(snapshot.by_address(endpoint.spec.address), Some(endpoint.id.slot));
            }
        }
    }
}
