//! The scan against a slow reference, on bodies of any form, cut anywhere.

use std::fmt::Write;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;

/// All APIs that read bodies, and no path.
const APIS: [Option<Api>; 15] = [
    None,
    Some(Api::ChatCompletions),
    Some(Api::Completions),
    Some(Api::Embeddings),
    Some(Api::Responses),
    Some(Api::Conversations),
    Some(Api::ImagesGenerations),
    Some(Api::Messages),
    Some(Api::VllmGenerate),
    Some(Api::SglangGenerate),
    Some(Api::ModelOnly),
    Some(Api::VllmGrpcGenerate),
    Some(Api::VllmGrpcEmbed),
    Some(Api::VertexChat),
    Some(Api::VertexRaw),
];

fn key() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "model",
        "stream",
        "max_tokens",
        "prompt",
        "messages",
        "content",
        "role",
        "input",
        "tools",
        "text",
        "image_url",
        "url",
        "cache_salt",
        "token_ids",
        "usage",
    ]);
    prop_oneof![4 => known.prop_map(str::to_owned), 1 => any::<String>()]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0_u32..9).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[a-z\\\\\"/\n]{0,9}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key(), inner), 0..5)
                .prop_map(|members| Value::Object(Map::from_iter(members))),
        ]
    })
}

/// Members of a document; keys may be duplicates.
fn members() -> impl Strategy<Value = Vec<(String, Value)>> {
    prop::collection::vec((key(), value()), 0..8)
}

/// Writes strings with many escapes and white space where it may stand, as `dice` falls.
fn write_value(out: &mut String, value: &Value, dice: &mut impl Iterator<Item = u8>) {
    let space = |dice: &mut dyn Iterator<Item = u8>| match dice.next() {
        Some(0..40) => " ",
        Some(40..60) => "\r\n\t",
        _ => "",
    };
    out.push_str(space(dice));
    match value {
        Value::String(text) => write_string(out, text, dice),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                write_value(out, item, dice);
            }
            out.push_str(space(dice));
            out.push(']');
        }
        Value::Object(members) => write_members(out, members.iter(), dice),
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
    }
    out.push_str(space(dice));
}

fn write_members<'a>(
    out: &mut String,
    members: impl Iterator<Item = (&'a String, &'a Value)>,
    dice: &mut impl Iterator<Item = u8>,
) {
    out.push('{');
    for (i, (key, value)) in members.enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        write_string(out, key, dice);
        out.push(':');
        write_value(out, value, dice);
    }
    out.push('}');
}

fn write_string(out: &mut String, text: &str, dice: &mut impl Iterator<Item = u8>) {
    if dice.next().is_some_and(|dice| dice < 60) {
        out.push('"');
        for unit in text.encode_utf16() {
            write!(out, "\\u{unit:04X}").unwrap();
        }
        out.push('"');
    } else {
        out.push_str(&Value::from(text).to_string());
    }
}

fn document(members: &[(String, Value)], dice: &[u8]) -> String {
    let mut out = String::new();
    let mut dice = dice.iter().copied().cycle();
    write_members(&mut out, members.iter().map(|(key, value)| (key, value)), &mut dice);
    out
}

/// Cuts at the given places, modulo the length.
fn cut<'a>(body: &'a [u8], places: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<_> = places.iter().map(|place| place % (body.len() + 1)).collect();
    places.extend([0, body.len()]);
    places.sort_unstable();
    places.windows(2).map(|ends| &body[ends[0]..ends[1]]).collect()
}

