//! What was told and heard on one stream, and what must hold between the two.

use lodesman::wire::body_mutation::Mutation;
use lodesman::wire::processing_request::Request;
use lodesman::wire::processing_response::Response;
use lodesman::wire::{BodyResponse, HeaderMap, HttpBody, ProcessingRequest, ProcessingResponse};
use prost::Message as _;

/// Envoy's number of the mode in which bodies have to be sent back; 5, its newest, is taken for it.
const FULL_DUPLEX: i32 = 4;

/// The account of a stream.
pub(super) struct Ledger {
    /// Why nothing may be heard; none while replies are expected.
    silence: Option<&'static str>,
    /// Whether bodies come back as they were told: nobody only watches, and no model is renamed.
    verbatim: bool,
    chunk: usize,
    sides: [Side; 2],
}

/// One direction.
#[derive(Default)]
struct Side {
    full_duplex: bool,
    stage: Stage,
    told: Vec<u8>,
    heard: Vec<u8>,
    heard_end: bool,
    rank: u8,
}

/// How much of a direction was told.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Nothing,
    Headers,
    /// The last body piece, or trailers.
    End,
    /// Headers that said that no body comes.
    Bodyless,
}

impl Ledger {
    pub(super) fn new(modes: [i32; 2], observed: bool, chunk: usize) -> Self {
        let side = |mode| Side { full_duplex: mode >= FULL_DUPLEX, ..Side::default() };
        let silence = observed.then_some("an observer hears nothing");
        Self { silence, verbatim: !observed, chunk, sides: modes.map(side) }
    }

    /// Models are renamed by rules.
    pub(super) fn renames(&mut self) {
        self.verbatim = false;
    }

    pub(super) fn tell(&mut self, message: &ProcessingRequest) {
        let [asked, answered] = &mut self.sides;
        match &message.request {
            Some(Request::RequestHeaders(headers)) if asked.stage == Stage::Nothing => {
                let mut all = headers
                    .headers
                    .iter()
                    .flat_map(|map| HeaderMap::decode(&**map).expect("a header map").headers);
                self.verbatim &= !all.any(|header| header.key.ends_with(b"model-name-rewrite"));
                asked.headers(headers.end_of_stream);
            }
            Some(Request::RequestBody(body)) => asked.body(body),
            Some(Request::RequestTrailers(_)) => asked.trailers(),
            Some(Request::ResponseHeaders(headers)) if answered.stage == Stage::Nothing => {
                answered.headers(headers.end_of_stream);
            }
            Some(Request::ResponseBody(body)) => {
                answered.begin();
                answered.body(body);
            }
            Some(Request::ResponseTrailers(_)) => {
                answered.begin();
                answered.trailers();
            }
            Some(Request::RequestHeaders(_) | Request::ResponseHeaders(_)) | None => {}
        }
    }

    pub(super) fn hear(&mut self, reply: &ProcessingResponse) {
        assert_eq!(self.silence, None);
        let [asked, answered] = &mut self.sides;
        match reply.response.as_ref().expect("a reply says something") {
            Response::RequestHeaders(_) => asked.ranked(0),
            Response::RequestBody(body) => asked.piece(body, self.chunk),
            Response::RequestTrailers(_) => asked.ranked(2),
            Response::ResponseHeaders(_) => answered.ranked(0),
            Response::ResponseBody(body) => answered.piece(body, self.chunk),
            Response::ResponseTrailers(_) => answered.ranked(2),
            Response::ImmediateResponse(_) => self.silence = Some("nothing follows a refusal"),
        }
    }

    /// `ended` by us or the other side: then what was told need not have been sent on.
    pub(super) fn end(&self, ended: bool) {
        if !self.verbatim {
            return;
        }
        for side in self.sides.iter().filter(|side| side.full_duplex) {
            assert!(side.told.starts_with(&side.heard), "bytes are sent on once and in order");
            if side.stage == Stage::End && !ended {
                assert_eq!(side.told.len(), side.heard.len(), "all bytes are sent on");
            }
        }
    }
}

impl Side {
    fn headers(&mut self, end_of_stream: bool) {
        self.stage = if end_of_stream { Stage::Bodyless } else { Stage::Headers };
    }

    /// The answer may begin without headers.
    fn begin(&mut self) {
        if self.stage == Stage::Nothing {
            self.stage = Stage::Headers;
        }
    }

    fn body(&mut self, body: &HttpBody) {
        if self.stage == Stage::Headers {
            self.told.extend_from_slice(&body.body);
            if body.end_of_stream {
                self.stage = Stage::End;
            }
        }
    }

    fn trailers(&mut self) {
        if self.stage == Stage::Headers {
            self.stage = Stage::End;
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
