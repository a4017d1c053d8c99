//! Requests for a pool without endpoints wait for the first.

use std::collections::{BTreeMap, HashMap};
use std::task::{Context, Waker};

use prost::Message as _;
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};

use super::*;
use crate::extproc::*;
use crate::pool::EndpointSpec;
use crate::spans::Sampler;
use crate::wire::Metadata;

const WAIT: Duration = Duration::from_mins(1);

fn limits(max_requests: u32) -> flow::Limits {
    flow::Limits { max_wait: WAIT, max_requests, max_bytes: 10_000 }
}

/// A rig without endpoints.
fn rig(hold: Option<flow::Limits>) -> Rig {
    let mut rig = Rig::with(0, |settings| settings.hold = hold);
    rig.pool_hears(Event::Endpoints(Vec::new()));
    rig
}

fn appear(rig: &mut Rig) {
    rig.pool_hears(Event::Endpoints(vec![EndpointSpec {
        name: "pod-1".to_owned(),
        namespace: "default".to_owned(),
        uid: String::new(),
        address: ([10, 0, 0, 1], 8000).into(),
        other_ips: Vec::new(),
        labels: BTreeMap::new(),
    }]));
}

fn released(exchange: &mut Exchange) -> bool {
    exchange.released(&mut Context::from_waker(Waker::noop()))
}

/// Lets an exchange go that waits, and has it decided.
fn go(rig: &mut Rig) -> Vec<String> {
    rig.settings.flow.release(1, clock::now());
    assert!(released(&mut rig.exchange), "it is let go");
    let outcome = rig.exchange.decide(7).expect("asks");
    rig.exchange.decided(outcome, clock::now());
    let replies = std::iter::from_fn(|| rig.exchange.pop());
    replies.map(|reply| word(&reply.response.unwrap())).collect()
}

/// Whether one request that came without an endpoint has ended as this.
fn became(rig: &Rig, result: &str) -> bool {
    let page = rig.director.metrics().page().unwrap();
    let mut lines = page.lines().filter(|line| line.starts_with("lodesman_held_requests_total{"));
    lines.any(|line| line.ends_with(&format!("result=\"{result}\"}} 1")))
}

#[test]
fn without_the_setting_a_request_is_refused_at_once_and_counted_as_lacking() {
    let mut rig = rig(None);
    assert_eq!(rig.chat().body(CHAT, true).said(), ["IM 503"]);
    let counts = rig.settings.flow.counts();
    assert_eq!(counts, flow::Counts { held: 0, lacked: 1, refused: 1 });
}

#[test]
fn how_long_a_traced_request_waited_is_told_with_its_decision() {
    let mut rig = rig(Some(limits(10)));
    rig.exchange.track(Sampler::new(1.0, true));
    rig.chat().body(CHAT, true);
    appear(&mut rig);
    go(&mut rig);
    let tree = rig.spans().unwrap();
    let names: Vec<_> = tree.spans[1].attributes.iter().map(|(name, _)| *name).collect();
    assert_eq!(tree.spans[1].name, "gateway.request_orchestration");
    assert!(names.contains(&"llm_d.epp.decision.queue_wait_ms"), "{names:?}");
}

#[test]
fn a_request_waits_for_an_endpoint_and_goes_on_as_it_came() {
    let mut rig = rig(Some(limits(10)));
    assert_eq!(rig.chat().body(CHAT, true).said(), [""; 0]);
    assert_eq!(rig.exchange.patience(), Some(WAIT));
    assert!(!released(&mut rig.exchange) && rig.settings.budget.used() > 0);
    assert_eq!(rig.settings.flow.counts(), flow::Counts { held: 1, lacked: 1, refused: 0 });
    appear(&mut rig);
    assert_eq!(go(&mut rig), [PICKED, &format!("RB {CHAT}!")]);
    assert_eq!((rig.in_flight(), rig.settings.budget.used()), (1, 0));
    assert!(became(&rig, "released"));
    assert_eq!(rig.answer(&[(":status", "200")], true).said(), ["SH"]);
    assert_eq!(rig.outcome(), "ok");
}

#[test]
fn who_comes_while_others_wait_queues_behind_them() {
    let mut rig = rig(Some(limits(10)));
    rig.chat().body(CHAT, true);
    let next = Exchange::new(Arc::clone(&rig.director), Arc::clone(&rig.settings), 9);
    let mut first = std::mem::replace(&mut rig.exchange, next);
    appear(&mut rig);
    rig.modes = Some((4, 4));
    assert_eq!(rig.chat().body(CHAT, true).said(), [""; 0]);
    assert_eq!(rig.settings.flow.counts().held, 2);
    rig.settings.flow.release(1, clock::now());
    assert!(released(&mut first) && released(&mut rig.exchange), "the ramp lets both go");
}

// FR-159
#[test]
fn what_the_gateway_allowed_when_there_was_nothing_is_forgotten() {
    let mut rig = rig(Some(limits(10)));
    let list = Value { kind: Some(Kind::ListValue(ListValue { values: Vec::new() })) };
    let hint =
        Struct { fields: [("x-gateway-destination-endpoint-subset".to_owned(), list)].into() };
    let metadata =
        Metadata { filter_metadata: HashMap::from([("envoy.lb.subset_hint".to_owned(), hint)]) };
    rig.receive(ProcessingRequest {
        request: Some(Message::RequestHeaders(HttpHeaders {
            headers: Some(rig::map(&[(":path", "/v1/models"), (":method", "GET")])),
            end_of_stream: true,
        })),
        metadata_context: metadata.encode_to_vec().into(),
        observability_mode: false,
        protocol_config: None,
    });
    assert_eq!(rig.said(), [""; 0]);
    appear(&mut rig);
    let said = go(&mut rig);
    assert!(said[0].starts_with(PICKED), "{said:?}");
}

