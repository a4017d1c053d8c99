//! What each API's bodies say, and what they may not say.

mod framed;
mod properties;

use super::*;

/// The result for a body that comes in pieces, and its prompt in writing: tokens in angle brackets, a bar between the
/// prompts of a batch.
fn scan_pieces<'a>(
    api: Option<Api>,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Result<Parsed, BodyError>, String) {
    let mut scan = Scan::new(api);
    let mut prompt = Vec::new();
    for piece in pieces {
        scan.feed(piece, &mut |part| match part {
            PromptPart::Text(text) | PromptPart::Lead(text) | PromptPart::Media(text) => {
                prompt.extend_from_slice(text);
            }
            PromptPart::Token(token) => prompt.extend_from_slice(format!("<{token}>").as_bytes()),
            PromptPart::Next => prompt.push(b'|'),
        });
    }
    (scan.finish(), String::from_utf8_lossy(&prompt).into_owned())
}

fn scan(api: Api, body: &str) -> (Parsed, String) {
    let (parsed, prompt) = scan_pieces(Some(api), [body.as_bytes()]);
    (parsed.unwrap_or_else(|error| panic!("{body}: {error}")), prompt)
}

fn error(api: Api, body: &str) -> BodyError {
    scan_pieces(Some(api), [body.as_bytes()]).0.expect_err(body)
}

fn model(parsed: &Parsed) -> Option<&str> {
    parsed.model.as_ref().map(|model| &*model.name)
}

// FR-030
#[test]
fn chat_is_read() {
    let body = r#"{"model":"m","stream":true,"max_tokens":9,"max_completion_tokens":7,"cache_salt":"s",
        "messages":[{"role":"system","content":"Be\nbrief."},{"role":"user","content":null}]}"#;
    let (parsed, prompt) = scan(Api::ChatCompletions, body);
    assert_eq!(model(&parsed), Some("m"));
    assert_eq!(parsed.insert_at, Some(1));
    assert_eq!((parsed.stream, parsed.output_cap), (true, Some(7)));
    assert_eq!(parsed.cache_salt.as_deref(), Some("s"));
    assert_eq!(prompt, "systemBe\nbrief.user");
    assert_eq!(parsed.prompt_tokens, 5);
    assert!(parsed.complete && parsed.reading == Reading::Read);
}

#[test]
fn content_blocks_are_read_and_unknown_ones_accepted() {
    let body = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"look "},
        {"type":"image_url","image_url":{"url":"http://x/y.png","detail":"low"}},
        {"type":"image_url","image_url":"bare"},{"type":"hologram","beam":[1,{"note":"odd"}]},7]}]}"#;
    let mut media = 0;
    let mut text = Vec::new();
    let mut scan = Scan::new(Some(Api::ChatCompletions));
    scan.feed(body.as_bytes(), &mut |part| match part {
        PromptPart::Text(part) => text.extend_from_slice(part),
        PromptPart::Media(part) => media += part.len(),
        PromptPart::Lead(_) | PromptPart::Token(_) | PromptPart::Next => panic!("{part:?}"),
    });
    assert_eq!(String::from_utf8_lossy(&text), "userlook odd");
    assert_eq!(media, 2 * 225 * 4);
    assert_eq!(scan.finish().unwrap().prompt_tokens, 3 + 225 + 225 + 1);
}

