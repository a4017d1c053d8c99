//! Restored answers, cut at every place, against a slow reference.

use proptest::prelude::*;

use super::*;

const SSE: &[u8] = b"text/event-stream";
const JSON: &[u8] = b"application/json";
const RECORDED: &str = include_str!("../../../tests/data/vllm-chat-stream.sse");

fn restore<'a>(
    content_type: &[u8],
    names: (&str, &str),
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> String {
    let mut restorer = ModelRestorer::new(names.0, names.1, content_type);
    let mut out = Vec::new();
    for piece in pieces {
        restorer.push(Bytes::copy_from_slice(piece), false, &mut out);
        let held: usize = restorer.held.iter().map(Bytes::len).sum();
        assert!(held <= 6 * names.0.len() + 16, "{held} bytes held");
    }
    restorer.push(Bytes::new(), true, &mut out);
    String::from_utf8_lossy(&out.concat()).into_owned()
}

/// Restores the answer whole, in two pieces cut at every place, and byte by byte.
fn restore_cut(content_type: &[u8], names: (&str, &str), answer: &str) -> String {
    let answer = answer.as_bytes();
    let whole = restore(content_type, names, [answer]);
    for cut in 0..=answer.len() {
        let (head, tail) = answer.split_at(cut);
        assert_eq!(restore(content_type, names, [head, tail]), whole, "cut at {cut}");
    }
    assert_eq!(restore(content_type, names, answer.chunks(1)), whole);
    whole
}

#[test]
fn recorded_stream_gets_the_new_name_in_every_event() {
    let restored = restore_cut(SSE, ("tiny", "a \"b\""), RECORDED);
    let expected = RECORDED.replace(r#""model":"tiny""#, r#""model":"a \"b\"""#);
    assert_eq!(restored, expected);
    assert_ne!(restored, RECORDED);
}

#[test]
fn only_top_level_models_of_json_are_restored() {
    let answer = r#" {"model" : "t", "x":{"model":"t"},"l":["model","t",{"model":"t"}],"response":{"model":"t"},
        "t":"model","model":"\u0074","model":"tt","text":"\"model\":\"t\""}"#;
    let expected = r#" {"model" : "n", "x":{"model":"t"},"l":["model","t",{"model":"t"}],"response":{"model":"t"},
        "t":"model","model":"n","model":"tt","text":"\"model\":\"t\""}"#;
    assert_eq!(restore_cut(JSON, ("t", "n"), answer), expected);
}

#[test]
fn envelopes_of_events_are_restored() {
    let answer = "event: response.created\r\ndata: {\"response\":{\"message\":{\"model\":\"t\"},\"model\":\"t\",\"x\":{\"model\":\"t\"}}}\r\n\r\n\
        data:{\"message\":{\"a\":[],\"model\":\"t\"},\"model\":\"t\",\"delta\":{\"model\":\"t\"}}\n\ndata: [DONE]\n\n";
    let expected = "event: response.created\r\ndata: {\"response\":{\"message\":{\"model\":\"t\"},\"model\":\"n\",\"x\":{\"model\":\"t\"}}}\r\n\r\n\
        data:{\"message\":{\"a\":[],\"model\":\"n\"},\"model\":\"n\",\"delta\":{\"model\":\"t\"}}\n\ndata: [DONE]\n\n";
    assert_eq!(restore_cut(SSE, ("t", "n"), answer), expected);
}

#[test]
fn what_is_no_answer_passes_unchanged() {
    for (content_type, answer) in [
        (JSON, r#"no JSON "model":"t""#),
        (JSON, r#"[{"model":"t"}]"#),
        (SSE, "data: no JSON \"model\":\"t\"\n\n: \"model\":\"t\"\n"),
        (SSE, "data: {\"model\":\"t\ndata: \"}\n\n"),
        (&b"text/plain"[..], r#"{"model":"t"}"#),
    ] {
        assert_eq!(restore_cut(content_type, ("t", "n"), answer), answer);
    }
    assert_eq!(restore_cut(JSON, ("t", "t"), r#"{"model":"t"}"#), r#"{"model":"t"}"#);
}

#[test]
fn longer_and_shorter_names_are_others() {
    let answer = r#"{"model":"tin","model":"tiny2","model":"","model":"tiny"}"#;
    let expected = r#"{"model":"tin","model":"tiny2","model":"","model":"n"}"#;
    assert_eq!(restore_cut(JSON, ("tiny", "n"), answer), expected);
}

#[test]
fn undecided_value_is_given_with_the_last_piece() {
    let mut restorer = ModelRestorer::new("long-name", "n", JSON);
    let mut out = Vec::new();
    restorer.push(Bytes::from_static(br#"{"model":"long-"#), false, &mut out);
    assert_eq!(out.concat(), br#"{"model":"#);
    restorer.push(Bytes::from_static(b"na"), true, &mut out);
    assert_eq!(out.concat(), br#"{"model":"long-na"#);
}

#[test]
fn broken_value_holds_nothing_back() {
    for answer in
        ["data: {\"model\":\"t\\x\n", "data: {\"model\":\"t\n\n", "data: {\"model\":\"t\\u0\n"]
    {
        let mut restorer = ModelRestorer::new("tt", "n", SSE);
        let mut out = Vec::new();
        restorer.push(Bytes::from(answer), false, &mut out);
        restorer.push(Bytes::from_static(b": comment\n"), false, &mut out);
        assert_eq!(out.concat(), format!("{answer}: comment\n").as_bytes());
    }
}

#[test]
fn unchanged_pieces_stay_slices() {
    let piece = Bytes::from_static(br#"{"choices":[]}"#);
    let mut out = Vec::new();
    ModelRestorer::new("a", "b", JSON).push(piece.clone(), true, &mut out);
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].as_ptr(), piece.as_ptr());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pieces_of_answers_are_restored_alike_however_cut(
        parts in prop::collection::vec(prop_oneof![
            Just("data: "), Just("\n"), Just("\n\n"), Just("\r"), Just("{\"model\":\"t\"}"), Just("{\"message\":"),
            Just("\"model\""), Just(":"), Just("\"t\""), Just("}"), Just(","), Just("["), Just("\\ud83d"), Just("\\x"), Just("\\u0"), Just("\"t"),
        ], 0..30),
        piece in 1_usize..9,
        content_type in prop::sample::select(vec![SSE, JSON]),
    ) {
        let answer = parts.concat();
        let whole = restore(content_type, ("t", "other"), [answer.as_bytes()]);
        prop_assert_eq!(&restore(content_type, ("t", "other"), answer.as_bytes().chunks(piece)), &whole);
        prop_assert_eq!(whole.replace("\"other\"", "\"t\""), answer);
    }
}
