//! Requests of low priority, while nobody has room.

use super::*;
use crate::pool::{InFlight, Routes};

/// A rig whose three endpoints were never read, where the objective `batch` may be shed.
fn rig() -> Rig {
    let mut rig = Rig::new(4, 4);
    let objectives = [("batch".into(), -1), ("chat".into(), 1)].into();
    rig.pool_hears(Event::Routes(Routes { objectives, ..Routes::default() }));
    rig.decides(Director::with_admission);
    rig
}

/// As much in flight on every endpoint as it takes to be full.
fn fill(rig: &Rig) -> Vec<InFlight> {
    let pool = rig.pool.load();
    let begin = |_| pool.endpoints().map(|endpoint| InFlight::begin(&endpoint.live, 0));
    (0..100).flat_map(begin).collect()
}

fn post(objective: &str) -> [(&str, &str); 3] {
    [
        (":path", "/v1/chat/completions"),
        (":method", "POST"),
        ("x-llm-d-inference-objective", objective),
    ]
}

#[test]
fn a_sheddable_request_is_refused_with_429_and_why() {
    let mut rig = rig();
    let _in_flight = fill(&rig);
    rig.headers(&post("batch"), false).body(CHAT, true);
    let immediate = rig.immediate();
    assert_eq!(immediate.status.as_ref().unwrap().code, 429);
    assert_eq!(immediate.details, "lodesman_shed");
    let body: serde_json::Value = serde_json::from_slice(&immediate.body).unwrap();
    let message = "all endpoints are busy and the request is of low priority";
    assert_eq!(
        (&body["error"]["message"], &body["error"]["code"]),
        (&message.into(), &"shed".into())
    );
    let headers = immediate.headers.as_ref().unwrap().set_headers.iter();
    let headers = headers.filter_map(|option| option.header.as_ref());
    let told: Vec<_> = headers.map(|header| (&*header.key, &*header.raw_value)).collect();
    assert!(told.contains(&(b"x-llm-d-request-dropped-reason", b"rejected-saturated")));
    assert!(told.contains(&(b"retry-after", b"1")));
    assert_eq!(rig.outcome(), "shed");
}

#[test]
fn a_body_makes_no_difference_and_a_priority_of_zero_or_more_is_placed() {
    let mut rig = rig();
    let in_flight = fill(&rig);
    rig.headers(&[(":path", "/v1/models"), post("batch")[2]], true);
    assert_eq!(rig.immediate().status.as_ref().unwrap().code, 429);
    for objective in ["chat", "unknown"] {
        rig.closed().headers(&post(objective), false).body(CHAT, true);
        assert!(rig.said().last().unwrap().starts_with("RB"), "{objective}");
    }
    drop(in_flight);
    rig.closed().headers(&post("batch"), false).body(CHAT, true);
    assert!(rig.said().last().unwrap().starts_with("RB"), "there is room again");
}
