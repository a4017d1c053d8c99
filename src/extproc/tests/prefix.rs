//! What is remembered of prompts as requests pass.

use std::collections::{BTreeMap, HashMap};

use prost::Message as _;
use prost_types::value::Kind;
use prost_types::{Struct, Value};

use super::*;
use crate::prefix::{Index, Settings};
use crate::schedule::Headers;
use crate::wire::Metadata;

const CHAT_PATH: [(&str, &str); 2] = [(":path", "/v1/chat/completions"), (":method", "POST")];

/// A rig whose director asks for prefixes, with an index of blocks of 64 tokens.
fn rig() -> (Rig, Arc<Index>) {
    let mut rig = Rig::with(3, |settings| settings.body_limit = 100_000);
    let index = Arc::new(Index::new(Settings::default(), 1));
    rig.fresh();
    rig.decides(|director, _| director.with_prefix(Arc::clone(&index)));
    (rig, index)
}

/// A chat of 8 blocks and a bit, with `more` after the prompt.
fn chat(model: &str, more: &str) -> String {
    let content = "x".repeat(2048);
    format!(r#"{{"messages":[{{"role":"user","content":"{content}"}}],"model":"{model}"{more}}}"#)
}

/// Blocks in the index after one more request, whose body comes in pieces of so many bytes.
fn after(rig: &mut Rig, index: &Index, body: &str, piece: usize) -> usize {
    rig.headers(&CHAT_PATH, false);
    for piece in body.as_bytes().chunks(piece) {
        rig.body(std::str::from_utf8(piece).unwrap(), false);
    }
    rig.body("", true).closed();
    index.len()
}

// FR-063
#[test]
fn a_prompt_is_known_however_its_body_is_cut_and_under_its_model_and_salt_alone() {
    let (mut rig, index) = rig();
    let plain = chat("m", "");
    for piece in [10_000, 7, 300] {
        assert_eq!(after(&mut rig, &index, &plain, piece), 8, "{piece}");
    }
    assert_eq!(after(&mut rig, &index, &chat("adapter", ""), 500), 16);
    assert_eq!(after(&mut rig, &index, &chat("m", r#","cache_salt":"a""#), 500), 24);
}

#[test]
fn a_prompt_is_known_under_the_model_that_is_asked_for() {
    let (mut rig, index) = rig();
    after(&mut rig, &index, &chat("m", ""), 500);
    let rewritten = [CHAT_PATH[0], CHAT_PATH[1], ("x-llm-d-model-name-rewrite", "m")];
    rig.headers(&rewritten, false).body(&chat("alias", ""), true).closed();
    assert_eq!(index.len(), 8);
}

#[test]
fn a_prompt_is_known_under_the_model_that_a_rule_names() {
    let (mut rig, index) = rig();
    after(&mut rig, &index, &chat("m", ""), 500);
    let any = crate::pool::Targets::new("rule", [("m", 1)]);
    rig.pool_hears(Event::Routes(crate::pool::Routes { any, ..Default::default() }));
    assert_eq!(after(&mut rig, &index, &chat("alias", ""), 500), 8);
}

#[test]
fn what_is_not_read_is_not_known() {
    let (mut rig, index) = rig();
    rig.headers(&[CHAT_PATH[0], CHAT_PATH[1], ("content-encoding", "br")], false);
    rig.body(&chat("m", ""), true).closed();
    rig.headers(&[(":path", "/v1/models"), (":method", "GET")], true).closed();
    assert!(index.is_empty());
}

#[test]
fn an_endpoint_that_served_instead_knows_the_prompt() {
    let (mut rig, index) = rig();
    rig.headers(&CHAT_PATH, false).body(&chat("m", ""), true);
    let chosen: Vec<_> = rig.pool.load().endpoints().map(|e| e.live.requests()).collect();
    let other = chosen.iter().position(|requests| *requests == 0).unwrap();
    let address = format!("10.0.0.{}:8000", other + 1);
    let served = Value { kind: Some(Kind::StringValue(address)) };
    let fields = BTreeMap::from([("x-gateway-destination-endpoint-served".to_owned(), served)]);
    let filter_metadata = HashMap::from([("envoy.lb".to_owned(), Struct { fields })]);
    let answer =
        HttpHeaders { headers: Some(rig::map(&[(":status", "200")])), end_of_stream: false };
    rig.receive(ProcessingRequest {
        request: Some(Message::ResponseHeaders(answer)),
        metadata_context: Metadata { filter_metadata }.encode_to_vec().into(),
        observability_mode: false,
        protocol_config: None,
    });
    assert_eq!(index.len(), 16, "on both");
}

#[test]
fn a_known_prompt_draws_requests_only_while_servers_can_be_seen_to_be_full() {
    let (seen, index) = rig();
    let mut hashing = index.hashing();
    hashing.feed(crate::request::PromptPart::Text(&vec![b'x'; 64_000]));
    let chain = hashing.end(None, None);
    let mut request = crate::request::Parsed::default();
    request.prompt_tokens = 16_000;
    let ask = Ask {
        request: &request,
        chain: &chain,
        headers: &Headers::default(),
        bodyless: false,
        model: None,
        priority: 0,
        subset: &Subset::All,
    };
    let most = |rig: &Rig| {
        let open: Vec<_> = (0..6).map(|dice| rig.director.decide(ask, dice).unwrap()).collect();
        let placed = rig.pool.load().endpoints().map(|e| e.live.requests()).max().unwrap();
        drop(open);
        placed
    };
    assert_eq!(most(&seen), 6, "all on one");
    let blind = Rig::with(3, |_| {});
    seen.pool.store(blind.pool.load_full());
    assert_eq!(most(&seen), 2, "evenly");
}

#[test]
fn the_share_of_the_prompt_in_the_chosen_cache_is_counted() {
    let (mut rig, index) = rig();
    after(&mut rig, &index, &chat("m", ""), 500);
    after(&mut rig, &index, &chat("m", ""), 500);
    let page = rig.director.metrics().page().unwrap();
    let labels = r#"{plugin_name="approx-prefix-cache-producer",plugin_type="approx-prefix-cache-producer"}"#;
    for line in [format!("hit_ratio_sum{labels} 1"), format!("hit_bytes_sum{labels} 2048")] {
        assert!(page.contains(&format!("llm_d_epp_prefix_indexer_{line}")), "{line}\n{page}");
    }
}

/// A page of metrics after a chat of 8 blocks was answered with this usage, under a path.
fn answered(path: &'static str, usage: &str) -> String {
    let (mut rig, _) = rig();
    for _ in 0..2 {
        rig.headers(&[(":path", path), (":method", "POST")], false).body(&chat("m", ""), true);
        rig.answer(&[(":status", "200"), ("content-type", "application/json")], false);
        rig.answer_body(&format!(r#"{{"usage":{usage}}}"#), true).closed();
    }
    rig.director.metrics().page().unwrap()
}

fn has(page: &str, line: &str) -> bool {
    let labels = r#"namespace="ns",pool="pool""#;
    page.contains(&line.replace("LABELS", labels))
}

#[test]
fn what_an_engine_says_of_its_cache_and_its_tokens_is_learnt() {
    let usage = r#"{"prompt_tokens":1024,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":512}}"#;
    let page = answered("/v1/chat/completions", usage);
    assert!(has(&page, "lodesman_prefix_actual_tokens_total{LABELS} 1024"), "{page}");
    assert!(!has(&page, "lodesman_prefix_predicted_tokens_total{LABELS} 0"), "{page}");
    let ratio = page.lines().find(|line| line.starts_with("lodesman_bytes_per_token{")).unwrap();
    let ratio: f64 = ratio.rsplit(' ').next().unwrap().parse().unwrap();
    assert!((2.0..4.0).contains(&ratio), "{ratio}");
}

#[test]
fn an_anthropic_prompt_is_what_was_cached_of_it_and_the_rest() {
    let parts = r#"{"input_tokens":24,"cache_read_input_tokens":1000,"output_tokens":1}"#;
    let whole = r#"{"input_tokens":1024,"output_tokens":1}"#;
    let ratio = |page: &str| {
        page.lines().find(|line| line.starts_with("lodesman_bytes_per_token{")).unwrap().to_owned()
    };
    assert_eq!(ratio(&answered("/v1/messages", parts)), ratio(&answered("/v1/messages", whole)));
}

#[test]
fn an_answer_that_is_an_error_teaches_nothing() {
    let (mut rig, _) = rig();
    rig.headers(&CHAT_PATH, false).body(&chat("m", ""), true);
    rig.answer(&[(":status", "500"), ("content-type", "application/json")], false);
    rig.answer_body(r#"{"usage":{"prompt_tokens":1024,"completion_tokens":1}}"#, true).closed();
    assert!(!rig.director.metrics().page().unwrap().contains("lodesman_bytes_per_token{"));
}

#[test]
fn tenants_share_a_prefix_unless_their_salts_differ() {
    let (mut rig, index) = rig();
    for tenant in ["a", "b"] {
        let headers = [CHAT_PATH[0], CHAT_PATH[1], ("x-llm-d-inference-fairness-id", tenant)];
        rig.headers(&headers, false).body(&chat("m", ""), true).closed();
        assert_eq!(index.len(), 8, "{tenant}");
    }
}
