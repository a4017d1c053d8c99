//! What objects say of requests: how urgent they are, which model they are for, and what a fault means.

use std::collections::{BTreeMap, HashMap};

use prost::Message as _;
use prost_types::value::Kind;
use prost_types::{Struct, Value};

use super::*;
use crate::pool::{Routes, Targets};
use crate::wire::Metadata;

const OBJECTIVE: &str = "x-llm-d-inference-objective";
const OLD_OBJECTIVE: &str = "x-gateway-inference-objective";
const REWRITE: &str = "x-llm-d-model-name-rewrite";
const CHAT_PATH: (&str, &str) = (":path", "/v1/chat/completions");

fn only(object: &str, target: &str) -> Option<Targets> {
    Targets::new(object, [(target, 1)])
}

/// A rig that knows an objective and a model with a priority, and a rule each for `m` and for all others.
fn rig(modes: (i32, i32)) -> Rig {
    let mut rig = Rig::new(modes.0, modes.1);
    rig.pool_hears(Event::Routes(Routes {
        objectives: [("batch".into(), -1), ("chat".into(), 2)].into(),
        models: [("m".into(), 7)].into(),
        exact: [("m".into(), only("canary", "m-v1").unwrap())].into(),
        any: only("others", "rest"),
    }));
    rig
}

/// A rig that has no rules.
fn objectives(modes: (i32, i32)) -> Rig {
    let mut rig = rig(modes);
    let routes = rig.pool.load().routes().as_ref().clone();
    rig.pool_hears(Event::Routes(Routes { exact: HashMap::new(), any: None, ..routes }));
    rig
}

/// The bytes that were sent on so far, forgotten then.
fn sent_on(rig: &mut Rig, kind: &str) -> String {
    let said = rig.said();
    let pieces = said.iter().filter_map(|word| word.strip_prefix(kind)?.strip_prefix(' '));
    pieces.map(|piece| piece.trim_start_matches('=')).collect()
}

fn placed(model: &str, target: &str, priority: i32) -> String {
    format!(
        "llm_d_epp_request_total{{fairness_id=\"default-flow\",model_name=\"{model}\",priority=\"{priority}\",\
         target_model_name=\"{target}\"}} 1"
    )
}

#[test]
fn an_objective_counts_with_and_without_a_body_that_can_be_read() {
    let objective = (OBJECTIVE, "chat");
    for (path, bodyless) in [("/v1/chat/completions", false), ("/up", false), ("/up", true)] {
        let mut rig = objectives((4, 4));
        rig.headers(&[(":path", path), objective], bodyless);
        if !bodyless {
            rig.body(CHAT, true);
        }
        let model = if path == "/up" { "" } else { "m" };
        assert!(rig.metric(&placed(model, model, 2)), "{path}");
    }
    let mut streamed = objectives((1, 1));
    streamed.headers(&[CHAT_PATH, objective], false);
    assert!(streamed.metric(&placed("", "", 2)));
}

#[test]
fn the_director_is_told_how_urgent_a_request_is() {
    let mut rig = objectives((4, 4));
    let headers = HttpHeaders {
        headers: Some(rig::map(&[(":path", "/any"), (OBJECTIVE, "batch")])),
        end_of_stream: true,
    };
    let message = ProcessingRequest {
        request: Some(Message::RequestHeaders(headers)),
        ..ProcessingRequest::default()
    };
    assert_eq!(rig.exchange.receive(message, clock::now()), Next::Decide);
    assert_eq!(rig.exchange.ask().unwrap().priority, -1);
}

#[test]
fn the_current_name_of_the_objective_wins_and_what_is_unknown_is_ordinary() {
    for (headers, priority) in [
        (&[(OLD_OBJECTIVE, "batch")][..], -1),
        (&[(OLD_OBJECTIVE, "batch"), (OBJECTIVE, "chat")], 2),
        (&[(OLD_OBJECTIVE, "batch"), (OBJECTIVE, "")], -1),
        (&[(OBJECTIVE, "unknown")], 0),
        (&[], 0),
    ] {
        let mut rig = objectives((4, 4));
        rig.headers(&[&[(":path", "/any")], headers].concat(), true);
        assert!(rig.metric(&placed("", "", priority)), "{headers:?}");
    }
}

// FR-045
#[test]
fn targets_of_latency_give_no_priority_whatever_they_say() {
    for value in ["9300000000000", "18446744073709551615", "-1", "1e9", "abc", "", " 200 "] {
        for name in ["x-llm-d-slo-ttft-ms", "x-slo-ttft-ms"] {
            let mut rig = objectives((4, 4));
            rig.headers(&[(":path", "/any"), (name, value)], true);
            assert!(rig.metric(&placed("", "", 0)), "{name}: {value}");
        }
    }
}