#[test]
fn a_body_that_is_not_read_is_kept_while_its_headers_wait() {
    let mut rig = rig(Some(limits(10)));
    let headers = [(":path", "/v1/chat/completions"), ("content-encoding", "br")];
    assert_eq!(rig.headers(&headers, false).body("one", false).body("two", false).said(), [""; 0]);
    appear(&mut rig);
    assert_eq!(go(&mut rig), [PICKED, "RB one", "RB two"]);
    assert_eq!(rig.body("three", true).said(), ["RB three!"]);
    let mut rig = self::rig(Some(limits(10)));
    rig.headers(&headers, false).body("one", true);
    appear(&mut rig);
    assert_eq!(go(&mut rig), [PICKED, "RB one!"]);
    let mut rig = self::rig(Some(limits(10)));
    assert_eq!(rig.headers(&headers, false).body(&"x".repeat(1001), false).said(), ["IM 413"]);
    assert_eq!((rig.settings.flow.counts().held, rig.settings.budget.used()), (0, 0));
}

#[test]
fn one_that_finds_the_endpoint_gone_again_waits_on_in_its_place() {
    let mut rig = rig(Some(limits(10)));
    rig.chat().body(CHAT, true);
    assert_eq!(go(&mut rig), [""; 0]);
    assert_eq!(rig.settings.flow.counts(), flow::Counts { held: 1, lacked: 1, refused: 0 });
    appear(&mut rig);
    assert_eq!(go(&mut rig).len(), 2);
}

#[test]
fn one_that_waits_in_vain_is_told_so() {
    let mut rig = rig(Some(limits(10)));
    rig.chat().body(CHAT, true);
    rig.exchange.lost_patience();
    let reply = rig.exchange.pop().unwrap();
    assert_eq!(word(reply.response.as_ref().unwrap()), "IM 503");
    assert_eq!(rig.exchange.end(), Some(End::Ok));
    assert!(became(&rig, "expired"));
    assert_eq!(rig.settings.flow.counts(), flow::Counts { held: 0, lacked: 1, refused: 1 });
}

// FR-080
#[test]
fn one_that_waits_while_the_picker_stops_goes_to_an_endpoint_or_is_told_so() {
    for (ready, told) in [(false, "IM 503"), (true, PICKED)] {
        let mut rig = rig(Some(limits(10)));
        rig.chat().body(CHAT, true);
        if ready {
            appear(&mut rig);
        }
        rig.settings.flow.close();
        assert_eq!(go(&mut rig)[0], told);
        assert_eq!(rig.settings.flow.counts().refused, u64::from(!ready));
    }
}

#[test]
fn a_gateway_that_says_no_more_hears_the_reply_and_then_the_end() {
    let mut rig = rig(Some(limits(10)));
    rig.chat().body(CHAT, true);
    rig.exchange.half_closed();
    assert_eq!(rig.exchange.end(), None);
    appear(&mut rig);
    assert_eq!(go(&mut rig).len(), 2);
    assert_eq!(rig.exchange.end(), Some(End::Ok));
}

// FR-072
#[test]
fn who_goes_away_leaves_the_queue_and_too_many_are_refused() {
    let mut rig = rig(Some(limits(1)));
    rig.chat().body(CHAT, true);
    let next = Exchange::new(Arc::clone(&rig.director), Arc::clone(&rig.settings), 9);
    let mut first = std::mem::replace(&mut rig.exchange, next);
    rig.modes = Some((4, 4));
    assert_eq!(rig.chat().body(CHAT, true).said(), ["IM 503"]);
    assert!(became(&rig, "full"));
    first.closed(clock::now());
    drop(first);
    assert_eq!(rig.settings.flow.counts().held, 0);
    assert!(became(&rig, "left"));
}

#[test]
fn the_gateway_is_told_how_long_a_request_waited() {
    let mut rig = Rig::with(0, |settings| {
        settings.hold = Some(limits(10));
        settings.summary_namespace = Some("ns".to_owned());
    });
    rig.pool_hears(Event::Endpoints(Vec::new()));
    rig.chat().body(CHAT, true);
    appear(&mut rig);
    rig.settings.flow.release(1, clock::now());
    assert!(released(&mut rig.exchange), "it is let go");
    let outcome = rig.exchange.decide(7).expect("asks");
    rig.exchange.decided(outcome, clock::now() + Duration::from_secs(2));
    rig.answer(&[(":status", "200")], true);
    let told = Struct::decode(rig.told.expect("the end").as_ref()).unwrap();
    let Some(Kind::StructValue(fields)) = &told.fields["ns"].kind else { panic!("{told:?}") };
    let Some(Kind::NumberValue(waited)) = fields.fields["queue_ms"].kind else {
        panic!("{fields:?}")
    };
    assert!((2_000.0..60_000.0).contains(&waited), "{waited} ms");
}
