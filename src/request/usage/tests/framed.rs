//! Usage from gRPC answers.

use prost::Message;

use super::*;

#[derive(Clone, PartialEq, Message)]
struct Response {
    #[prost(message, tag = "1")]
    chunk: Option<Counts>,
    #[prost(message, tag = "2")]
    complete: Option<Complete>,
}

#[derive(Clone, PartialEq, Message)]
struct Counts {
    #[prost(uint32, repeated, tag = "1")]
    ids: Vec<u32>,
    #[prost(uint32, tag = "2")]
    prompt: u32,
    #[prost(uint32, tag = "3")]
    completion: u32,
    #[prost(uint32, tag = "4")]
    cached: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Complete {
    #[prost(string, tag = "2")]
    reason: String,
    #[prost(uint32, tag = "3")]
    prompt: u32,
    #[prost(uint32, tag = "4")]
    completion: u32,
    #[prost(uint32, tag = "5")]
    cached: u32,
}

#[test]
fn grpc_frames_give_usage_wherever_they_are_cut() {
    let chunk = Counts { ids: vec![4], prompt: 7, completion: 1, cached: 2 };
    let complete = Complete { reason: "stop".into(), prompt: 7, completion: 9, cached: 2 };
    let messages = [
        Response { chunk: Some(chunk), complete: None },
        Response { chunk: None, complete: Some(complete) },
    ];
    let answer: Vec<u8> =
        messages.iter().map(Message::encode_to_vec).flat_map(|message| frame(&message)).collect();
    for cut in 0..=answer.len() {
        let (head, tail) = answer.split_at(cut);
        let (found, events, _) = read(Api::VllmGrpcGenerate, b"application/grpc", [head, tail]);
        assert_eq!((found, events), (Some(usage(7, 9, 16, Some(2))), 2), "{cut}");
    }
}

#[test]
fn embedding_reports_its_prompt() {
    // Field 2, `prompt_tokens`: 7.
    let (found, events, tokens) =
        read(Api::VllmGrpcEmbed, b"application/grpc+proto", [&frame(&[0x10, 7])[..]]);
    assert_eq!((found, events, tokens), (Some(usage(7, 0, 7, None)), 1, 0));
}

#[derive(Clone, PartialEq, Message)]
struct HttpBody {
    #[prost(string, tag = "1")]
    content_type: String,
    #[prost(string, tag = "2")]
    data: String,
}

fn frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &length[..], message].concat()
}

#[test]
fn wrapped_text_is_read_as_what_it_is() {
    let wrap = |content_type: &str, data: &str| {
        let body = HttpBody { content_type: content_type.into(), data: data.into() };
        frame(&body.encode_to_vec())
    };
    let json = wrap("application/json", r#"{"usage":{"prompt_tokens":7,"completion_tokens":1}}"#);
    let (found, events, _) = read(Api::VertexChat, b"application/grpc", json.chunks(3));
    assert_eq!((found, events), (Some(usage(7, 1, 8, None)), 0));
    // An event stream may be cut anew in every message.
    let (head, tail) = RECORDED.split_at(700);
    let events = [wrap("text/event-stream", head), wrap("text/event-stream", tail)].concat();
    let (found, events, _) = read(Api::VertexRaw, b"application/grpc", events.chunks(5));
    assert_eq!((found, events), (Some(usage(544, 5, 549, None)), 7));
}
