//! What was told and heard on one stream, and what must hold between the two.

use lodesman::wire::body_mutation::Mutation;
use lodesman::wire::processing_request::Request;
use lodesman::wire::processing_response::Response;
use lodesman::wire::{BodyResponse, HttpBody, ProcessingRequest, ProcessingResponse};

/// Envoy's number of the mode in which bodies have to be sent back; 5, its newest, is taken for it.
const FULL_DUPLEX: i32 = 4;

/// The account of a stream.
pub(super) struct Ledger {
    observed: bool,
    chunk: usize,
    refused: bool,
    /// Whether the model is another on the way there.
    renamed: bool,
    sides: [Side; 2],
}

/// One direction.
#[derive(Default)]
struct Side {
    full_duplex: bool,
    begun: bool,
    /// The last body piece or trailers were told.
    done: bool,
    /// Headers said that no body comes.
    bodyless: bool,
    told: Vec<u8>,
    heard: Vec<u8>,
    heard_end: bool,
    rank: u8,
}

impl Ledger {
    pub(super) fn new(modes: [i32; 2], observed: bool, chunk: usize) -> Self {
        let side = |mode| Side { full_duplex: mode >= FULL_DUPLEX, ..Side::default() };
        Self { observed, chunk, refused: false, renamed: false, sides: modes.map(side) }
    }

    pub(super) fn tell(&mut self, message: &ProcessingRequest) {
        let [asked, answered] = &mut self.sides;
        match &message.request {
            Some(Request::RequestHeaders(headers)) if !asked.begun => {
                let all = headers.headers.iter().flat_map(|map| &map.headers);
                self.renamed |=
                    all.clone().any(|header| header.key.ends_with(b"model-name-rewrite"));
                asked.headers(headers.end_of_stream);
            }
            Some(Request::RequestBody(body)) if asked.begun => asked.body(body),
            Some(Request::RequestTrailers(_)) if asked.begun => asked.done = true,
            Some(Request::ResponseHeaders(headers)) if !answered.begun => {
                answered.headers(headers.end_of_stream);
            }
            Some(Request::ResponseBody(body)) => {
                answered.begun = true;
                answered.body(body);
            }
            Some(Request::ResponseTrailers(_)) => {
                (answered.begun, answered.done) = (true, true);
            }
            _ => {}
        }
    }

    pub(super) fn hear(&mut self, reply: &ProcessingResponse) {
        assert!(!self.observed, "an observer hears nothing");
        assert!(!self.refused, "nothing follows a refusal");
        let [asked, answered] = &mut self.sides;
        match reply.response.as_ref().expect("a reply says something") {
            Response::RequestHeaders(_) => asked.ranked(0),
            Response::RequestBody(body) => asked.piece(body, self.chunk),
            Response::RequestTrailers(_) => asked.ranked(2),
            Response::ResponseHeaders(_) => answered.ranked(0),
            Response::ResponseBody(body) => answered.piece(body, self.chunk),
            Response::ResponseTrailers(_) => answered.ranked(2),
            Response::ImmediateResponse(_) => self.refused = true,
        }
    }

    /// `ended` by us or the other side: then what was told need not have been sent on.
    pub(super) fn end(&self, ended: bool) {
        if self.observed || self.renamed {
            return;
        }
        for side in self.sides.iter().filter(|side| side.full_duplex) {
            assert!(side.told.starts_with(&side.heard), "bytes are sent on once and in order");
            if side.begun && side.done && !side.bodyless && !ended {
                assert_eq!(side.told.len(), side.heard.len(), "all bytes are sent on");
            }
        }
    }
}

impl Side {
    fn headers(&mut self, end_of_stream: bool) {
        self.begun = true;
        self.bodyless = end_of_stream;
        self.done = end_of_stream;
    }

    fn body(&mut self, body: &HttpBody) {
        if !self.done {
            self.told.extend_from_slice(&body.body);
            self.done = body.end_of_stream;
        }
    }

    fn ranked(&mut self, rank: u8) {
        assert!(rank > self.rank || (rank == 0 && self.rank == 0), "headers, body, trailers");
        self.rank = rank.max(1);
    }

    fn piece(&mut self, reply: &BodyResponse, chunk: usize) {
        assert!(self.rank <= 1, "no body after trailers");
        self.rank = 1;
        let mutation = reply.response.as_ref().and_then(|common| common.body_mutation.as_ref());
        let Some(Mutation::StreamedResponse(piece)) = mutation.and_then(|m| m.mutation.as_ref())
        else {
            assert!(!self.full_duplex, "full duplex sends bodies back");
            return;
        };
        assert!(self.full_duplex, "only full duplex sends bodies back");
        assert!(!self.heard_end, "nothing after the end");
        assert!(piece.body.len() <= chunk, "pieces are short");
        self.heard.extend_from_slice(&piece.body);
        self.heard_end = piece.end_of_stream;
    }
}
