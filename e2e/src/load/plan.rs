//! What every exchange of a run sends, encoded once: only the id of a request is made anew.

use anyhow::{Context, Result};
use bytes::{BufMut as _, Bytes, BytesMut};
use envoy_types::pb::envoy::service::ext_proc::v3::ProcessingRequest;
use prost::Message as _;

use super::Options;
use super::message::{self, Side};

/// Compression flag and length before each message.
pub(super) const PREFIX_BYTES: usize = 5;

/// The messages of a run and the bytes that must come back.
#[derive(Debug)]
pub(super) struct Script {
    prompts: Vec<Prompt>,
    response: Response,
}

impl Script {
    pub(super) fn new(options: &Options) -> Result<Self> {
        let prompt = |at| Prompt::new(options, at);
        let prompts = (0..options.prompts.max(1)).map(prompt).collect::<Result<_>>()?;
        Ok(Self { prompts, response: Response::new(options.events)? })
    }

    /// The prompt of request `number`; they take turns.
    pub(super) fn prompt(&self, number: usize) -> Option<&Prompt> {
        self.prompts.get(number % self.prompts.len().max(1))
    }

    /// The response, the same for every request; none if it ends with the request.
    pub(super) fn response(&self) -> Option<&Response> {
        (!self.response.body.is_empty()).then_some(&self.response)
    }

    /// The messages that a request sends in all.
    pub(super) fn messages(&self) -> usize {
        let pieces = self.prompts.first().map_or(0, |prompt| prompt.pieces.len());
        let response = self.response().map_or(0, |response| response.frames.len());
        1 + pieces + response
    }
}

/// A request but for its id.
#[derive(Debug)]
pub(super) struct Prompt {
    head: Vec<u8>,
    /// Where in `head` the digits of the id stand.
    id_at: usize,
    /// The pieces of the body; then, if there are any, the empty end.
    pub(super) pieces: Vec<Bytes>,
    /// The body.
    pub(super) body: Vec<u8>,
}

impl Prompt {
    fn new(options: &Options, at: usize) -> Result<Self> {
        let body = message::chat_body(&options.model, at, options.body_bytes);
        let head = frame(&message::request_headers(body.len()))?.to_vec();
        let id = message::ID.as_bytes();
        let found = head.windows(id.len()).position(|bytes| bytes == id);
        let id_at = found.context("the headers carry no id")?;
        let piece = |bytes: &[u8], end| frame(&message::body(Side::Request, bytes, end));
        let chunks = body.chunks(options.chunk_bytes.max(1));
        let mut pieces = chunks.map(|chunk| piece(chunk, false)).collect::<Result<Vec<_>>>()?;
        if !pieces.is_empty() {
            pieces.push(piece(&[], true)?);
        }
        Ok(Self { head, id_at, pieces, body })
    }

    /// The headers of request `number`.
    pub(super) fn head(&self, number: usize) -> Bytes {
        let mut head = self.head.clone();
        let id = message::id(number);
        for (to, from) in head.iter_mut().skip(self.id_at).zip(id.bytes()) {
            *to = from;
        }
        head.into()
    }
}

/// A streamed response.
#[derive(Debug)]
pub(super) struct Response {
    /// The headers, then the events.
    pub(super) frames: Vec<Bytes>,
    /// All events.
    pub(super) body: Vec<u8>,
}

impl Response {
    fn new(count: usize) -> Result<Self> {
        let mut frames = vec![frame(&message::response_headers())?];
        let mut body = Vec::new();
        for number in 0..count {
            let event = message::event(number, count);
            let last = number + 1 == count;
            frames.push(frame(&message::body(Side::Response, event.as_bytes(), last))?);
            body.extend_from_slice(event.as_bytes());
        }
        Ok(Self { frames, body })
    }
}

/// A message with what gRPC puts before it.
fn frame(message: &ProcessingRequest) -> Result<Bytes> {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length)?);
    message.encode(&mut frame)?;
    Ok(frame.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::tests::options;

    #[test]
    fn headers_differ_in_nothing_but_the_id() {
        let script = Script::new(&options("--prompts 1")).unwrap();
        let prompt = script.prompt(7).unwrap();
        let text = |number| String::from_utf8_lossy(&prompt.head(number)).into_owned();
        assert!(text(12).contains("00000000-0000-4000-8000-000000000012"));
        assert_eq!(text(12).replace("000000000012", "000000000345"), text(345));
        ProcessingRequest::decode(prompt.head(12).slice(PREFIX_BYTES..)).unwrap();
    }

    #[test]
    fn messages_are_head_pieces_end_and_the_response() {
        let count = |args| Script::new(&options(args)).unwrap().messages();
        assert_eq!(count("--body-bytes 0"), 1);
        assert_eq!(count("--body-bytes 1000"), 3);
        assert_eq!(count("--body-bytes 1000 --chunk-bytes 400 --events 10"), 1 + 4 + 11);
    }
}
