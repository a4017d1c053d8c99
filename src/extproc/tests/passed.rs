//! What is to be recorded of requests.

use super::*;
use crate::prefix::{Index, Settings};
use crate::recording::{Blocks, Passed};

/// A rig whose director asks for prefixes.
fn rig() -> Rig {
    let mut rig = Rig::with(3, |settings| settings.body_limit = 100_000);
    rig.fresh();
    rig.decides(|director, _| director.with_prefix(Arc::new(Index::new(Settings::default(), 1))));
    rig
}

/// A chat of 8 blocks and a bit.
fn chat() -> String {
    let content = "x".repeat(2048);
    format!(r#"{{"messages":[{{"role":"user","content":"{content}"}}],"model":"m"}}"#)
}

fn passed(rig: &mut Rig) -> Option<Passed> {
    let ending = rig.exchange.closed(clock::now())?;
    rig.exchange.passed(ending)
}

#[test]
fn lengths_are_what_the_server_reports() {
    let mut rig = rig();
    rig.chat().body(&chat(), true);
    rig.answer(&[(":status", "200"), ("content-type", "application/json")], false);
    let usage = r#"{"prompt_tokens":700,"completion_tokens":30,"prompt_tokens_details":{"cached_tokens":64}}"#;
    rig.answer_body(&format!(r#"{{"usage":{usage}}}"#), true);
    let passed = passed(&mut rig).unwrap();
    let lengths = (passed.prompt_tokens, passed.output_tokens, passed.cached_tokens);
    assert_eq!(lengths, (700, 30, Some(64)));
    assert_eq!((passed.model.as_deref(), passed.outcome), (Some("m"), "ok"));
    assert_eq!((passed.chain.hashes().len(), passed.adapter), (8, false));
    assert_eq!(passed.blocks, Blocks::new(64, 2_048));
}

#[test]
fn lengths_that_nobody_reports_are_counted() {
    let mut rig = rig();
    rig.chat().body(&chat(), true);
    rig.answer(&[(":status", "200"), ("content-type", "text/event-stream")], false);
    for _ in 0..3 {
        rig.answer_body("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n", false);
    }
    let passed = passed(&mut rig).unwrap();
    assert!((512..520).contains(&passed.prompt_tokens), "{}", passed.prompt_tokens);
    assert_eq!((passed.output_tokens, passed.cached_tokens), (3, None));
    assert_eq!(passed.outcome, "client_disconnect");
}

#[test]
fn a_refused_request_is_told_with_its_prompt() {
    let mut rig = rig();
    rig.pool_hears(Event::Endpoints(Vec::new()));
    rig.chat().body(&chat(), true);
    let passed = passed(&mut rig).unwrap();
    assert_eq!((passed.model.as_deref(), passed.output_tokens), (Some("m"), 0));
    assert_eq!((passed.outcome, passed.chain.hashes().len()), ("rejected", 8));
}

#[test]
fn what_asks_for_no_tokens_or_is_told_by_another_stream_is_not_recorded() {
    let mut models = rig();
    models.headers(&[(":path", "/v1/models"), (":method", "GET")], true);
    models.answer(&[(":status", "200")], true);
    assert_eq!(passed(&mut models), None);
    let mut count = rig();
    count.headers(&[(":path", "/v1/messages/count_tokens"), (":method", "POST")], false);
    count.body(&chat(), true).answer(&[(":status", "200")], true);
    assert_eq!(passed(&mut count), None);
    let mut observer = rig();
    observer.observed = true;
    let chosen =
        [(":path", "/v1/chat/completions"), ("x-gateway-destination-endpoint", "10.0.0.1:8000")];
    observer.headers(&chosen, false).body(&chat(), true).answer(&[(":status", "200")], true);
    assert_eq!(passed(&mut observer), None);
    assert_eq!(passed(&mut rig()), None, "no headers came");
}
