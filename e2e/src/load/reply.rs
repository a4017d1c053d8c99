//! Reads replies: pieces of bodies, of which there are many, without building the published messages; everything else,
//! and whatever looks unusual, by them.

use std::borrow::Cow;

use anyhow::{Context, Result, bail, ensure};
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{BodyResponse, ProcessingResponse};
use prost::Message as _;
use prost::encoding::{WireType, decode_key, decode_varint};

use super::message::Side;

/// Field numbers of the messages between a reply and its piece.
const REQUEST_BODY: u32 = 3;
const RESPONSE_BODY: u32 = 4;
const RESPONSE: u32 = 1;
const BODY_MUTATION: u32 = 3;
const STREAMED_RESPONSE: u32 = 3;
const BODY: u32 = 1;
const END_OF_STREAM: u32 = 2;

/// A reply, as far as an exchange looks.
#[derive(Debug)]
pub(super) enum Reply<'a> {
    Piece(Piece<'a>),
    Other(Box<Response>),
}

/// A piece of an echoed body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    pub(super) side: Side,
    pub(super) bytes: Cow<'a, [u8]>,
    pub(super) end: bool,
}

/// Reads a reply; a `thorough` reading decodes all of it by the published messages and demands that both agree.
pub(super) fn read(message: &[u8], thorough: bool) -> Result<Reply<'_>> {
    let quick = Piece::read(message);
    if let (Some(piece), false) = (&quick, thorough) {
        return Ok(Reply::Piece(Piece { bytes: piece.bytes.clone(), ..*piece }));
    }
    let reply = decoded(message)?;
    if let (Some(piece), Reply::Piece(full)) = (quick, &reply) {
        ensure!(*full == piece, "a reply reads differently by the published messages");
    }
    Ok(reply)
}

fn decoded(message: &[u8]) -> Result<Reply<'static>> {
    let response = ProcessingResponse::decode(message)?.response.context("an empty reply")?;
    if let Response::RequestBody(body) = response {
        return Ok(Reply::Piece(streamed(Side::Request, body)?));
    }
    if let Response::ResponseBody(body) = response {
        return Ok(Reply::Piece(streamed(Side::Response, body)?));
    }
    Ok(Reply::Other(Box::new(response)))
}

fn streamed(side: Side, reply: BodyResponse) -> Result<Piece<'static>> {
    let mutation = reply.response.and_then(|common| common.body_mutation);
    match mutation.and_then(|mutation| mutation.mutation) {
        Some(Mutation::StreamedResponse(piece)) => {
            Ok(Piece { side, bytes: Cow::Owned(piece.body), end: piece.end_of_stream })
        }
        _ => bail!("a body reply that is not streamed"),
    }
}

impl<'a> Piece<'a> {
    /// The piece in a reply that is nothing else.
    fn read(message: &'a [u8]) -> Option<Self> {
        let (number, reply) = only(message)?;
        let side = match number {
            REQUEST_BODY => Side::Request,
            RESPONSE_BODY => Side::Response,
            _ => return None,
        };
        let mut rest = [RESPONSE, BODY_MUTATION, STREAMED_RESPONSE]
            .iter()
            .try_fold(reply, |outer, wanted| {
                only(outer).filter(|(n, _)| n == wanted).map(|(_, value)| value)
            })?;
        let mut piece = Self { side, bytes: Cow::Borrowed(&[]), end: false };
        while !rest.is_empty() {
            match decode_key(&mut rest).ok()? {
                (BODY, WireType::LengthDelimited) => piece.bytes = Cow::Borrowed(take(&mut rest)?),
                (END_OF_STREAM, WireType::Varint) => {
                    piece.end = decode_varint(&mut rest).ok()? != 0;
                }
                _ => return None,
            }
        }
        Some(piece)
    }
}

/// Number and value of the only field of a message, if that holds bytes.
fn only(mut message: &[u8]) -> Option<(u32, &[u8])> {
    let (number, kind) = decode_key(&mut message).ok()?;
    let value = (kind == WireType::LengthDelimited).then(|| take(&mut message))??;
    message.is_empty().then_some((number, value))
}

/// The bytes after a length.
fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(decode_varint(rest).ok()?).ok()?;
    let (value, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(value)
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::service::ext_proc::v3::{
        BodyMutation, CommonResponse, HeadersResponse, StreamedBodyResponse,
    };

    use super::*;

    fn encoded(mutation: Mutation, clear_route_cache: bool) -> Vec<u8> {
        let body_mutation = Some(BodyMutation { mutation: Some(mutation) });
        let common = CommonResponse { body_mutation, clear_route_cache, ..Default::default() };
        let response = Some(Response::ResponseBody(BodyResponse { response: Some(common) }));
        ProcessingResponse { response, ..Default::default() }.encode_to_vec()
    }

    fn streaming(body: &[u8], end_of_stream: bool) -> Mutation {
        Mutation::StreamedResponse(StreamedBodyResponse {
            body: body.to_vec(),
            end_of_stream,
            ..Default::default()
        })
    }

    fn piece(body: &[u8], end_of_stream: bool) -> Vec<u8> {
        encoded(streaming(body, end_of_stream), false)
    }

    #[test]
    fn piece_is_read_alike_by_both_ways() {
        for (body, end) in [(&b""[..], true), (b"data: 1", false), (&vec![7; 70_000], true)] {
            let message = piece(body, end);
            let quick = Piece::read(&message).unwrap();
            assert_eq!((&*quick.bytes, quick.end, quick.side), (body, end, Side::Response));
            assert!(matches!(read(&message, true).unwrap(), Reply::Piece(full) if full == quick));
        }
    }

    #[test]
    fn unusual_reply_is_read_by_the_published_messages() {
        let message = encoded(streaming(b"x", false), true);
        assert!(Piece::read(&message).is_none());
        assert!(
            matches!(read(&message, false).unwrap(), Reply::Piece(piece) if *piece.bytes == *b"x")
        );
        assert!(read(&encoded(Mutation::ClearBody(true), false), false).is_err());
    }

    #[test]
    fn cut_reply_is_an_error_and_headers_are_no_piece() {
        let message = piece(&[7; 300], true);
        for length in 0..message.len() {
            assert!(read(&message[..length], false).is_err(), "{length}");
        }
        let response = Some(Response::RequestHeaders(HeadersResponse::default()));
        let message = ProcessingResponse { response, ..Default::default() }.encode_to_vec();
        assert!(matches!(read(&message, false).unwrap(), Reply::Other(_)));
    }
}
