//! The messages of the gRPC services of vLLM and Vertex AI, as far as they are read.
//!
//! Field numbers are those of `vllm.grpc.engine` (package `smg-grpc-proto` 0.4.28) and `google.api.HttpBody`.

use bytes::Bytes;
use prost::{Message, Oneof};

use super::{Api, BodyError, Parsed, PromptPart, Reading, Usage, media::Reference};

/// What a request message says; absent if it cannot be decoded.
pub(super) fn request(
    api: Api,
    message: &[u8],
    prompt: &mut impl FnMut(PromptPart<'_>),
) -> Option<Result<Parsed, BodyError>> {
    let request = GenerateRequest::decode(message).ok()?;
    let mut parsed = Parsed {
        api,
        stream: request.stream,
        output_cap: request.sampling.and_then(|sampling| sampling.max_tokens).map(u64::from),
        complete: true,
        reading: Reading::Read,
        ..Parsed::default()
    };
    for hash in request.media.iter().chain(&request.more_media).flat_map(|media| &media.hashes) {
        // Tokens stand for the media; the hashes tell them apart.
        let mut reference = Reference::default();
        reference.add(hash.as_bytes());
        reference.stand_in(1, |bytes| prompt(PromptPart::Media(bytes)));
        parsed.media = parsed.media.saturating_add(1);
    }
    let (field, length) = match request.input {
        Some(Input::Text(text)) => {
            prompt(PromptPart::Text(&text));
            parsed.text_bytes = text.len() as u64;
            parsed.prompt_tokens = parsed.text_bytes.div_ceil(4);
            ("text", text.len())
        }
        Some(Input::Tokenized(Tokenized { ids })) => {
            for id in &ids {
                prompt(PromptPart::Token(*id));
            }
            parsed.prompt_tokens = ids.len() as u64;
            ("tokenized.input_ids", ids.len())
        }
        None => return Some(Err(BodyError::Missing { field: "input" })),
    };
    Some(if length == 0 { Err(BodyError::Empty { field }) } else { Ok(parsed) })
}

/// An `HttpBody` message; absent if it cannot be decoded.
pub(super) fn http_body(message: &[u8]) -> Option<HttpBody> {
    HttpBody::decode(message).ok()
}

/// What an answer message says of usage, and whether it has tokens.
pub(super) fn answer(api: Api, message: &[u8]) -> Option<(Usage, bool)> {
    if api == Api::VllmGrpcEmbed {
        let answer = EmbedResponse::decode(message).ok()?;
        let prompt = answer.prompt_tokens.into();
        return Some((Usage { prompt, ..Usage::default() }, false));
    }
    let (counts, tokens) = match GenerateResponse::decode(message).ok()?.response? {
        Answer::Chunk(chunk) => (chunk.counts(), !chunk.token_ids.is_empty()),
        Answer::Complete(complete) => (complete.counts(), !complete.output_ids.is_empty()),
    };
    let [prompt, completion, cached] = counts.map(u64::from);
    Some((Usage { prompt, completion, total: 0, cached: Some(cached) }, tokens))
}

/// `GenerateRequest`, and `EmbedRequest`, which has its first two fields.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
struct GenerateRequest {
    #[prost(oneof = "Input", tags = "2, 3")]
    input: Option<Input>,
    #[prost(message, tag = "4")]
    sampling: Option<Sampling>,
    #[prost(bool, tag = "5")]
    stream: bool,
    #[prost(message, repeated, tag = "7")]
    media: Vec<Multimodal>,
    #[prost(message, repeated, tag = "11")]
    more_media: Vec<Multimodal>,
}

#[derive(Clone, PartialEq, Message)]
struct Multimodal {
    #[prost(string, repeated, tag = "6")]
    hashes: Vec<String>,
}

#[derive(Clone, PartialEq, Oneof)]
#[prost(skip_debug)]
enum Input {
    #[prost(message, tag = "2")]
    Tokenized(Tokenized),
    #[prost(bytes = "bytes", tag = "3")]
    Text(Bytes),
}

#[derive(Clone, PartialEq, Message)]
struct Tokenized {
    #[prost(uint32, repeated, tag = "2")]
    ids: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Sampling {
    #[prost(uint32, optional, tag = "8")]
    max_tokens: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct GenerateResponse {
    #[prost(oneof = "Answer", tags = "1, 2")]
    response: Option<Answer>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Answer {
    #[prost(message, tag = "1")]
    Chunk(Chunk),
    #[prost(message, tag = "2")]
    Complete(Complete),
}

#[derive(Clone, PartialEq, Message)]
struct Chunk {
    #[prost(uint32, repeated, tag = "1")]
    token_ids: Vec<u32>,
    #[prost(uint32, tag = "2")]
    prompt_tokens: u32,
    #[prost(uint32, tag = "3")]
    completion_tokens: u32,
    #[prost(uint32, tag = "4")]
    cached_tokens: u32,
}

impl Chunk {
    fn counts(&self) -> [u32; 3] {
        [self.prompt_tokens, self.completion_tokens, self.cached_tokens]
    }
}

#[derive(Clone, PartialEq, Message)]
struct Complete {
    #[prost(uint32, repeated, tag = "1")]
    output_ids: Vec<u32>,
    #[prost(uint32, tag = "3")]
    prompt_tokens: u32,
    #[prost(uint32, tag = "4")]
    completion_tokens: u32,
    #[prost(uint32, tag = "5")]
    cached_tokens: u32,
}

impl Complete {
    fn counts(&self) -> [u32; 3] {
        [self.prompt_tokens, self.completion_tokens, self.cached_tokens]
    }
}

#[derive(Clone, PartialEq, Message)]
struct EmbedResponse {
    #[prost(uint32, tag = "2")]
    prompt_tokens: u32,
}

#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(super) struct HttpBody {
    #[prost(string, tag = "1")]
    pub(super) content_type: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) data: Bytes,
}
