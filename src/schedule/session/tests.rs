use std::time::Instant;

use serde_json::{Value, json};

use super::*;
use crate::pool::Snapshot;
use crate::schedule::fixture;
use crate::server::clock;

fn refused(raw: Value) -> String {
    Session::read(raw).unwrap_err().0
}

/// Sees a request with these headers at `now`.
fn with<T>(
    session: &Session,
    (snapshot, now): (&Snapshot, Instant),
    headers: &[(&str, &'static str)],
    see: impl FnOnce(PickContext<'_>) -> T,
) -> T {
    let mut asked = fixture::Asked::of(snapshot);
    asked.headers(&session.headers(), headers);
    see(asked.cx(now))
}

/// The position of the endpoint that the session has among all.
fn found(
    session: &Session,
    snapshot: &Snapshot,
    headers: &[(&str, &'static str)],
) -> Option<usize> {
    with(session, (snapshot, clock::now()), headers, |cx| {
        session.endpoint(cx, snapshot.ready()).map(Slot::index)
    })
}

#[test]
fn the_answer_names_the_endpoint_and_the_request_that_sends_it_back_finds_it() {
    let (snapshot, session) = (fixture::snapshot(3), Session::read(Value::Null).unwrap());
    let served = snapshot.endpoints().nth(1).unwrap();
    let (header, token) = session.answer_header(served).unwrap();
    assert_eq!((header, &*token), ("x-session-token", &b"ZGVmYXVsdC9wb2QtMQ=="[..]));
    let sent = |token| found(&session, &snapshot, &[("x-session-token", token)]);
    assert_eq!(sent("ZGVmYXVsdC9wb2QtMQ=="), Some(1));
    assert_eq!(sent(" ZGVmYXVsdC9wb2QtMQ== "), Some(1));
}

#[test]
fn what_does_not_decode_or_names_nobody_is_as_if_it_were_not_there() {
    let (snapshot, session) = (fixture::snapshot(2), Session::read(Value::Null).unwrap());
    let long: &'static str = Box::leak("A".repeat(1 << 20).into_boxed_str());
    for token in [
        "",
        "pod-1",
        "default/pod-1",
        "ZGVmYXVsdC9wb2QtMQ",
        "cG9kLTE=",
        "ZGVmYXVsdC9wb2QtOQ==",
        "b3RoZXIvcG9kLTE=",
        "/////w==",
        "é",
        long,
    ] {
        let short: String = token.chars().take(20).collect();
        assert_eq!(found(&session, &snapshot, &[("x-session-token", token)]), None, "{short}");
    }
    assert_eq!(found(&session, &snapshot, &[]), None);
}

#[test]
fn a_session_is_remembered_by_the_first_header_that_is_not_blank() {
    let sources = json!([{"header": "X-Chat"}, {"header": "x-session-id"}]);
    let raw = json!({"strategy": "session_id", "sessionIdConfig": {"sources": sources}});
    let (snapshot, session) = (fixture::snapshot(3), Session::read(raw).unwrap());
    let pods: Vec<_> = snapshot.endpoints().collect();
    with(&session, (&snapshot, clock::now()), &[("x-chat", " a ")], |cx| {
        session.placed(cx, snapshot.ready(), pods[2]);
    });
    let found = |headers: &[_]| found(&session, &snapshot, headers);
    assert_eq!(found(&[("x-chat", "a"), ("x-session-id", "b")]), Some(2));
    assert_eq!(found(&[("x-chat", " "), ("x-session-id", "a")]), Some(2));
    assert_eq!((found(&[("x-chat", "b")]), found(&[])), (None, None));
    assert!(session.answer_header(pods[0]).is_none());
}

#[test]
fn a_session_that_went_elsewhere_comes_back_unless_its_endpoint_was_no_candidate() {
    let raw = json!({"strategy": "session_id"});
    let (snapshot, session, now) =
        (fixture::snapshot(3), Session::read(raw).unwrap(), clock::now());
    let (all, pods): (_, Vec<_>) = (snapshot.ready(), snapshot.endpoints().collect());
    let placed = |candidates: &[Slot], at: usize, now| {
        with(&session, (&snapshot, now), &[("x-session-id", "s")], |cx| {
            session.placed(cx, candidates, pods[at]);
            session.endpoint(cx, all).map(Slot::index)
        })
    };
    assert_eq!(placed(all, 0, now), Some(0));
    assert_eq!(placed(all, 1, now), Some(0), "it was a candidate");
    assert_eq!(placed(&all[1..], 1, now), Some(1), "it was none");
    let minute = Duration::from_mins(1);
    assert_eq!(placed(all, 1, now + 4 * minute), Some(1));
    assert_eq!(placed(all, 0, now + 8 * minute), Some(1), "used 4 minutes ago");
    assert_eq!(placed(all, 0, now + 9 * minute), Some(0), "unused for 5 minutes");
}

#[test]
fn parameters_that_cannot_be_are_refused_by_name() {
    let sources = |sources: Value| json!({"sessionIdConfig": {"sources": sources}});
    let attribute = json!([{"attribute": "session", "producer": "p"}]);
    let two = json!([{"header": "a", "attribute": "b"}]);
    for (raw, want) in [
        (json!({"strategy": "cookie"}), "unknown variant `cookie`"),
        (json!({"encodedEndpointHeaderConfig": {"header": "a b"}}), "`a b` is no name of a header"),
        (sources(json!([])), "sources is empty"),
        (sources(json!([{}])), "give each a header"),
        (sources(two), "give each a header"),
        (sources(attribute), "there is one attribute, SessionID"),
        (
            json!({"sessionIdConfig": {"evictionTtlSeconds": 0}}),
            "evictionTtlSeconds is 0, give more",
        ),
        (json!({"sessionIdConfig": {"evictionSweepSeconds": -1}}), "evictionSweepSeconds is -1"),
        (json!({"sessionIdConfig": {"evictionTtlSeconds": 1e300}}), "give less"),
    ] {
        let error = refused(raw);
        assert!(error.contains(want), "{error}");
    }
}
