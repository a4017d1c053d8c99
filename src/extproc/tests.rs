//! Sequences of messages against one exchange and a pool of three; the golden transcripts over gRPC are in `tests/`.

use super::*;
use crate::pool::{Event, State};
use crate::server::clock;
use crate::wire::processing_response::Response;
use crate::wire::{HttpHeaders, ProcessingRequest};

use self::rig::{CHAT, Rig, word};

mod hold;
mod observed;
mod passed;
mod prefix;
mod rig;
mod routes;
mod sequences;
mod shed;
mod traced;
mod waiting;

const PICKED: &str = "RH x-gateway-destination-endpoint";

// FR-002
#[test]
fn full_duplex_holds_the_headers_until_the_body_is_read_and_sends_it_on_as_it_came() {
    let mut rig = Rig::new(4, 4);
    let (a, b) = CHAT.split_at(20);
    assert!(rig.chat().body(a, false).said().is_empty());
    assert_eq!(rig.body(b, true).said(), [PICKED, &format!("RB {a}"), &format!("RB {b}!")]);
    assert_eq!(rig.in_flight(), 1);
    assert_eq!(rig.answer(&[(":status", "200")], false).said(), ["SH"]);
    assert_eq!(rig.answer_body("{}", false).answer_body("", true).said(), ["SB {}", "SB !"]);
    assert_eq!(rig.outcome(), "ok");
    assert_eq!(rig.in_flight(), 0);
}

// FR-008
#[test]
fn an_empty_last_piece_ends_the_body_that_was_held() {
    let mut rig = Rig::new(4, 4);
    assert_eq!(
        rig.chat().body(CHAT, false).body("", true).said(),
        [PICKED, &format!("RB {CHAT}!")]
    );
}

// FR-008
#[test]
fn a_body_without_a_byte_is_as_good_as_none() {
    let mut rig = Rig::new(4, 4);
    rig.headers(&[(":path", "/v1/models"), (":method", "GET")], false).body("", true);
    assert_eq!(rig.said(), [PICKED, "RB !"]);
    assert_eq!(rig.answer(&[(":status", "200")], true).said(), ["SH"]);
    assert_eq!(rig.outcome(), "ok");
}

#[test]
fn a_body_that_ends_by_trailers_has_no_end_of_its_own() {
    let mut rig = Rig::new(4, 4);
    assert_eq!(
        rig.chat().body(CHAT, false).trailers().said(),
        [PICKED, &format!("RB {CHAT}"), "RT"]
    );
}

#[test]
fn a_request_without_a_body_is_placed_by_its_headers() {
    let mut rig = Rig::new(4, 4);
    assert_eq!(rig.headers(&[(":path", "/v1/models"), (":method", "GET")], true).said(), [PICKED]);
    assert_eq!(rig.answer(&[(":status", "204")], true).said(), ["SH"]);
    assert_eq!(rig.outcome(), "ok");
}

// FR-042
#[test]
fn a_body_that_nothing_reads_passes_piece_by_piece() {
    let mut rig = Rig::new(4, 4);
    assert_eq!(rig.headers(&[(":path", "/upload"), (":method", "POST")], false).said(), [PICKED]);
    assert_eq!(rig.body("a", false).body("b", true).said(), ["RB a", "RB b!"]);
    let encoded = [(":path", "/v1/completions"), (":method", "POST"), ("content-encoding", "gzip")];
    assert_eq!(
        Rig::new(4, 4).headers(&encoded, false).body("\x1f", true).said(),
        [PICKED, "RB \x1f!"]
    );
}

#[test]
fn without_a_fallback_parser_an_unclaimed_path_is_refused() {
    let mut rig =
        Rig::with(3, |settings| settings.parsers = Parsers::named("openai-parser").unwrap());
    assert_eq!(rig.headers(&[(":path", "/upload"), (":method", "POST")], false).said(), ["IM 400"]);
}

#[test]
fn buffered_answers_headers_at_once_and_decides_with_the_body() {
    for mode in [2, 3] {
        let mut rig = Rig::new(mode, 2);
        assert_eq!(rig.chat().said(), ["RH"]);
        assert_eq!(rig.body(CHAT, true).said(), ["RB x-gateway-destination-endpoint"]);
        assert_eq!(
            rig.answer(&[(":status", "200")], false).answer_body("{}", true).said(),
            ["SH", "SB"]
        );
        assert_eq!(rig.outcome(), "ok");
    }
}

#[test]
fn a_buffered_body_is_whole_whatever_its_end_says_and_trailers_follow() {
    let mut rig = Rig::new(2, 0);
    assert_eq!(
        rig.chat().body(CHAT, false).trailers().said(),
        ["RH", "RB x-gateway-destination-endpoint", "RT"]
    );
}

#[test]
fn a_truncated_body_is_placed_and_never_changed() {
    let mut rig = Rig::new(3, 0);
    let rewrite = [(":path", "/v1/chat/completions"), ("x-llm-d-model-name-rewrite", "other")];
    let (half, _) = CHAT.split_at(40);
    assert_eq!(
        rig.headers(&rewrite, false).body(half, false).said(),
        ["RH", "RB x-gateway-destination-endpoint"]
    );
}

