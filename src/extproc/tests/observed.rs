//! Streams of an observer: a filter in observability mode, which takes no replies.

use super::*;

const CHOSEN: [(&str, &str); 2] =
    [(":path", "/v1/chat/completions"), ("x-gateway-destination-endpoint", "10.0.0.2:8000")];

#[test]
fn an_observed_stream_gets_no_reply_and_is_accounted() {
    let mut rig = Rig::new(1, 1);
    rig.observed = true;
    rig.headers(&CHOSEN, false).body(CHAT, true);
    assert_eq!(rig.in_flight(), 1);
    rig.answer(&[(":status", "200"), ("content-type", "application/json")], false);
    rig.answer_body(r#"{"usage":{"prompt_tokens":9,"completion_tokens":3}}"#, true);
    assert!(rig.said().is_empty());
    assert_eq!(rig.outcome(), "ok");
    assert_eq!(rig.in_flight(), 0);
    assert!(rig.director.metrics().page().unwrap().contains("llm_d_epp_request_input_tokens_sum"));
}

#[test]
fn an_observer_that_is_sent_no_body_accounts_from_the_answer_on() {
    let mut rig = Rig::new(4, 4);
    (rig.observed, rig.modes) = (true, None);
    rig.headers(&CHOSEN, false);
    assert_eq!(rig.in_flight(), 0);
    rig.answer(&[(":status", "200"), ("content-type", "text/event-stream")], false);
    assert_eq!(rig.in_flight(), 1);
    assert_eq!(rig.outcome(), "unobserved");
    assert_eq!(rig.in_flight(), 0);
}

#[test]
fn the_prompt_that_an_observer_sees_is_to_be_computed_where_it_was_placed() {
    let mut rig = Rig::new(4, 4);
    rig.observed = true;
    rig.headers(&CHOSEN, false).body(CHAT, true);
    let expected = || {
        let pool = rig.pool.load();
        pool.endpoints().map(|it| it.live.outlook(clock::now()).prompts).sum::<f32>()
    };
    assert!((expected() - 1.0).abs() < f32::EPSILON, "{}", expected());
}

#[test]
fn a_request_is_counted_where_it_is_placed_and_not_where_it_is_observed() {
    let mut rig = Rig::new(4, 0);
    rig.chat().body(CHAT, true).closed();
    rig.observed = true;
    rig.headers(&CHOSEN, false).body(CHAT, true).answer(&[(":status", "200")], true).closed();
    let page = rig.director.metrics().page().unwrap();
    let line = page.lines().find(|line| line.starts_with("llm_d_epp_request_total{")).unwrap();
    assert!(line.ends_with(" 1"), "{line}");
}
