//! Replies in the form in which they leave.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

use super::body_mutation::Mutation;
use super::field::{self, whole};
use super::processing_response::Response;
use super::{BodyMutation, BodyResponse, CommonResponse, ProcessingResponse, StreamedBodyResponse};

/// What stands before each message of a gRPC stream: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// Pieces of a body below this many bytes are copied behind their message's head, longer ones leave as they are.
const COPIED: usize = 4096;

/// Room for what stands before the bytes of a piece: five tags and lengths of at most five bytes each, and the end.
const HEAD: usize = 5 * (1 + 5) + 2;

/// Room that is made at first: for a few events, or for the answer to headers.
const FIRST: usize = 2048;

/// Appends a reply to what leaves, as a message of a gRPC stream. A long piece of a body is not copied but given back: it
/// must leave next.
pub fn encode(reply: &ProcessingResponse, out: &mut BytesMut) -> Option<Bytes> {
    let Some((tag, piece)) = streamed(reply) else {
        prefix(reply.encoded_len(), out);
        // fails for lack of room alone, and the buffer grows
        reply.encode(out).unwrap_or_default();
        return None;
    };
    head(tag, piece, reply.dynamic_metadata.as_deref(), out);
    if piece.body.len() >= COPIED {
        return Some(piece.body.clone());
    }
    out.extend_from_slice(&piece.body);
    None
}

/// The tag that says which body's piece a reply is, and the piece, if it is nothing more.
fn streamed(reply: &ProcessingResponse) -> Option<(u8, &StreamedBodyResponse)> {
    let (tag, BodyResponse { response }) = match reply.response.as_ref()? {
        Response::RequestBody(body) => (0x1a, body),
        Response::ResponseBody(body) => (0x22, body),
        Response::RequestHeaders(_)
        | Response::ResponseHeaders(_)
        | Response::RequestTrailers(_)
        | Response::ResponseTrailers(_)
        | Response::ImmediateResponse(_) => return None,
    };
    let CommonResponse { header_mutation: None, body_mutation, clear_route_cache: false } =
        response.as_ref()?
    else {
        return None;
    };
    match body_mutation.as_ref()? {
        BodyMutation { mutation: Some(Mutation::StreamedResponse(piece)) } => Some((tag, piece)),
        BodyMutation { .. } => None,
    }
}

/// Appends the message up to the bytes of the piece, which stand last in it, behind what else it tells. Written by hand: of
/// the instructions that an event cost, a tenth went into the lengths of five nested messages.
fn head(tag: u8, piece: &StreamedBodyResponse, told: Option<&[u8]>, out: &mut BytesMut) {
    let body = piece.body.len();
    let end = if piece.end_of_stream { 2 } else { 0 };
    let streamed = end + if body > 0 { whole(body) } else { 0 };
    let mutation = whole(streamed);
    let common = whole(mutation);
    let response = whole(common);
    prefix(told.map_or(0, |told| whole(told.len())) + whole(response), out);
    if let Some(told) = told {
        field::head(0x42, told.len(), out);
        out.extend_from_slice(told);
    }
    let mut head = [0; HEAD];
    let mut room = &mut head[..];
    field::head(tag, response, &mut room);
    field::head(0x0a, common, &mut room);
    field::head(0x1a, mutation, &mut room);
    field::head(0x1a, streamed, &mut room);
    if piece.end_of_stream {
        room.put_slice(&[0x10, 1]);
    }
    if body > 0 {
        field::head(0x0a, body, &mut room);
    }
    let left = room.len();
    out.extend_from_slice(head.get(..HEAD - left).unwrap_or_default());
}

fn prefix(length: usize, out: &mut BytesMut) {
    out.reserve(if out.is_empty() { FIRST } else { PREFIX + length.min(COPIED) });
    out.put_u8(0);
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece(tag: u8, body: Vec<u8>, end_of_stream: bool) -> ProcessingResponse {
        let mutation =
            Mutation::StreamedResponse(StreamedBodyResponse { body: body.into(), end_of_stream });
        let body_mutation = Some(BodyMutation { mutation: Some(mutation) });
        let body = BodyResponse {
            response: Some(CommonResponse { body_mutation, ..CommonResponse::default() }),
        };
        let response =
            if tag == 0x1a { Response::RequestBody(body) } else { Response::ResponseBody(body) };
        ProcessingResponse { response: Some(response), dynamic_metadata: None }
    }

    /// The reply as its receiver reads it.
    fn received(reply: &ProcessingResponse) -> ProcessingResponse {
        let mut out = BytesMut::new();
        let rest = encode(reply, &mut out);
        let message = [&out[..], rest.as_deref().unwrap_or_default()].concat();
        let (prefix, message) = message.split_at(PREFIX);
        assert_eq!(
            prefix,
            [&[0][..], &u32::try_from(message.len()).unwrap().to_be_bytes()].concat()
        );
        ProcessingResponse::decode(message).unwrap()
    }

    proptest! {
        #[test]
        fn a_piece_arrives_as_it_is(
            length in prop_oneof![0..300_usize, 3_900..4_300_usize, 16_000..17_000_usize, Just(70_000)],
            end: bool,
            request: bool,
            told in prop::option::of(prop::collection::vec(any::<u8>(), 0..300)),
        ) {
            let mut reply = piece(if request { 0x1a } else { 0x22 }, vec![7; length], end);
            reply.dynamic_metadata = told.map(Bytes::from);
            prop_assert_eq!(received(&reply), reply);
        }
    }

    // FR-154
    #[test]
    fn a_long_piece_is_not_copied() {
        let reply = piece(0x1a, vec![7; COPIED], true);
        let mut out = BytesMut::new();
        assert_eq!(encode(&reply, &mut out).unwrap(), vec![7; COPIED]);
        assert!(out.len() < 40);
        assert_eq!(encode(&piece(0x1a, vec![7; COPIED - 1], true), &mut out), None);
    }

    #[test]
    fn what_is_more_than_a_piece_is_written_in_full() {
        let mut cleared = piece(0x1a, vec![7; 9_000], false);
        if let Some(Response::RequestBody(BodyResponse { response: Some(common) })) =
            &mut cleared.response
        {
            common.clear_route_cache = true;
        }
        let headers = Response::RequestHeaders(super::super::HeadersResponse::default());
        let headers = ProcessingResponse {
            response: Some(headers),
            dynamic_metadata: Some(Bytes::from_static(&[10, 0])),
        };
        for reply in [cleared, headers, ProcessingResponse::default()] {
            assert_eq!(received(&reply), reply);
        }
    }
}
