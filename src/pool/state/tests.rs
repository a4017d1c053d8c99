use std::collections::BTreeMap;
use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::pool::{Adapters, Names, Reading, Standing};
use crate::server::clock;

const STALENESS: Duration = Duration::from_secs(2);

fn spec(n: u8) -> EndpointSpec {
    EndpointSpec {
        name: format!("pod-{n}"),
        namespace: "default".to_owned(),
        address: ([10, 0, 0, n], 8000).into(),
        labels: BTreeMap::new(),
        uid: String::new(),
        other_ips: Vec::new(),
    }
}

fn list(numbers: &[u8]) -> Event {
    Event::Endpoints(numbers.iter().copied().map(spec).collect())
}

fn id_of(snapshot: &Snapshot, n: u8) -> EndpointId {
    let slot = snapshot.by_address(spec(n).address).expect("in the pool");
    snapshot.endpoint(slot).expect("taken").id
}

fn scraped(id: EndpointId, waiting: f32, at: Instant) -> Event {
    let sample = Sample { waiting: Some(waiting), ..Sample::default() };
    Event::Scraped { id, sample, at, interval: Duration::from_millis(50) }
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
    state.apply(scraped(id, 3.0, now), now);
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
        state.apply(scraped(old, 9.0, now), now),
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
    state.apply(scraped(a, 1.0, now), now);
    let sample = Sample { waiting: Some(1.0), ..Sample::default() };
    state.apply(Event::Scraped { id: b, sample, at: now, interval: Duration::from_secs(1) }, now);
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

// FR-138
#[test]
fn a_pod_that_replaces_one_of_its_name_and_address_begins_cold() {
    let (mut state, now) = (State::new(STALENESS), clock::now());
    let pod = |uid: &str| Event::Endpoints(vec![EndpointSpec { uid: uid.to_owned(), ..spec(1) }]);
    state.apply(pod("a"), now);
    let old = id_of(&state.snapshot(), 1);
    state.apply(scraped(old, 3.0, now), now);
    assert_eq!(state.apply(pod("a"), now), Change::Nothing);
    assert_eq!(state.apply(pod("b"), now), Change::Members);
    let snapshot = state.snapshot();
    let new = id_of(&snapshot, 1);
    assert_ne!((new.slot, new.epoch), (old.slot, old.epoch));
    assert_eq!(snapshot.waiting(new.slot, now), Reading::Unknown);
    assert_eq!(snapshot.ready(), [new.slot]);
}

#[test]
fn an_endpoint_is_found_by_its_other_addresses_too_but_not_by_one_that_is_anothers_own() {
    let (mut state, now) = (State::new(STALENESS), clock::now());
    let other: IpAddr = "fd00::1".parse().unwrap();
    let dual = EndpointSpec { other_ips: vec![other, spec(2).address.ip()], ..spec(1) };
    state.apply(list(&[1, 2]), now);
    let before = id_of(&state.snapshot(), 1);
    assert_eq!(state.apply(Event::Endpoints(vec![dual, spec(2)]), now), Change::Members);
    let snapshot = state.snapshot();
    let [first, second] = [1, 2].map(|n| id_of(&snapshot, n));
    assert_eq!(first, before, "another address makes no other endpoint");
    assert_eq!(snapshot.by_address((other, 8000).into()), Some(first.slot));
    assert_eq!(snapshot.by_address((other, 8001).into()), None);
    assert_eq!(snapshot.by_address(spec(2).address), Some(second.slot));
    assert_eq!(snapshot.by_ip(other).collect::<Vec<_>>(), [first.slot]);
    let both: Vec<_> = snapshot.by_ip(spec(2).address.ip()).collect();
    assert_eq!(both, [first.slot, second.slot]);
}

// FR-137
#[test]
fn endpoints_beyond_the_number_of_slots_are_left_out() {
    let (mut state, now) = (State::new(STALENESS), clock::now());
    let spec = |n: u32| EndpointSpec {
        name: String::new(),
        address: (std::net::Ipv4Addr::from_bits(n), 8000).into(),
        ..spec(0)
    };
    let event = Event::Endpoints((0..70_000).map(spec).collect());
    assert_eq!(state.apply(event.clone(), now), Change::Members);
    assert_eq!(state.snapshot().ready().len(), 65_536);
    assert_eq!(state.apply(event, now), Change::Nothing);
    assert_eq!(state.left_out(), 70_000 - 65_536);
    state.apply(list(&[1]), now);
    assert_eq!(state.left_out(), 0);
}

// FR-137
#[test]
fn endpoints_that_all_change_at_once_again_and_again_find_slots() {
    let (mut state, now) = (State::new(STALENESS), clock::now());
    for round in 0..4 {
        let spec = |n: u32| EndpointSpec {
            address: (std::net::Ipv4Addr::from_bits(round << 16 | n), 8000).into(),
            ..spec(0)
        };
        state.apply(Event::Endpoints((0..30_000).map(spec).collect()), now);
        assert_eq!(state.snapshot().ready().len(), 30_000);
    }
}

#[test]
fn what_is_said_of_requests_and_faults_changes_only_with_its_content() {
    let (mut state, now) = (State::new(STALENESS), clock::now());
    let routes = Routes { objectives: [("batch".into(), -1)].into(), ..Routes::default() };
    assert_eq!(state.apply(Event::Routes(routes.clone()), now), Change::Load);
    assert_eq!(state.apply(Event::Routes(routes.clone()), now), Change::Nothing);
    let mode = Event::FailureMode(Some(FailureMode::FailOpen));
    assert_eq!(state.apply(mode.clone(), now), Change::Load);
    assert_eq!(state.apply(mode, now), Change::Nothing);
    state.apply(list(&[1]), now);
    let snapshot = state.snapshot();
    assert_eq!(
        (&**snapshot.routes(), snapshot.failure_mode()),
        (&routes, Some(FailureMode::FailOpen))
    );
}

fn names(names: &[&str]) -> Names {
    names.iter().copied().collect()
}

fn listed(id: EndpointId, base: &[&str], adapters: &[&str], at: Instant) -> Event {
    Event::Listed { id, models: Models { base: names(base), adapters: names(adapters) }, at }
}

#[test]
fn an_older_page_that_comes_late_changes_no_value() {
    let (mut state, now) = (State::new(STALENESS), clock::now());
    state.apply(list(&[1]), now);
    let id = id_of(&state.snapshot(), 1);
    assert_eq!(state.apply(scraped(id, 5.0, now), now), Change::Load);
    let before = now.checked_sub(Duration::from_millis(1)).unwrap();
    assert_eq!(state.apply(scraped(id, 9.0, before), now), Change::Nothing);
    assert_eq!(state.snapshot().waiting(id.slot, now), Reading::Fresh(5.0));
}

#[test]
fn the_capacity_of_a_cache_is_its_blocks_in_tokens_while_its_page_tells_both() {
    let (mut state, now) = (State::new(STALENESS), clock::now());
    state.apply(list(&[1]), now);
    let id = id_of(&state.snapshot(), 1);
    let mut tell = |block_size, blocks, later| {
        let sample = Sample { block_size, blocks, ..Sample::default() };
        let at = now + Duration::from_secs(later);
        state.apply(Event::Scraped { id, sample, at, interval: STALENESS }, at);
        let snapshot = state.snapshot();
        (snapshot.block_size(id.slot), snapshot.kv_capacity_tokens(id.slot))
    };
    assert_eq!(tell(Some(16), None, 1), (Some(16), None));
    let large = u64::from(u32::MAX) * 128;
    assert_eq!(tell(Some(128), Some(u32::MAX), 2), (Some(128), Some(large)));
}

#[test]
fn a_list_of_models_goes_with_its_endpoint_and_stands_over_the_names_of_series() {
    let (mut state, now) = (State::new(STALENESS), clock::now());
    state.apply(list(&[1]), now);
    let id = id_of(&state.snapshot(), 1);
    let sample = Sample { models: Some(Arc::new(names(&["llama"]))), ..Sample::default() };
    let page = Event::Scraped { id, sample, at: now, interval: STALENESS };
    state.apply(page, now);
    let serves = |state: &mut State, model| state.snapshot().serves(id.slot, model);
    assert_eq!(["llama", "alias"].map(|m| serves(&mut state, m)), [Some(true), None]);
    assert_eq!(state.apply(listed(id, &["llama", "alias"], &["sql"], now), now), Change::Load);
    assert_eq!(["alias", "sql"].map(|m| serves(&mut state, m)), [Some(true), Some(true)]);
    let later = now + Duration::from_secs(1);
    let same = listed(id, &["llama", "alias"], &["sql"], later);
    assert_eq!(state.apply(same, later), Change::Nothing);
    state.apply(list(&[]), later);
    assert_eq!(serves(&mut state, "llama"), None);
    assert_eq!(state.apply(listed(id, &["llama"], &[], later), later), Change::Nothing);
    assert!(state.lists.is_empty() && !state.snapshot().adapts("sql"));
}

/// All that a reader sees of a pool of the endpoints 1 to 3.
fn view(snapshot: &Snapshot, now: Instant) -> Vec<String> {
    let endpoint = |n| {
        let id = id_of(snapshot, n);
        let slot = id.slot;
        let standings = ["a", "b", "c"].map(|name| snapshot.standing(slot, name, now));
        let serves = ["a", "b", "c"].map(|name| snapshot.serves(slot, name));
        let numbers = (snapshot.waiting(slot, now), snapshot.kv_capacity_tokens(slot));
        let adapters = snapshot.adapters(slot, now);
        format!("{numbers:?} {adapters:?} {standings:?} {serves:?}")
    };
    (1..=3).map(endpoint).chain([format!("{:?}", ["a", "b"].map(|m| snapshot.adapts(m)))]).collect()
}

/// What endpoints may tell, at instants that are all different.
fn told() -> impl Strategy<Value = Vec<(u8, u8, Vec<&'static str>, Vec<&'static str>)>> {
    let some = || prop::sample::subsequence(vec!["a", "b", "c"], 0..3);
    prop::collection::vec((1..=3_u8, 0..3_u8, some(), some()), 0..12)
}

fn event(id: EndpointId, kind: u8, (some, more): (&[&str], &[&str]), at: Instant) -> Event {
    let models = Some(Arc::new(names(some)));
    let slots = Some(u32::try_from(more.len()).unwrap());
    let adapters = Adapters { running: names(some), waiting: names(more), slots };
    let sample = match kind {
        0 => return listed(id, some, more, at),
        1 => Sample { waiting: Some(some.len() as f32), models, ..Sample::default() },
        _ => Sample {
            adapters: Some(Arc::new(adapters)),
            block_size: Some(16),
            blocks: Some(u32::try_from(some.len()).unwrap() + 1),
            ..Sample::default()
        },
    };
    Event::Scraped { id, sample, at, interval: STALENESS }
}

#[test]
fn adapters_that_a_page_showed_are_remembered_whatever_came_first() {
    let (mut state, now) = (State::new(STALENESS), clock::now());
    state.apply(list(&[1]), now);
    let id = id_of(&state.snapshot(), 1);
    let later = now + Duration::from_secs(1);
    state.apply(event(id, 2, (&[], &["b", "c"]), later), later);
    state.apply(event(id, 2, (&["a"], &["b"]), now), later);
    assert_eq!(state.snapshot().standing(id.slot, "a", later), Some(Standing::Full));
    assert_eq!(state.snapshot().standing(id.slot, "b", later), Some(Standing::Resident));
}

/// One of few endpoints, of which some are the same, some at one address, some with an address of another family.
fn any_spec() -> impl Strategy<Value = EndpointSpec> {
    (1..12_u8, 0..2_u8, prop::option::of(0..4_u8)).prop_map(|(n, uid, other)| EndpointSpec {
        uid: uid.to_string(),
        other_ips: other.map(|n| [0xfd00, 0, 0, 0, 0, 0, 0, n.into()].into()).into_iter().collect(),
        ..spec(n)
    })
}

proptest! {
    #[test]
    fn what_is_told_in_any_order_gives_the_same_pool(
        told in told(), order in prop::collection::vec(any::<u32>(), 12),
    ) {
        let start = clock::now();
        let [mut straight, mut shuffled] = [State::new(STALENESS), State::new(STALENESS)];
        straight.apply(list(&[1, 2, 3]), start);
        shuffled.apply(list(&[1, 2, 3]), start);
        let snapshot = straight.snapshot();
        let mut events: Vec<_> = told.iter().enumerate().map(|(n, (endpoint, kind, some, more))| {
            let at = start + Duration::from_millis(u64::try_from(n).unwrap());
            (order[n], event(id_of(&snapshot, *endpoint), *kind, (some, more), at))
        }).collect();
        let now = start + Duration::from_millis(100);
        for (_, event) in &events { straight.apply(event.clone(), now); }
        events.sort_by_key(|(place, _)| *place);
        for (_, event) in events { shuffled.apply(event, now); }
        prop_assert_eq!(view(&straight.snapshot(), now), view(&shuffled.snapshot(), now));
    }

    // FR-078
    #[test]
    fn after_any_lists_the_pool_is_the_last_one_and_who_stays_keeps_its_identity(
        lists in prop::collection::vec(prop::collection::vec(any_spec(), 0..20), 1..20),
    ) {
        let (mut state, start) = (State::new(STALENESS), clock::now());
        let mut before: Vec<Arc<Endpoint>> = Vec::new();
        for (n, specs) in lists.iter().enumerate() {
            let now = start + Duration::from_secs(7) * u32::try_from(n).unwrap();
            state.apply(Event::Endpoints(specs.clone()), now);
            let snapshot = state.snapshot();
            let after: Vec<_> = snapshot.endpoints().cloned().collect();
            let mut want: Vec<EndpointSpec> = Vec::new();
            for spec in specs {
                if want.iter().all(|listed| listed.address != spec.address) {
                    want.push(spec.clone());
                }
            }
            let mut have: Vec<_> = after.iter().map(|endpoint| endpoint.spec.clone()).collect();
            have.sort_by_key(|spec| spec.address);
            want.sort_by_key(|spec| spec.address);
            prop_assert_eq!(have, want);
            prop_assert_eq!(snapshot.ready().len(), after.len());
            for endpoint in &after {
                let EndpointSpec { address, other_ips, .. } = &endpoint.spec;
                prop_assert_eq!(snapshot.by_address(*address), Some(endpoint.id.slot));
                for ip in other_ips.iter().copied().chain([address.ip()]) {
                    prop_assert!(snapshot.by_ip(ip).any(|slot| slot == endpoint.id.slot));
                    prop_assert!(snapshot.by_address((ip, address.port()).into()).is_some());
                }
                let stayed = before.iter().find(|old| old.spec.same(&endpoint.spec));
                let old = before.iter().find(|old| old.id == endpoint.id);
                prop_assert_eq!(stayed.map(|old| old.id), old.map(|old| old.id));
                prop_assert!(old.is_none_or(|old| Arc::ptr_eq(&old.live, &endpoint.live)));
            }
            before = after;
        }
    }
}
