//! The null server: our transport without a picker.
//!
//! It decodes every message and answers it at once: the same destination for all requests, bodies echoed. What the
//! picker costs is what it costs above this.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::extproc::{DESTINATION, End, set};
use crate::server::grpc::{Machine, Machines};
use crate::wire::body_mutation::Mutation;
use crate::wire::processing_request::Request;
use crate::wire::processing_response::Response;
use crate::wire::{
    BodyMutation, BodyResponse, CommonResponse, HeaderMutation, HeadersResponse, HttpBody,
    ProcessingRequest, ProcessingResponse, StreamedBodyResponse, TrailersResponse,
};

/// Where every request is sent.
const ADDRESS: &str = "127.0.0.1:8000";

/// Makes echoes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Null;

/// Echoes one stream.
#[derive(Debug, Default)]
pub struct Echo {
    replies: VecDeque<ProcessingResponse>,
    end: Option<End>,
}

impl Machines for Null {
    type Machine = Echo;

    fn machine(&self) -> Echo {
        Echo::default()
    }
}

impl Machine for Echo {
    fn receive(&mut self, message: ProcessingRequest, _: Instant) -> bool {
        let response = message.request.map(|request| match request {
            Request::RequestHeaders(_) => Response::RequestHeaders(destined()),
            Request::ResponseHeaders(_) => Response::ResponseHeaders(HeadersResponse::default()),
            Request::RequestBody(body) => Response::RequestBody(echo(body)),
            Request::ResponseBody(body) => Response::ResponseBody(echo(body)),
            Request::RequestTrailers(_) => Response::RequestTrailers(TrailersResponse {}),
            Request::ResponseTrailers(_) => Response::ResponseTrailers(TrailersResponse {}),
        });
        self.replies.extend(response.map(Into::into));
        false
    }

    fn proceed(&mut self) -> bool {
        false
    }

    fn pop(&mut self) -> Option<ProcessingResponse> {
        self.replies.pop_front()
    }

    fn end(&self) -> Option<End> {
        self.end
    }

    fn half_closed(&mut self) {
        self.end = Some(End::Ok);
    }

    fn patience(&self) -> Option<Duration> {
        None
    }

    fn lost_patience(&mut self) {
        self.end = Some(End::Ok);
    }

    fn failed(&mut self) {
        self.end = Some(End::Internal);
    }

    fn closed(&mut self, _: Instant) {}
}

fn destined() -> HeadersResponse {
    let set_headers = vec![set(DESTINATION, ADDRESS)];
    let header_mutation = Some(HeaderMutation { set_headers, remove_headers: Vec::new() });
    HeadersResponse {
        response: Some(CommonResponse { header_mutation, ..CommonResponse::default() }),
    }
}

fn echo(HttpBody { body, end_of_stream }: HttpBody) -> BodyResponse {
    let mutation = Mutation::StreamedResponse(StreamedBodyResponse { body, end_of_stream });
    let body_mutation = Some(BodyMutation { mutation: Some(mutation) });
    BodyResponse { response: Some(CommonResponse { body_mutation, ..CommonResponse::default() }) }
}

impl From<Response> for ProcessingResponse {
    fn from(response: Response) -> Self {
        Self { response: Some(response), dynamic_metadata: None }
    }
}
