//! Usage and timing marks, from answers cut at every place.

use proptest::prelude::*;

use super::*;

mod framed;

const SSE: &[u8] = b"text/event-stream; charset=utf-8";
const JSON: &[u8] = b"application/json";
const RECORDED: &str = include_str!("../../../tests/data/vllm-chat-stream.sse");

/// Usage, events, and pieces with tokens.
fn read<'a>(
    api: Api,
    content_type: &[u8],
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Option<Usage>, u32, u32) {
    let mut reader = AnswerReader::new(api, content_type);
    let (mut events, mut tokens) = (0, 0);
    for piece in pieces {
        let seen = reader.feed(piece);
        events += seen.events;
        tokens += u32::from(seen.token);
    }
    (reader.usage(), events, tokens)
}

/// Reads the answer whole, in two pieces cut at every place, and byte by byte: usage and events are the same.
fn read_cut(api: Api, content_type: &[u8], answer: &str) -> (Option<Usage>, u32) {
    let answer = answer.as_bytes();
    let (usage, events, _) = read(api, content_type, [answer]);
    for cut in 0..=answer.len() {
        let (head, tail) = answer.split_at(cut);
        let (cut_usage, cut_events, _) = read(api, content_type, [head, tail]);
        assert_eq!((cut_usage, cut_events), (usage, events), "cut at {cut}");
    }
    let (bytes_usage, bytes_events, _) = read(api, content_type, answer.chunks(1));
    assert_eq!((bytes_usage, bytes_events), (usage, events));
    (usage, events)
}

fn usage(prompt: u64, completion: u64, total: u64, cached: Option<u64>) -> Usage {
    Usage { prompt, completion, total, cached }
}

fn json(answer: &str) -> Option<Usage> {
    read_cut(Api::ChatCompletions, JSON, answer).0
}

// FR-022
#[test]
fn recorded_stream_gives_usage_and_events() {
    let (found, events) = read_cut(Api::ChatCompletions, SSE, RECORDED);
    assert_eq!((found, events), (Some(usage(544, 5, 549, None)), 7));
    for end in ["\r\n", "\r"] {
        let answer = RECORDED.replace('\n', end).replace("data: ", "data:");
        assert_eq!(read_cut(Api::ChatCompletions, SSE, &answer), (found, events));
    }
}

#[test]
fn first_token_is_the_first_event_with_content() {
    let pieces: Vec<_> = RECORDED.split_inclusive("\n\n").map(str::as_bytes).collect();
    let mut reader = AnswerReader::new(Api::ChatCompletions, SSE);
    let seen: Vec<_> = pieces.iter().map(|piece| reader.feed(piece)).collect();
    assert_eq!(seen[0], Seen { events: 1, token: false }, "only a role");
    assert_eq!(seen[1], Seen { events: 1, token: true });
    assert_eq!(seen.last(), Some(&Seen { events: 0, token: false }), "the terminator");
    assert!(reader.streaming());
}

#[test]
fn content_is_known_in_every_form() {
    let content = |event: &str| {
        let answer = format!("data: {event}\n\n");
        read(Api::ChatCompletions, SSE, [answer.as_bytes()]).2 == 1
    };
    for event in [
        r#"{"choices":[{"delta":{"content":"x"}}]}"#,
        r#"{"choices":[{"delta":{"reasoning_content":"x"}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"call_1"}]}}]}"#,
        r#"{"choices":[{"text":"x"}]}"#,
        r#"{"choices":[{"index":0,"token_ids":[4]}]}"#,
        r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"x"}}"#,
        r#"{"type":"response.output_text.delta","delta":"x"}"#,
        r#"{"text":"x","meta_info":{}}"#,
    ] {
        assert!(content(event), "{event}");
    }
    for event in [
        r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#,
        r#"{"choices":[{"delta":{"content":null},"token_ids":null,"finish_reason":"stop"}]}"#,
        r#"{"type":"message_start","message":{"role":"assistant","content":[]}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
        "[DONE]",
        "no JSON",
    ] {
        assert!(!content(event), "{event}");
    }
}

