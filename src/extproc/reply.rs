//! Messages to the gateway.

use bytes::Bytes;

use crate::wire::body_mutation::Mutation;
use crate::wire::processing_response::Response;
use crate::wire::{
    BodyMutation, BodyResponse, CommonResponse, HeaderMutation, HeaderValue, HeaderValueOption,
    HeadersResponse, ProcessingResponse, StreamedBodyResponse, TrailersResponse,
};

/// `OVERWRITE_IF_EXISTS_OR_ADD`, said aloud because the meaning of leaving it out has changed over time.
const OVERWRITE: i32 = 2;

/// Which half of the HTTP exchange a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::extproc) enum Side {
    Request,
    Response,
}

/// What is to become of the headers and, in modes that hold them, of a buffered body.
#[derive(Debug, Default)]
pub(in crate::extproc) struct Change {
    pub(in crate::extproc) headers: Option<HeaderMutation>,
    /// The new body in one piece; the old one stays when none is given.
    pub(in crate::extproc) body: Option<Bytes>,
    pub(in crate::extproc) clear_route_cache: bool,
    /// For the gateway, by namespace: an encoded structure.
    pub(in crate::extproc) metadata: Option<Bytes>,
}

/// Answers headers.
pub(in crate::extproc) fn headers(side: Side, change: Change) -> ProcessingResponse {
    let (metadata, common) = change.into_parts();
    let headers = HeadersResponse { response: common };
    let response = match side {
        Side::Request => Response::RequestHeaders(headers),
        Side::Response => Response::ResponseHeaders(headers),
    };
    ProcessingResponse { response: Some(response), dynamic_metadata: metadata }
}

/// Answers a message of a body, one for one.
pub(in crate::extproc) fn body(side: Side, change: Change) -> ProcessingResponse {
    let (metadata, common) = change.into_parts();
    ProcessingResponse {
        response: Some(of_body(side, BodyResponse { response: common })),
        dynamic_metadata: metadata,
    }
}

/// Sends a piece of a body on, in full-duplex mode.
pub(in crate::extproc) fn piece(
    side: Side,
    body: Bytes,
    end_of_stream: bool,
) -> ProcessingResponse {
    let mutation = Mutation::StreamedResponse(StreamedBodyResponse { body, end_of_stream });
    let body_mutation = Some(BodyMutation { mutation: Some(mutation) });
    let response = Some(CommonResponse { body_mutation, ..CommonResponse::default() });
    ProcessingResponse {
        response: Some(of_body(side, BodyResponse { response })),
        dynamic_metadata: None,
    }
}

/// Answers trailers, which stay as they are.
pub(in crate::extproc) fn trailers(side: Side) -> ProcessingResponse {
    let response = match side {
        Side::Request => Response::RequestTrailers(TrailersResponse {}),
        Side::Response => Response::ResponseTrailers(TrailersResponse {}),
    };
    ProcessingResponse { response: Some(response), dynamic_metadata: None }
}

/// A header to set, whatever stood there before.
pub fn set(name: impl Into<Bytes>, value: impl Into<Bytes>) -> HeaderValueOption {
    let header = HeaderValue { key: name.into(), raw_value: value.into(), value: Bytes::new() };
    HeaderValueOption { header: Some(header), append_action: OVERWRITE }
}

/// Cuts a piece so that no part is longer than `max`; parts are slices. An empty piece is one empty part.
pub(in crate::extproc) fn parts(mut piece: Bytes, max: usize) -> impl Iterator<Item = Bytes> {
    let mut first = true;
    std::iter::from_fn(move || {
        let more = std::mem::take(&mut first) || !piece.is_empty();
        more.then(|| piece.split_to(max.min(piece.len())))
    })
}

impl Change {
    fn into_parts(self) -> (Option<Bytes>, Option<CommonResponse>) {
        let Self { headers, body, clear_route_cache, metadata } = self;
        let body_mutation = body.map(|body| BodyMutation { mutation: Some(Mutation::Body(body)) });
        (
            metadata,
            Some(CommonResponse { header_mutation: headers, body_mutation, clear_route_cache }),
        )
    }
}

fn of_body(side: Side, body: BodyResponse) -> Response {
    match side {
        Side::Request => Response::RequestBody(body),
        Side::Response => Response::ResponseBody(body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_cut_into_parts_of_the_size_that_proxies_take() {
        let count = |len: usize| {
            parts(Bytes::from(vec![7; len]), 62_000).map(|part| part.len()).collect::<Vec<_>>()
        };
        assert_eq!(count(0), [0]);
        assert_eq!(count(61_000), [61_000]);
        assert_eq!(count(62_000), [62_000]);
        assert_eq!(count(62_001), [62_000, 1]);
        assert_eq!(count(125_000), [62_000, 62_000, 1_000]);
    }
}
