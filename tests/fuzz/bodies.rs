//! Bodies of requests and answers, against slow references and however they are cut.

use bytes::Bytes;
use lodesman::request::{
    AnswerReader, Api, BodyError, ModelRestorer, Parsed, PromptPart, Reading, Scan, rewrite,
};
use serde_json::Value;

use super::Dice;

/// APIs that read JSON, and no path.
const APIS: [Option<Api>; 10] = [
    None,
    Some(Api::ChatCompletions),
    Some(Api::Completions),
    Some(Api::Embeddings),
    Some(Api::Responses),
    Some(Api::ImagesGenerations),
    Some(Api::Messages),
    Some(Api::VllmGenerate),
    Some(Api::SglangGenerate),
    Some(Api::ModelOnly),
];

const ANSWERED: [Api; 6] = [
    Api::ChatCompletions,
    Api::Messages,
    Api::Responses,
    Api::SglangGenerate,
    Api::VllmGrpcGenerate,
    Api::VertexChat,
];

const TYPES: [&[u8]; 4] = [b"application/json", b"text/event-stream", b"application/grpc", b""];

/// Longest model name that is read.
const LONGEST_NAME: usize = 4 << 10;

/// A request body: cut anywhere it says the same, and what `serde_json` says; only the model is rewritten.
pub(crate) fn json_scan(data: &[u8]) {
    let mut dice = Dice(data);
    let api = dice.one_of(&APIS);
    let (first, second) = dice.halves();
    let body = [first, second].concat();
    let whole = scan(api, &[&body]);
    assert_eq!(scan(api, &[first, second]), whole, "cuts mean nothing");
    let Ok(document) = serde_json::from_slice::<Value>(&body) else { return };
    let (parsed, _) = whole;
    let Value::Object(fields) = &document else {
        assert!(!matches!(parsed, Ok(Parsed { reading: Reading::Read, .. })));
        return;
    };
    let syntax = matches!(
        parsed,
        Err(BodyError::Syntax { .. } | BodyError::Truncated { .. } | BodyError::NotObject)
    );
    assert!(!syntax, "serde_json reads it: {parsed:?}");
    let Ok(parsed) = parsed else { return };
    if parsed.reading == Reading::Opaque {
        return;
    }
    let model = fields
        .get("model")
        .and_then(Value::as_str)
        .filter(|name| (1..=LONGEST_NAME).contains(&name.len()));
    assert_eq!(parsed.model.as_ref().map(|model| &*model.name), model);
    let stream = fields.get("stream") == Some(&Value::Bool(true));
    assert!(parsed.stream == stream || parsed.api == Api::ModelOnly);
    let pieces = [first, second].map(Bytes::copy_from_slice);
    let (rewritten, length) = rewrite(&pieces, &parsed, "te\"st");
    let rewritten = rewritten.concat();
    assert_eq!(rewritten.len(), length);
    let mut want = document.clone();
    want["model"] = Value::from("te\"st");
    assert_eq!(serde_json::from_slice::<Value>(&rewritten).expect("still JSON"), want);
}

/// What a body says, and its prompt as one.
fn scan(api: Option<Api>, pieces: &[&[u8]]) -> (Result<Parsed, BodyError>, Vec<u8>) {
    let (mut scan, mut prompt) = (Scan::new(api), Vec::new());
    for piece in pieces {
        scan.feed(piece, &mut |part| match part {
            PromptPart::Text(bytes) | PromptPart::Lead(bytes) | PromptPart::Media(bytes) => {
                prompt.extend_from_slice(bytes);
            }
            PromptPart::Token(id) => prompt.extend_from_slice(&id.to_be_bytes()),
            PromptPart::Next => prompt.push(0xff),
        });
    }
    match scan.finish() {
        // How far a bad body was read, and so what is said of it, depends on the cut.
        Err(BodyError::Syntax { .. } | BodyError::NotObject) => {
            (Err(BodyError::Syntax { at: 0 }), Vec::new())
        }
        Err(error) => (Err(error), Vec::new()),
        parsed => (parsed, prompt),
    }
}

/// An answer: cut anywhere, its usage and the number of its events are the same.
pub(crate) fn answer_reader(data: &[u8]) {
    let mut dice = Dice(data);
    let (api, content_type) = (dice.one_of(&ANSWERED), dice.one_of(&TYPES));
    let (first, second) = dice.halves();
    let foreign: &[u8] = if api == Api::SglangGenerate { b"usage" } else { b"meta_info" };
    if memchr::memmem::find(&[first, second].concat(), foreign).is_some() {
        // The report of another API is found only where it is not skipped.
        return;
    }
    let read = |pieces: &[&[u8]]| {
        let mut reader = AnswerReader::new(api, content_type);
        let events: u32 = pieces.iter().map(|piece| reader.feed(piece).events).sum();
        (events, reader.usage())
    };
    assert_eq!(read(&[&[first, second].concat()]), read(&[first, second]), "cuts mean nothing");
}

/// An answer: cut anywhere, the same comes out; only the name of the model changes.
pub(crate) fn model_restorer(data: &[u8]) {
    let mut dice = Dice(data);
    let content_type = dice.one_of(&TYPES);
    let (first, second) = dice.halves();
    let body = [first, second].concat();
    let whole = restored("T", &[&body], content_type);
    assert_eq!(restored("T", &[first, second], content_type), whole, "cuts mean nothing");
    assert_eq!(restored("no such name", &[&body], content_type), body, "other names stay");
    let json = content_type == TYPES[0];
    if let (true, Ok(Value::Object(mut fields))) = (json, serde_json::from_slice(&body)) {
        if fields.get("model").is_some_and(|name| name == "T") {
            fields.insert("model".to_owned(), Value::from("mi\"ne"));
        }
        let whole = serde_json::from_slice::<Value>(&whole).expect("still JSON");
        assert_eq!(whole, Value::Object(fields));
    }
}

fn restored(from: &str, pieces: &[&[u8]], content_type: &[u8]) -> Vec<u8> {
    let mut restorer = ModelRestorer::new(from, "mi\"ne", content_type);
    let mut out = Vec::new();
    for (at, piece) in (1..).zip(pieces) {
        restorer.push(Bytes::copy_from_slice(piece), at == pieces.len(), &mut out);
    }
    out.concat()
}