#[test]
fn json_answers_give_usage_in_every_dialect() {
    let openai = r#"{"choices":[{"usage":{"prompt_tokens":9}}],"usage":{"prompt_tokens":7,"total_tokens":18,
        "completion_tokens":10,"prompt_tokens_details":{"cached_tokens":4}}}"#;
    assert_eq!(json(openai), Some(usage(7, 10, 18, Some(4))));
    let responses = r#"{"usage":{"input_tokens":7,"output_tokens":"10","input_tokens_details":{"cached_tokens":3},
        "prompt_tokens_details":{"cached_tokens":4},"total_tokens":null}}"#;
    assert_eq!(json(responses), Some(usage(7, 10, 17, Some(3))));
    let anthropic =
        r#"{"usage":{"input_tokens":7,"output_tokens":10,"cache_read_input_tokens":2}}"#;
    assert_eq!(json(anthropic), Some(usage(7, 10, 17, Some(2))));
    let sglang =
        r#"{"text":"x","meta_info":{"prompt_tokens":7,"completion_tokens":1,"cached_tokens":5}}"#;
    assert_eq!(json(sglang), Some(usage(7, 1, 8, Some(5))));
    assert_eq!(
        json(r#"{"usage":{"prompt_tokens":7,"total_tokens":7}}"#),
        Some(usage(7, 0, 7, None))
    );
    assert_eq!(json(r#"{"usage":{"total_tokens":56}}"#), Some(usage(0, 0, 56, None)));
}

#[test]
fn answers_without_usage_have_none() {
    for answer in [
        "{}",
        r#"{"usage":null}"#,
        r#"{"usage":{}}"#,
        "no JSON",
        r#"{"a":{"usage":{"prompt_tokens":1}}}"#,
    ] {
        assert_eq!(json(answer), None, "{answer}");
    }
    let skipped = read(Api::CountTokens, JSON, [&br#"{"usage":{"input_tokens":7}}"#[..]]);
    assert_eq!(skipped, (None, 0, 0));
    let other = read(Api::ChatCompletions, b"audio/wav", [&br#"{"usage":{"input_tokens":7}}"#[..]]);
    assert_eq!(other, (None, 0, 0));
}

// FR-020
#[test]
fn the_terminator_in_a_text_is_text() {
    let answer = "data: {\"choices\":[{\"delta\":{\"content\":\"say data: [DONE] now\"}}]}\n\n\
        data: {\"choices\":[{\"delta\":{\"content\":\"\\n\\ndata: [DONE]\\n\\n\"}}]}\n\n\
        data: [DONE] or not\n\ndata: {\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n";
    assert_eq!(read_cut(Api::ChatCompletions, SSE, answer), (Some(usage(7, 2, 9, None)), 4));
}

// FR-025
#[test]
fn usage_of_the_wrong_shape_is_absent_and_a_number_in_quotes_is_one() {
    for absent in [
        r#""oops""#,
        "7",
        "[1]",
        r#"{"prompt_token_details":0}"#,
        r#"{"prompt_tokens":-5}"#,
        r#"{"prompt_tokens":1e300}"#,
        r#"{"prompt_tokens":{"a":1}}"#,
        r#"{"prompt_tokens":"many"}"#,
    ] {
        assert_eq!(json(&format!(r#"{{"usage":{absent}}}"#)), None, "{absent}");
    }
    assert_eq!(json(r#"{"usage":{"prompt_tokens":"1024"}}"#), Some(usage(1024, 0, 1024, None)));
}

// FR-023
#[test]
fn halves_from_several_events_are_merged() {
    let answer = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":25,\
        \"cache_read_input_tokens\":5}}}\n\n: ping\n\nevent: message_delta\ndata: {\"usage\":{\"output_tokens\":15}}\n\n";
    assert_eq!(read_cut(Api::Messages, SSE, answer), (Some(usage(25, 15, 40, Some(5))), 2));
}

#[test]
fn usage_of_a_cut_event_does_not_count() {
    let answer =
        "data: {\"usage\":{\"prompt_tokens\":9\n\ndata: {\"usage\":{\"completion_tokens\":2}}\n\n";
    assert_eq!(read_cut(Api::ChatCompletions, SSE, answer), (Some(usage(0, 2, 2, None)), 2));
}

#[test]
fn last_of_continuous_usage_counts() {
    let event = |n: u32| {
        format!(
            r#"data: {{"usage":{{"prompt_tokens":7,"completion_tokens":{n},"total_tokens":{}}}}}"#,
            7 + n
        ) + "\n\n"
    };
    let answer: String = (1..=4).map(event).collect();
    assert_eq!(read_cut(Api::ChatCompletions, SSE, &answer), (Some(usage(7, 4, 11, None)), 4));
}

#[test]
fn responses_stream_has_usage_in_its_last_event() {
    for end in ["completed", "incomplete", "failed"] {
        let answer = format!(
            "data: {{\"type\":\"response.{end}\",\"response\":{{\"usage\":{{\"input_tokens\":3,\"output_tokens\":4}}}}}}\n\n"
        );
        assert_eq!(read_cut(Api::Responses, SSE, &answer), (Some(usage(3, 4, 7, None)), 1));
    }
}

#[test]
fn sglang_counts_once_finished() {
    let event = |n: u32, reason: &str| {
        format!(
            r#"data: {{"text":"x","meta_info":{{"prompt_tokens":7,"completion_tokens":{n},"finish_reason":{reason}}}}}"#
        ) + "\n\n"
    };
    let running = event(1, "null");
    assert_eq!(read_cut(Api::SglangGenerate, SSE, &running).0, None);
    let answer = running + &event(2, r#"{"type":"length"}"#);
    assert_eq!(read_cut(Api::SglangGenerate, SSE, &answer), (Some(usage(7, 2, 9, None)), 2));
}

#[test]
fn events_may_span_lines_or_lack_their_blank_line() {
    let spread =
        "data: {\"usage\":\ndata: {\"prompt_tokens\": 7,\ndata:\"completion_tokens\":1}}\n\n";
    assert_eq!(read_cut(Api::ChatCompletions, SSE, spread), (Some(usage(7, 1, 8, None)), 1));
    let joined = "data: {}\ndata: {\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":10,\"total_tokens\":17}}\n\
        data: [DONE]\n";
    assert_eq!(read_cut(Api::ChatCompletions, SSE, joined), (Some(usage(7, 10, 17, None)), 2));
    let unended = "data: {\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":1}}";
    assert_eq!(read_cut(Api::ChatCompletions, SSE, unended).0, Some(usage(7, 1, 8, None)));
}

#[test]
fn events_of_any_size_are_read() {
    let pad = "x".repeat(1 << 20);
    let answer = format!(
        "data: {{\"pad\":\"{pad}\",\"usage\":{{\"prompt_tokens\":7,\"completion_tokens\":1}}}}\n\n"
    );
    let pieces = answer.as_bytes().chunks(1000);
    assert_eq!(read(Api::ChatCompletions, SSE, pieces), (Some(usage(7, 1, 8, None)), 1, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    // FR-025
    #[test]
    fn garbage_is_survived(
        lines in prop::collection::vec(prop_oneof![
            Just("data: ".to_owned()), Just("\n".to_owned()), Just("\r".to_owned()), Just("[DONE]".to_owned()),
            Just("{\"usage\":{\"prompt_tokens\":1}}".to_owned()), "\\PC{0,9}", Just("\"choices\":[".to_owned()),
        ], 0..30),
        piece in 1_usize..9,
        content_type in prop::sample::select(vec![SSE, JSON, b"application/grpc"]),
        api in prop::sample::select(vec![Api::ChatCompletions, Api::VllmGrpcGenerate, Api::VllmGrpcEmbed]),
    ) {
        let answer = lines.concat();
        let (whole, events, _) = read(api, content_type, [answer.as_bytes()]);
        let (cut, cut_events, _) = read(api, content_type, answer.as_bytes().chunks(piece));
        prop_assert_eq!((whole, events), (cut, cut_events));
    }
}
