//! What is remembered of prompts as requests pass.

use std::collections::{BTreeMap, HashMap};

use prost_types::value::Kind;
use prost_types::{Struct, Value};

use super::*;
use crate::prefix::{Index, Settings};
use crate::schedule::Headers;

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
        metadata_context: Some(Metadata { filter_metadata }),
        observability_mode: false,
        protocol_config: None,
    });
    assert_eq!(index.len(), 16, "on both");
}

#[test]
fn a_known_prompt_draws_requests_only_while_servers_can_be_seen_to_be_full() {
    let (seen, index) = rig();
    let mut hashing = index.hashing();
    hashing.feed(crate::request::PromptPart::Text(&[b'x'; 64_000]));
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