#[test]
fn same_image_has_the_same_stand_in_wherever_it_stands() {
    let prompt = |images: &[&str]| {
        let blocks: Vec<_> =
            images.iter().map(|url| format!(r#"{{"image_url":{{"url":"{url}"}}}}"#)).collect();
        let body = format!(r#"{{"messages":[{{"content":[{}]}}]}}"#, blocks.join(","));
        scan(Api::ChatCompletions, &body).1
    };
    assert_eq!(prompt(&["a", "b"]), prompt(&["a"]) + &prompt(&["b"]));
    assert_ne!(prompt(&["a"]), prompt(&["b"]));
}

#[test]
fn tools_are_read_as_they_stand() {
    let tools = r#"[{"type": "function", "name":"f\u0041"}]"#;
    let body = format!(r#"{{"tools": {tools},"messages":[{{"role":"user","content":"x"}}]}}"#);
    assert_eq!(scan(Api::ChatCompletions, &body).1, format!("{tools}userx"));
}

#[test]
fn chat_without_messages_is_rejected_by_name() {
    let api = Api::ChatCompletions;
    assert_eq!(error(api, r#"{"model":"m"}"#), BodyError::Missing { field: "messages" });
    assert_eq!(error(api, r#"{"messages":"hi"}"#), BodyError::Missing { field: "messages" });
    assert_eq!(error(api, r#"{"messages":[]}"#), BodyError::Empty { field: "messages" });
    let item = BodyError::Item { field: "messages", index: 1 };
    assert_eq!(error(api, r#"{"messages":[{"role":"user"},"hi"]}"#), item);
    assert_eq!(item.to_string(), "`messages[1]` has the wrong type");
}

// FR-031
#[test]
fn completions_take_every_form_of_prompt() {
    let prompt = |prompt: &str| {
        let (parsed, text) = scan(Api::Completions, &format!(r#"{{"prompt":{prompt}}}"#));
        (text, parsed.prompt_tokens)
    };
    assert_eq!(prompt(r#""hello""#), ("hello".into(), 2));
    assert_eq!(prompt(r#"["alpha","be"]"#), ("alpha|be".into(), 3));
    assert_eq!(prompt("[1,2,4294967295]"), ("<1><2><4294967295>".into(), 3));
    assert_eq!(prompt("[[1,2],[3]]"), ("<1><2>|<3>".into(), 3));
    let embeds = r#"{"prompt":null,"prompt_embeds":"AAAA"}"#;
    assert_eq!(scan(Api::Completions, embeds).1, "");
}

#[test]
fn completions_without_usable_prompt_are_rejected() {
    let error = |prompt: &str| error(Api::Completions, &format!(r#"{{"prompt":{prompt}}}"#));
    assert_eq!(error("null"), BodyError::Missing { field: "prompt" });
    assert_eq!(error("5"), BodyError::Missing { field: "prompt" });
    assert_eq!(error(r#""""#), BodyError::Empty { field: "prompt" });
    assert_eq!(error("[]"), BodyError::Empty { field: "prompt" });
    for mixed in [r#"["a",1]"#, r#"[1,"a"]"#, "[1,1.5]", "[1,-1]", "[1,4294967296]", "[1,null]"] {
        assert_eq!(error(mixed), BodyError::Item { field: "prompt", index: 1 }, "{mixed}");
    }
}

#[test]
fn last_of_duplicate_keys_wins() {
    let body =
        r#"{"model":"a","prompt":[1,"x"],"stream":true,"model":"b","prompt":"p","stream":1}"#;
    let (parsed, _) = scan(Api::Completions, body);
    let field = parsed.model.unwrap();
    assert_eq!(&*field.name, "b");
    let values: Vec<_> = field.spans.iter().map(|span| body.get(span.clone())).collect();
    assert_eq!(values, [Some(r#""a""#), Some(r#""b""#)]);
    assert!(!parsed.stream);
    let (parsed, _) = scan(Api::Completions, r#"{"model":"a","model":{"x":1},"prompt":"p"}"#);
    assert_eq!(parsed.model, None);
    error(Api::Completions, r#"{"prompt":"p","prompt":null}"#);
    assert_eq!(scan(Api::Completions, r#"{"prompt":[1],"prompt":["a","b"]}"#).1, "<1>a|b");
    let body = r#"{"prompt":"p","cache_salt":"s","max_tokens":1,"cache_salt":[],"max_tokens":"2"}"#;
    let (parsed, _) = scan(Api::Completions, body);
    assert_eq!((parsed.cache_salt, parsed.output_cap), (None, None));
}

// FR-030, FR-040
#[test]
fn explicit_nulls_and_wrong_types_of_options_are_ignored() {
    let body = r#"{"model":"m","prompt":"x","stream":null,"logprobs":null,"min_tokens":0,"max_tokens":null,
        "cache_salt":5,"tools":"none"}"#;
    let (parsed, _) = scan(Api::Completions, body);
    assert_eq!((parsed.stream, parsed.output_cap, parsed.cache_salt), (false, None, None));
    let (parsed, _) = scan(Api::Completions, r#"{"model":5,"prompt":"x","stream":"true"}"#);
    assert_eq!((parsed.model, parsed.stream), (None, false));
}

#[test]
fn output_cap_is_a_whole_number() {
    let cap = |caps: &str| {
        scan(Api::ChatCompletions, &format!(r#"{{{caps},"messages":[{{}}]}}"#)).0.output_cap
    };
    assert_eq!(cap(r#""max_tokens":0"#), Some(0));
    assert_eq!(cap(r#""max_tokens":1.0"#), Some(1));
    assert_eq!(cap(r#""max_tokens":1e3"#), Some(1000));
    assert_eq!(cap(r#""max_tokens":1.5"#), None);
    assert_eq!(cap(r#""max_tokens":-1"#), None);
    assert_eq!(cap(r#""max_tokens":99999999999999999999"#), None);
    assert_eq!(cap(r#""max_completion_tokens":1.5,"max_tokens":4"#), Some(4));
}

// FR-034
#[test]
fn responses_need_an_input() {
    let items = r#"{"input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}],
        "instructions":"be","max_output_tokens":3,"stream":true}"#;
    let (parsed, prompt) = scan(Api::Responses, items);
    assert_eq!(prompt, "userhibe");
    assert_eq!((parsed.output_cap, parsed.stream), (Some(3), true));
    assert_eq!(scan(Api::Responses, r#"{"input":"hi"}"#).1, "hi");
    assert_eq!(error(Api::Responses, r#"{"input":null}"#), BodyError::Missing { field: "input" });
    scan(Api::Responses, r#"{"prompt":{"id":"pmpt_1"}}"#);
}

// FR-033
#[test]
fn other_openai_bodies_need_what_they_cannot_do_without() {
    assert_eq!(scan(Api::Conversations, "{}").1, "");
    assert_eq!(error(Api::ImagesGenerations, "{}"), BodyError::Missing { field: "prompt" });
    assert_eq!(scan(Api::ImagesGenerations, r#"{"prompt":"a cat","n":2}"#).1, "");
    for input in [r#""a""#, r#"["a","b"]"#, "[1,2]", "[[1],[2]]"] {
        scan(Api::Embeddings, &format!(r#"{{"input":{input}}}"#));
    }
    assert_eq!(error(Api::Embeddings, "{}"), BodyError::Missing { field: "input" });
    assert_eq!(scan(Api::Embeddings, r#"{"messages":[{"content":"x"}]}"#).1, "x");
    let chat = r#"{"messages":[{"content":"x"}]}"#;
    assert_eq!(error(Api::Completions, chat), BodyError::Missing { field: "prompt" });
}

#[test]
fn anthropic_messages_are_read() {
    let body = r#"{"model":"m","max_tokens":5,"system":[{"type":"text","text":"sys"}],"messages":[
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"42"}]},
        {"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"a":1}}]}]}"#;
    let (parsed, prompt) = scan(Api::Messages, body);
    assert_eq!(prompt, r#"sysuser42assistantf{"a":1}"#);
    assert_eq!(parsed.output_cap, Some(5));
    assert_eq!(error(Api::Messages, r#"{"messages":[]}"#), BodyError::Empty { field: "messages" });
}

#[test]
fn media_hashes_tell_token_prompts_apart() {
    let prompt = |hash: &str| {
        let features = format!(
            r#"{{"mm_hashes":{{"image":["{hash}"]}},"mm_placeholders":{{"image":[{{"offset":0}}]}}}}"#
        );
        scan(Api::VllmGenerate, &format!(r#"{{"token_ids":[5],"features":{features}}}"#)).1
    };
    assert_eq!(prompt("a"), prompt("a"));
    assert_ne!(prompt("a"), prompt("b"));
}

#[test]
fn token_apis_are_read() {
    let vllm = r#"{"model":"m","token_ids":[5,6],"sampling_params":{"max_tokens":3}}"#;
    let (parsed, prompt) = scan(Api::VllmGenerate, vllm);
    assert_eq!((&*prompt, parsed.output_cap, parsed.prompt_tokens), ("<5><6>", Some(3), 2));
    let bad = BodyError::Item { field: "token_ids", index: 1 };
    assert_eq!(error(Api::VllmGenerate, r#"{"token_ids":[5,"6"]}"#), bad);
    let sglang = r#"{"input_ids":[5],"extra_key":"k","sampling_params":{"max_new_tokens":3}}"#;
    let (parsed, _) = scan(Api::SglangGenerate, sglang);
    assert_eq!((parsed.output_cap, parsed.cache_salt.as_deref()), (Some(3), Some("k")));
    assert_eq!(scan(Api::SglangGenerate, r#"{"text":["a","b"],"extra_key":1}"#).1, "a|b");
    let none = BodyError::Missing { field: "input_ids" };
    assert_eq!(error(Api::SglangGenerate, "{}"), none);
}

// FR-033
#[test]
fn only_the_model_is_read_of_other_apis() {
    let body = r#"{"model":"r","query":"q","documents":["a","b"],"messages":5,"stream":true}"#;
    let (parsed, prompt) = scan(Api::ModelOnly, body);
    assert_eq!((model(&parsed), &*prompt, parsed.stream), (Some("r"), "", false));
    assert_eq!(scan(Api::ModelOnly, "no JSON").0.reading, Reading::Opaque);
    assert_eq!(scan(Api::Passthrough, "no JSON").0.reading, Reading::Opaque);
}

#[test]
fn what_is_no_json_object_is_rejected_with_its_place() {
    let error = |body: &str| error(Api::Completions, body);
    assert_eq!(error("no healthy upstream"), BodyError::Syntax { at: 0 });
    assert_eq!(error(r#"{"prompt":"x",}"#), BodyError::Syntax { at: 14 });
    assert_eq!(error(r#"{"prompt":"x"} {"#), BodyError::Syntax { at: 15 });
    assert_eq!(error(r#"{"prompt":"\x"}"#), BodyError::Syntax { at: 12 });
    assert_eq!(error(r#"{"prompt":["x"}"#), BodyError::Syntax { at: 14 });
    assert_eq!(error(r#"{"prompt":"x""#), BodyError::Truncated { at: 13 });
    assert_eq!(error(""), BodyError::Truncated { at: 0 });
    assert_eq!(error("[1]"), BodyError::NotObject);
    assert_eq!(error("12"), BodyError::NotObject);
}

#[test]
fn escapes_mean_what_they_stand_for() {
    let body = r#"{"mod\u0065l":"a\/b\u00e9","prompt":"\ud83d\ude00\ud83d!\ude00\t\"\\"}"#;
    let (parsed, prompt) = scan(Api::Completions, body);
    assert_eq!(model(&parsed), Some("a/b\u{e9}"));
    assert_eq!(prompt, "\u{1f600}\u{fffd}!\u{fffd}\t\"\\");
}

#[test]
fn deep_nesting_is_opaque() {
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        scan(Api::Completions, &format!(r#"{{"model":"m","x":{open}{close},"prompt":"p"}}"#)).0
    };
    assert_eq!(nested(127).reading, Reading::Read);
    let deep = nested(128);
    assert_eq!((deep.reading, deep.model, deep.insert_at), (Reading::Opaque, None, None));
    assert_eq!(nested(10_000).reading, Reading::Opaque);
    // Beyond the depth nothing is looked at, not even whether it is JSON.
    assert_eq!(scan(Api::Completions, &"[{\"a\":".repeat(10_000)).0.reading, Reading::Opaque);
}

#[test]
fn api_is_guessed_where_no_path_was_seen() {
    let api = |body: &str| scan_pieces(None, [body.as_bytes()]).0.map(|parsed| parsed.api);
    assert_eq!(api(r#"{"messages":[{}]}"#), Ok(Api::ChatCompletions));
    assert_eq!(api(r#"{"prompt":"x"}"#), Ok(Api::Completions));
    assert_eq!(api(r#"{"input":"x"}"#), Ok(Api::Embeddings));
    assert_eq!(api(r#"{"input":"x","instructions":"y"}"#), Ok(Api::Responses));
    assert_eq!(api(r#"{"model":"x"}"#), Ok(Api::ModelOnly));
    assert_eq!(api("no healthy upstream"), Err(BodyError::Syntax { at: 0 }));
}

#[test]
fn truncated_body_says_what_was_seen() {
    let mut scan = Scan::new(Some(Api::ChatCompletions));
    scan.feed(br#"{"model":"m","messages":[{"content":"hel"#, &mut |_| ());
    let parsed = scan.finish_truncated();
    assert_eq!((model(&parsed), parsed.complete, parsed.prompt_tokens), (Some("m"), false, 1));
    let mut scan = Scan::new(Some(Api::ChatCompletions));
    scan.feed(b"nonsense", &mut |_| ());
    assert_eq!(scan.finish_truncated().reading, Reading::Opaque);
}

// FR-042
#[test]
fn encoded_body_is_not_read() {
    let mut scan = Scan::opaque();
    scan.feed(br#"{"model":"m"}"#, &mut |part| panic!("{part:?}"));
    let parsed = scan.finish().unwrap();
    assert_eq!((parsed.reading, parsed.model), (Reading::Opaque, None));
}

#[test]
fn endless_models_are_opaque() {
    let body = format!(r#"{{{}"prompt":"x"}}"#, r#""model":"m","#.repeat(1000));
    assert_eq!(scan(Api::Completions, &body).0.reading, Reading::Opaque);
    let body = format!(r#"{{"model":"{}","prompt":"x"}}"#, "m".repeat(5000));
    assert_eq!(scan(Api::Completions, &body).0.model, None);
}

#[test]
fn debug_shows_nothing_of_a_body() {
    assert_eq!(format!("{:?}", PromptPart::Text(b"secret")), "Text(6 bytes)");
    let mut scan = Scan::new(Some(Api::Completions));
    scan.feed(br#"{"cache_salt":"secret","prompt":"secret","secret"#, &mut |_| ());
    assert!(!format!("{scan:?}").contains("secret"));
    assert!(!format!("{:?}", scan.finish_truncated()).contains("secret"));
}