#[test]
fn a_request_without_an_objective_has_the_priority_of_the_model_that_its_client_names() {
    let mut rig = rig((4, 4));
    rig.chat().body(CHAT, true);
    assert!(rig.metric(&placed("m", "m-v1", 7)));
}

#[test]
fn a_refused_request_is_counted_under_its_priority() {
    let mut rig = objectives((4, 4));
    rig.headers(&[CHAT_PATH, (OBJECTIVE, "batch")], false).body("no", true);
    let line = "llm_d_epp_request_error_total{error_code=\"BadRequest\",fairness_id=\"default-flow\",\
                model_name=\"\",priority=\"-1\",target_model_name=\"\"} 1";
    assert!(rig.metric(line));
}

#[test]
fn a_rule_stands_over_the_header_and_an_exact_rule_over_the_one_for_all() {
    let mut rig = rig((4, 4));
    let header = [CHAT_PATH, (REWRITE, "forced"), ("content-length", "57")];
    rig.headers(&header, false).body(CHAT, true);
    let want = CHAT.replace("\"m\"", "\"m-v1\"");
    assert!(rig.said()[0].ends_with(" content-length"));
    rig.closed().headers(&header, false).body(CHAT, true);
    assert_eq!(sent_on(&mut rig, "RB"), want + "!");
    rig.closed().chat().body(&CHAT.replace("\"m\"", "\"x\""), true);
    assert_eq!(sent_on(&mut rig, "RB"), CHAT.replace("\"m\"", "\"rest\"") + "!");
    let counted = |object: &str, model: &str, target: &str, count: u32| {
        format!(
            "llm_d_epp_model_rewrite_decisions_total{{model_name=\"{model}\",model_rewrite_name=\"{object}\",\
             target_model=\"{target}\"}} {count}"
        )
    };
    assert!(rig.metric(&counted("canary", "m", "m-v1", 2)));
    assert!(rig.metric(&counted("others", "x", "rest", 1)));
}

#[test]
fn without_a_rule_the_header_counts() {
    let mut rig = objectives((4, 4));
    rig.headers(&[CHAT_PATH, (REWRITE, "forced")], false).body(CHAT, true);
    assert_eq!(sent_on(&mut rig, "RB"), CHAT.replace("\"m\"", "\"forced\"") + "!");
}

#[test]
fn a_rule_that_names_the_clients_own_model_changes_nothing_and_is_counted() {
    let mut rig = objectives((4, 4));
    let exact = [("m".into(), only("stable", "m").unwrap())].into();
    rig.pool_hears(Event::Routes(Routes { exact, ..Routes::default() }));
    rig.headers(&[CHAT_PATH, (REWRITE, "forced")], false).body(CHAT, true);
    assert_eq!(rig.said(), [PICKED, &format!("RB {CHAT}!")]);
    let page = rig.director.metrics().page().unwrap();
    assert!(page.contains("model_rewrite_name=\"stable\",target_model=\"m\"} 1"));
}

