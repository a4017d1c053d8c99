//! Bodies of gRPC frames.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use prost::Message;

use super::*;

#[derive(Clone, PartialEq, Message)]
struct Generate {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(message, tag = "2")]
    tokenized: Option<Tokenized>,
    #[prost(string, optional, tag = "3")]
    text: Option<String>,
    #[prost(message, tag = "4")]
    sampling: Option<Sampling>,
    #[prost(bool, tag = "5")]
    stream: bool,
    #[prost(message, optional, tag = "7")]
    media: Option<Multimodal>,
}

#[derive(Clone, PartialEq, Message)]
struct Multimodal {
    #[prost(string, repeated, tag = "6")]
    hashes: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Tokenized {
    #[prost(string, tag = "1")]
    text: String,
    #[prost(uint32, repeated, tag = "2")]
    ids: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct Sampling {
    #[prost(uint32, optional, tag = "8")]
    max_tokens: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct HttpBody {
    #[prost(string, tag = "1")]
    content_type: String,
    #[prost(bytes = "vec", tag = "2")]
    data: Vec<u8>,
}

pub(super) fn frame(flags: u8, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[flags], &length[..], message].concat()
}

fn packed(message: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(message).unwrap();
    frame(1, &encoder.finish().unwrap())
}

fn tokens() -> Vec<u8> {
    let sampling = Some(Sampling { max_tokens: Some(0) });
    let tokenized = Some(Tokenized { text: "secret".into(), ids: vec![7, 300, 70_000] });
    Generate { id: "r".into(), tokenized, sampling, stream: true, text: None, media: None }
        .encode_to_vec()
}

fn read(api: Api, body: &[u8]) -> (Result<Parsed, BodyError>, String) {
    scan_pieces(Some(api), [body])
}

#[test]
fn tokens_and_text_are_read() {
    let (parsed, prompt) = read(Api::VllmGrpcGenerate, &frame(0, &tokens()));
    let parsed = parsed.unwrap();
    assert_eq!(prompt, "<7><300><70000>");
    assert_eq!((parsed.prompt_tokens, parsed.output_cap, parsed.stream), (3, Some(0), true));
    assert_eq!(parsed.insert_at, None);
    let text = Generate { text: Some("hello".into()), ..Generate::default() }.encode_to_vec();
    assert_eq!(read(Api::VllmGrpcGenerate, &frame(0, &text)).1, "hello");
    assert_eq!(read(Api::VllmGrpcEmbed, &frame(0, &tokens())).1, "<7><300><70000>");
}

#[test]
fn frame_may_be_cut_anywhere_and_packed() {
    for body in [frame(0, &tokens()), packed(&tokens())] {
        let whole = read(Api::VllmGrpcGenerate, &body);
        assert_eq!(whole.1, "<7><300><70000>");
        for cut in 0..=body.len() {
            let (head, tail) = body.split_at(cut);
            assert_eq!(scan_pieces(Some(Api::VllmGrpcGenerate), [head, tail]), whole, "{cut}");
        }
        assert_eq!(scan_pieces(Some(Api::VllmGrpcGenerate), body.chunks(1)), whole);
    }
}

#[test]
fn media_hashes_tell_prompts_apart() {
    let prompt = |hash: &str| {
        let media = Some(Multimodal { hashes: vec![hash.into()] });
        let tokenized = Some(Tokenized { text: String::new(), ids: vec![9] });
        let message = Generate { tokenized, media, ..Generate::default() }.encode_to_vec();
        let (parsed, prompt) = read(Api::VllmGrpcGenerate, &frame(0, &message));
        assert_eq!(parsed.unwrap().prompt_tokens, 1);
        prompt
    };
    assert_eq!(prompt("a"), prompt("a"));
    assert_ne!(prompt("a"), prompt("b"));
}

#[test]
fn only_the_first_frame_is_read() {
    let body = [frame(0, &tokens()), frame(0, &tokens()), vec![9; 9]].concat();
    assert_eq!(read(Api::VllmGrpcGenerate, &body).1, "<7><300><70000>");
}

#[test]
fn what_is_no_message_is_rejected() {
    let cut = &frame(0, &tokens())[..12];
    for body in [&b""[..], &[0, 0, 0], cut, &frame(2, b""), &frame(1, b"x"), &frame(0, b"\xff")] {
        assert_eq!(read(Api::VllmGrpcGenerate, body).0, Err(BodyError::Frame), "{body:?}");
    }
    let none = read(Api::VllmGrpcGenerate, &frame(0, b"")).0;
    assert_eq!(none, Err(BodyError::Missing { field: "input" }));
}

#[test]
fn huge_messages_are_opaque_also_when_they_were_small_when_packed() {
    let huge = vec![0; 5 << 20];
    for body in [frame(0, &huge), packed(&huge)] {
        let parsed = read(Api::VllmGrpcGenerate, &body).0.unwrap();
        assert_eq!(parsed.reading, Reading::Opaque);
    }
}

#[test]
fn vertex_bodies_are_those_of_the_inner_api() {
    let data =
        br#"{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":4}"#.to_vec();
    let message = HttpBody { content_type: "application/json".into(), data }.encode_to_vec();
    let body = frame(0, &message);
    let (parsed, prompt) = read(Api::VertexChat, &body);
    let parsed = parsed.unwrap();
    assert_eq!(rewrite(&[body.clone().into()], &parsed, "n").0, [body]);
    assert_eq!((model(&parsed), &*prompt, parsed.output_cap), (Some("m"), "userx", Some(4)));
    let missing = read(Api::VertexRaw, &frame(0, &message)).0;
    assert_eq!(missing, Err(BodyError::Missing { field: "input" }));
}