/// What a completions body says, by the book.
fn reference(text: &str) -> (Option<String>, bool, Option<u64>, Option<String>) {
    let body: Map<String, Value> = serde_json::from_str(text).unwrap();
    let string = |key: &str| body.get(key).and_then(Value::as_str).map(str::to_owned);
    let cap = body.get("max_tokens").and_then(|cap| {
        let float = cap.as_f64().filter(|cap| cap.fract() == 0.0 && *cap >= 0.0 && *cap < 9e15);
        cap.as_u64().or_else(|| float.map(|cap| format!("{:.0}", cap.abs()).parse().unwrap()))
    });
    let model = string("model").filter(|model| (1..=4096).contains(&model.len()));
    (model, body.get("stream") == Some(&Value::Bool(true)), cap, string("prompt"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn scan_agrees_with_a_full_parser(members in members(), dice in prop::collection::vec(any::<u8>(), 1..40)) {
        let text = document(&members, &dice);
        let (model, stream, cap, prompt) = reference(&text);
        let mut scan = Scan::new(Some(Api::Completions));
        let mut seen = Vec::new();
        scan.feed(text.as_bytes(), &mut |part| {
            if let PromptPart::Text(text) = part {
                seen.extend_from_slice(text);
            }
        });
        let parsed = scan.finish_truncated();
        prop_assert!(parsed.complete, "{text}");
        prop_assert_eq!(parsed.model.as_ref().map(|model| model.name.to_string()), model);
        prop_assert_eq!((parsed.stream, parsed.output_cap), (stream, cap));
        if let Some(prompt) = prompt {
            prop_assert!(String::from_utf8(seen).unwrap().contains(&prompt));
        }
        for span in parsed.model.iter().flat_map(|model| &model.spans) {
            serde_json::from_str::<Value>(text.get(span.clone()).unwrap()).unwrap();
        }
    }

    #[test]
    fn cuts_change_nothing(
        members in members(),
        dice in prop::collection::vec(any::<u8>(), 1..40),
        places in prop::collection::vec(any::<usize>(), 0..6),
        api in prop::sample::select(&APIS[..]),
    ) {
        let text = document(&members, &dice);
        let whole = scan_pieces(api, [text.as_bytes()]);
        prop_assert_eq!(&scan_pieces(api, cut(text.as_bytes(), &places)), &whole);
        prop_assert_eq!(&scan_pieces(api, text.as_bytes().chunks(1)), &whole);
    }

    #[test]
    fn what_a_full_parser_takes_is_taken(
        members in members(),
        dice in prop::collection::vec(any::<u8>(), 1..40),
        place in any::<usize>(),
        byte in any::<u8>(),
    ) {
        let mut body = document(&members, &dice).into_bytes();
        let place = place % body.len();
        body[place] = byte;
        let ours = scan_pieces(Some(Api::Conversations), [&*body]).0;
        if serde_json::from_slice::<Map<String, Value>>(&body).is_ok() {
            prop_assert!(ours.is_ok());
        }
    }

    #[test]
    fn rewriting_changes_the_model_alone(
        members in members(),
        dice in prop::collection::vec(any::<u8>(), 1..40),
        places in prop::collection::vec(any::<usize>(), 0..6),
        name in "[a-z\"\\\\é]{1,9}",
    ) {
        let text = document(&members, &dice);
        let mut scan = Scan::new(Some(Api::Conversations));
        let pieces: Vec<Bytes> =
            cut(text.as_bytes(), &places).into_iter().map(Bytes::copy_from_slice).collect();
        for piece in &pieces {
            scan.feed(piece, &mut |_| ());
        }
        let parsed = scan.finish().unwrap();
        let (out, length) = rewrite(&pieces, &parsed, &name);
        let out = String::from_utf8(out.concat()).unwrap();
        prop_assert_eq!(out.len(), length);
        let body: Map<String, Value> = serde_json::from_str(&out).unwrap();
        prop_assert_eq!(body.get("model").and_then(Value::as_str), Some(&*name));
        // Put back what was replaced: the original must come out.
        let quoted = Value::from(&*name).to_string();
        let mut back = out;
        for span in parsed.model_spans() {
            let new = span.start..span.start + quoted.len();
            prop_assert_eq!(back.get(new.clone()), Some(&*quoted));
            back.replace_range(new, text.get(span.clone()).unwrap());
        }
        if parsed.model_spans().is_empty() {
            let inserted = format!("\"model\":{quoted}").len();
            let comma = usize::from(back.as_bytes()[1 + inserted] == b',');
            back.replace_range(1..1 + inserted + comma, "");
        }
        prop_assert_eq!(back, text);
    }

    #[test]
    fn garbage_is_survived(
        body in prop::collection::vec(any::<u8>(), 0..200),
        piece in 1_usize..9,
        api in prop::sample::select(&APIS[..]),
    ) {
        let whole = scan_pieces(api, [&*body]);
        prop_assert_eq!(&scan_pieces(api, body.chunks(piece)), &whole);
        let pieces = [Bytes::from(body)];
        if let Ok(parsed) = whole.0 {
            rewrite(&pieces, &parsed, "n");
        }
    }
}