// FR-037
#[test]
fn the_rule_for_all_supplies_the_model_that_a_client_does_not_name() {
    let body = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
    let mut rig = rig((4, 4));
    rig.chat().body(body, true);
    assert_eq!(sent_on(&mut rig, "RB"), body.replacen('{', r#"{"model":"rest","#, 1) + "!");
    rig.answer(&[(":status", "200"), ("content-type", "application/json")], false).said();
    rig.answer_body(r#"{"model":"rest"}"#, true);
    assert_eq!(sent_on(&mut rig, "SB"), r#"{"model":"rest"}!"#, "no name to give back");
    assert_eq!(objectives((4, 4)).chat().body(body, true).said(), ["IM 400"]);
}

#[test]
fn targets_are_drawn_by_weight_from_the_identity_of_the_exchange() {
    let mut rig = rig((4, 4));
    let exact = [("m".into(), Targets::new("canary", [("a", 3), ("b", 1)]).unwrap())].into();
    rig.pool_hears(Event::Routes(Routes { exact, ..Routes::default() }));
    let mut rng = fastrand::Rng::with_seed(3);
    let mut first = 0;
    for _ in 0..1000 {
        let (director, settings) = (Arc::clone(&rig.director), Arc::clone(&rig.settings));
        rig.exchange = Exchange::new(director, settings, rng.u128(..));
        rig.chat().body(CHAT, true);
        first += usize::from(sent_on(&mut rig, "RB").contains(r#""model":"a""#));
        rig.closed();
    }
    assert!((690..810).contains(&first), "{first} of 1,000, should be 750");
}

#[test]
fn the_client_gets_its_name_back_from_a_stream_and_from_a_buffered_answer() {
    let mut rig = rig((4, 4));
    rig.chat().body(CHAT, true);
    rig.answer(&[(":status", "200"), ("content-type", "text/event-stream")], false).said();
    rig.answer_body("data: {\"model\":\"m-", false).answer_body("v1\"}\n\n", true);
    assert_eq!(sent_on(&mut rig, "SB"), "data: {\"model\":\"m\"}\n\n!");
    let mut buffered = self::rig((2, 2));
    buffered.chat().body(CHAT, true);
    let json = [(":status", "200"), ("content-type", "application/json"), ("content-length", "16")];
    buffered.answer(&json, false).said();
    assert_eq!(
        buffered.answer_body(r#"{"model":"m-v1"}"#, true).said(),
        [r#"SB content-length ={"model":"m"}"#]
    );
}

#[test]
fn a_body_into_which_no_name_can_be_put_keeps_its_own_and_that_is_counted() {
    let mut rig = rig((3, 0));
    let (half, _) = CHAT.split_at(40);
    rig.chat().body(half, false);
    assert_eq!(rig.said(), ["RH", "RB x-gateway-destination-endpoint"]);
    assert!(rig.metric(r#"lodesman_protocol_anomalies_total{kind="model_not_rewritable"} 1"#));
    assert!(rig.metric(&placed("m", "m", 7)));
    assert!(!rig.director.metrics().page().unwrap().contains("model_rewrite_decisions"));
}

#[test]
fn an_observer_rewrites_nothing() {
    let mut rig = rig((1, 1));
    rig.observed = true;
    rig.headers(&[CHAT_PATH, ("x-gateway-destination-endpoint", "10.0.0.2:8000")], false);
    rig.body(CHAT, true);
    let line = "llm_d_epp_request_running{fairness_id=\"default-flow\",model_name=\"m\",priority=\"7\",\
                target_model_name=\"m\"} 1";
    assert!(rig.metric(line));
    assert!(!rig.metric(r#"lodesman_protocol_anomalies_total{kind="model_not_rewritable"} 1"#));
}

#[test]
fn a_pool_that_fails_open_lets_the_gateway_go_on_before_its_endpoints_are_known() {
    let mut rig = Rig::with(0, |_| {});
    rig.pool_hears(Event::FailureMode(Some(FailureMode::FailOpen)));
    rig.headers(&[(":path", "/v1/models")], true);
    assert_eq!((rig.said().len(), rig.exchange.end()), (0, Some(End::Unavailable)));
    assert_eq!(
        rig.closed().chat().body(CHAT, true).said(),
        ["IM 503"],
        "it has no body to go on with"
    );
    rig.closed();
    rig.pool_hears(Event::FailureMode(Some(FailureMode::FailClose)));
    assert_eq!(rig.headers(&[(":path", "/v1/models")], true).said(), ["IM 503"]);
}

#[test]
fn who_served_is_reported_where_that_is_asked_for() {
    let report = |asked: bool, namespace: &str, key: &str| {
        let mut rig = Rig::with(3, |settings| settings.report_served = asked);
        rig.chat().body(CHAT, true).said();
        let served = Value { kind: Some(Kind::StringValue("10.0.0.2:8000".to_owned())) };
        let fields = Struct { fields: BTreeMap::from([(key.to_owned(), served)]) };
        let filter_metadata = HashMap::from([(namespace.to_owned(), fields)]);
        let headers = Some(rig::map(&[(":status", "200")]));
        rig.receive(ProcessingRequest {
            request: Some(Message::ResponseHeaders(HttpHeaders { headers, end_of_stream: true })),
            metadata_context: Metadata { filter_metadata }.encode_to_vec().into(),
            ..ProcessingRequest::default()
        });
        let Some(Response::ResponseHeaders(reply)) = rig.replies.last() else {
            panic!("{:?}", rig.replies)
        };
        let set = reply.response.as_ref().unwrap().header_mutation.as_ref();
        let header = set.and_then(|mutation| mutation.set_headers.first()?.header.as_ref());
        header.map(|header| {
            assert_eq!(header.key, "x-conformance-test-served-endpoint");
            String::from_utf8(header.raw_value.to_vec()).unwrap()
        })
    };
    let key = "x-gateway-destination-endpoint-served";
    assert_eq!(report(true, "envoy.lb", key).unwrap(), "10.0.0.2:8000");
    assert_eq!(report(true, "other", key).unwrap(), "fail: missing envoy lb metadata");
    assert_eq!(
        report(true, "envoy.lb", "other").unwrap(),
        "fail: missing destination endpoint served metadata"
    );
    assert_eq!(report(false, "envoy.lb", key), None);
}