#[test]
fn streamed_decides_by_headers_and_answers_every_piece_once() {
    let mut rig = Rig::new(1, 1);
    assert_eq!(rig.chat().said(), [PICKED]);
    assert_eq!(rig.body("a", false).body("b", true).said(), ["RB", "RB"]);
    assert_eq!(
        rig.answer(&[(":status", "200")], false)
            .answer_body("x", false)
            .answer_body("", true)
            .said(),
        ["SH", "SB", "SB"]
    );
}

#[test]
fn without_bodies_the_headers_decide() {
    let mut rig = Rig::new(0, 0);
    assert_eq!(rig.chat().said(), [PICKED]);
    assert_eq!(rig.answer(&[(":status", "200")], false).said(), ["SH"]);
    assert_eq!(rig.outcome(), "unobserved");
}

#[test]
fn a_gateway_that_says_nothing_of_modes_is_full_duplex() {
    let mut rig = Rig::new(0, 0);
    rig.modes = None;
    assert_eq!(rig.chat().body(CHAT, true).said().len(), 2);
}

#[test]
fn a_rewritten_model_goes_out_and_the_clients_name_comes_back() {
    let rewrite = [
        (":path", "/v1/chat/completions"),
        ("x-llm-d-model-name-rewrite", "other"),
        ("content-length", "57"),
    ];
    let mut rig = Rig::new(4, 4);
    let body = CHAT.replace("\"m\"", "\"other\"");
    let said = rig.headers(&rewrite, false).body(CHAT, true).said();
    assert_eq!(said[0], "RH x-gateway-destination-endpoint content-length");
    let sent: String = said[1..].iter().map(|word| word.trim_start_matches("RB ")).collect();
    assert_eq!(sent, format!("{body}!"));
    rig.answer(&[(":status", "200"), ("content-type", "application/json")], false).said();
    let back = rig.answer_body(r#"{"model":"oth"#, false).answer_body(r#"er","x":1}"#, true).said();
    let back: String = back.iter().map(|word| word.trim_start_matches("SB ")).collect();
    assert_eq!(back, r#"{"model":"m","x":1}!"#);
    let mut buffered = Rig::new(2, 2);
    let said = buffered.headers(&rewrite, false).body(CHAT, true).said();
    assert_eq!(said[1], format!("RB x-gateway-destination-endpoint content-length ={body}"));
}

#[test]
fn a_body_over_the_limit_is_refused_as_soon_as_it_is_known() {
    let mut rig = Rig::new(4, 4);
    rig.chat().body(&"x".repeat(999), false);
    assert_eq!(rig.said(), Vec::<String>::new());
    assert!(rig.settings.budget.used() >= 999);
    rig.body("yy", false);
    assert_eq!(rig.immediate().status.as_ref().unwrap().code, 413);
    assert_eq!((rig.exchange.end(), rig.settings.budget.used()), (Some(End::Ok), 0));
    assert_eq!(rig.outcome(), "rejected");
}

#[test]
fn bodies_beyond_the_budget_are_shed() {
    let mut rig = Rig::with(3, |settings| settings.budget = Budget::new(50));
    let (a, b) = CHAT.split_at(30);
    rig.chat().body(a, false).body(b, true);
    assert_eq!(rig.immediate().status.as_ref().unwrap().code, 429);
    assert_eq!(rig.outcome(), "shed");
}

#[test]
fn a_body_that_stops_coming_is_answered_408() {
    let mut rig = Rig::new(4, 4);
    rig.chat().body("{", false);
    assert_eq!(rig.exchange.patience(), Some(rig.settings.body_read_timeout));
    rig.exchange.lost_patience();
    assert!(
        matches!(rig.exchange.pop().unwrap().response, Some(Response::ImmediateResponse(im)) if im.status.unwrap().code == 408)
    );
}

#[test]
fn a_pool_that_is_not_known_yet_is_unavailable_and_an_empty_one_has_no_endpoints() {
    let mut rig = Rig::with(0, |_| {});
    assert_eq!(rig.chat().body(CHAT, true).said(), ["IM 503"]);
    let mut rig = Rig::with(1, |_| {});
    rig.pool.store(Arc::new({
        let mut state = State::new(Duration::ZERO);
        state.apply(Event::Endpoints(Vec::new()), clock::now());
        state.snapshot()
    }));
    assert_eq!(rig.chat().body(CHAT, true).said(), ["IM 503"]);
}

#[test]
fn a_second_end_of_stream_decides_nothing_again() {
    let mut rig = Rig::new(4, 4);
    assert_eq!(rig.chat().body(CHAT, true).body("", true).body("x", true).said().len(), 2);
    assert_eq!(rig.in_flight(), 1);
    assert!(rig.metric(r#"lodesman_protocol_anomalies_total{kind="duplicate_eos"} 1"#));
    assert!(rig.metric(r#"lodesman_protocol_anomalies_total{kind="body_after_eos"} 1"#));
}

#[test]
fn messages_without_content_are_survived() {
    let mut rig = Rig::new(4, 4);
    rig.receive(ProcessingRequest::default());
    rig.tell(Message::RequestHeaders(HttpHeaders { headers: None, end_of_stream: true }));
    rig.tell(Message::ResponseHeaders(HttpHeaders { headers: None, end_of_stream: false }));
    assert_eq!(
        rig.said(),
        [&format!("{PICKED} x-request-id"), "SH"],
        "an id is given where there is none"
    );
    assert!(rig.metric(r#"lodesman_protocol_anomalies_total{kind="unknown_message"} 1"#));
    assert!(rig.metric(r#"lodesman_protocol_anomalies_total{kind="no_header_map"} 2"#));
}

#[test]
fn a_stream_may_begin_with_the_answer() {
    let mut rig = Rig::new(4, 4);
    assert_eq!(
        rig.answer(&[(":status", "200")], false).answer_body("a", true).said(),
        ["SH", "SB a!"]
    );
    assert_eq!(Rig::new(4, 4).answer_body("a", false).answer_trailers().said(), ["SB a", "ST"]);
}

#[test]
fn a_client_that_goes_away_is_told_apart_from_a_gateway_that_half_closes() {
    let mut rig = Rig::new(4, 4);
    rig.chat().body(CHAT, true).answer(&[(":status", "200")], false).answer_body("x", false);
    assert_eq!(rig.outcome(), "client_disconnect");
    let mut rig = Rig::new(4, 4);
    rig.chat().body(CHAT, true);
    rig.exchange.half_closed();
    assert_eq!((rig.exchange.end(), rig.outcome().as_str()), (Some(End::Ok), "unobserved"));
    assert_eq!(rig.in_flight(), 0);
}

#[test]
fn the_error_class_of_the_answer_is_its_outcome() {
    for (status, outcome) in [("404", "upstream_4xx"), ("500", "upstream_5xx")] {
        let mut rig = Rig::new(4, 4);
        rig.chat().body(CHAT, true).answer(&[(":status", status)], true);
        assert_eq!(rig.outcome(), outcome);
    }
}

#[test]
fn a_fault_of_ours_is_answered_while_it_can_be_and_counted_as_ours() {
    let mut rig = Rig::new(4, 4);
    rig.chat().body("{", false);
    rig.exchange.failed();
    let reply = rig.exchange.pop().and_then(|reply| reply.response);
    assert_eq!(reply.as_ref().map(word).as_deref(), Some("IM 503"));
    assert_eq!(rig.outcome(), "epp_error");
    let mut rig = Rig::new(4, 4);
    rig.chat().body(CHAT, true);
    rig.exchange.failed();
    assert_eq!((rig.exchange.end(), rig.outcome().as_str()), (Some(End::Internal), "epp_error"));
    assert_eq!(rig.in_flight(), 0);
}

#[test]
fn a_gateway_that_buffers_may_take_its_time() {
    let mut rig = Rig::new(2, 2);
    assert_eq!(rig.chat().exchange.patience(), rig.settings.idle_timeout);
}

#[test]
fn the_status_counts_though_the_end_of_the_answer_is_not_seen() {
    let mut rig = Rig::new(4, 0);
    rig.chat().body(CHAT, true).answer(&[(":status", "502")], false);
    assert_eq!(rig.outcome(), "upstream_5xx");
}

#[test]
fn a_truncated_answer_is_not_changed() {
    let mut rig = Rig::new(4, 3);
    let rewrite = [(":path", "/v1/chat/completions"), ("x-llm-d-model-name-rewrite", "other")];
    rig.headers(&rewrite, false).body(CHAT, true).answer(&[(":status", "200")], false).said();
    assert_eq!(rig.answer_body(r#"{"model":"other","#, false).said(), ["SB"]);
}

#[test]
fn an_answer_that_is_not_to_be_looked_at_is_unobserved() {
    let mut rig = Rig::new(4, 4);
    let count = [(":path", "/v1/messages/count_tokens"), (":method", "POST")];
    rig.headers(&count, false).body("{}", true).answer(&[(":status", "200")], true);
    assert_eq!(rig.outcome(), "unobserved");
}

#[test]
fn metadata_that_cannot_be_read_may_have_been_a_hint_and_allows_nothing() {
    let mut rig = Rig::new(4, 4);
    let headers = Some(rig::map(&[(":path", "/v1/models")]));
    rig.receive(ProcessingRequest {
        request: Some(Message::RequestHeaders(HttpHeaders { headers, end_of_stream: true })),
        metadata_context: Bytes::from_static(b"\x0a\x07cut"),
        ..ProcessingRequest::default()
    });
    assert_eq!(rig.said(), ["IM 503"]);
    assert!(rig.metric("lodesman_protocol_anomalies_total{kind=\"malformed_metadata\"} 1"));
}
