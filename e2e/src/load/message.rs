//! The messages that Envoy sends, with the headers of a usual client.

use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue};
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    HttpBody, HttpHeaders, ProcessingRequest, ProtocolConfiguration,
};
use serde_json::json;

/// The id that stands for a request's own, see [`id`].
pub(super) const ID: &str = "00000000-0000-4000-8000-000000000000";
/// `FULL_DUPLEX_STREAMED` in Envoy's `BodySendMode`.
const FULL_DUPLEX: i32 = 4;

/// Which of the two bodies a message carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Request,
    Response,
}

/// A chat completion request of about `size` bytes whose prompt differs for each `number` from its
/// first word; empty if `size` is 0.
pub(super) fn chat_body(model: &str, number: usize, size: usize) -> Vec<u8> {
    if size == 0 {
        return Vec::new();
    }
    let body = |content: &str| {
        let message = json!({"role": "user", "content": content});
        json!({"model": model, "stream": true, "messages": [message]}).to_string()
    };
    let words = size.saturating_sub(body("").len());
    let content: String = (0..)
        .flat_map(|word| format!("{number}-{word} ").into_bytes())
        .map(char::from)
        .take(words)
        .collect();
    body(&content).into_bytes()
}

/// The id of request `number`.
pub(super) fn id(number: usize) -> String {
    format!("00000000-0000-4000-8000-{:012}", number % 1_000_000_000_000)
}

/// The first message of a stream, with [`ID`] as the id of its request.
pub(super) fn request_headers(body_bytes: usize) -> ProcessingRequest {
    let method = if body_bytes == 0 { "GET" } else { "POST" };
    let path = if body_bytes == 0 { "/v1/models" } else { "/v1/chat/completions" };
    let length = body_bytes.to_string();
    let headers = [
        (":authority", "gateway.example"),
        (":path", path),
        (":method", method),
        (":scheme", "http"),
        ("accept", "application/json"),
        ("accept-encoding", "gzip, deflate"),
        ("authorization", "Bearer load"),
        ("content-length", &length),
        ("content-type", "application/json"),
        ("user-agent", "lodesman-load"),
        ("x-stainless-arch", "x64"),
        ("x-stainless-async", "false"),
        ("x-stainless-lang", "python"),
        ("x-stainless-runtime", "CPython"),
        ("x-forwarded-proto", "http"),
        ("x-request-id", ID),
    ];
    let request = Request::RequestHeaders(http_headers(&headers, body_bytes == 0));
    let protocol_config = Some(ProtocolConfiguration {
        request_body_mode: FULL_DUPLEX,
        response_body_mode: FULL_DUPLEX,
        ..Default::default()
    });
    ProcessingRequest { protocol_config, request: Some(request), ..Default::default() }
}

/// The head of a streamed response.
pub(super) fn response_headers() -> ProcessingRequest {
    let headers = [(":status", "200"), ("content-type", "text/event-stream"), ("server", "load")];
    message(Request::ResponseHeaders(http_headers(&headers, false)))
}

/// A piece of a body.
pub(super) fn body(side: Side, bytes: &[u8], end_of_stream: bool) -> ProcessingRequest {
    let body = HttpBody { body: bytes.to_vec(), end_of_stream, ..Default::default() };
    message(match side {
        Side::Request => Request::RequestBody(body),
        Side::Response => Request::ResponseBody(body),
    })
}

/// Event `number` of `count`: a token, at last the usage and the end mark.
pub(super) fn event(number: usize, count: usize) -> String {
    if number + 1 < count {
        return format!(
            "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\" {number}\"}}}}]}}\n\n"
        );
    }
    format!(
        "data: {{\"id\":\"chatcmpl-1\",\"choices\":[],\"usage\":{{\"prompt_tokens\":1,\"completion_tokens\":{count},\"total_tokens\":{}}}}}\n\ndata: [DONE]\n\n",
        count + 1
    )
}

fn message(request: Request) -> ProcessingRequest {
    ProcessingRequest { request: Some(request), ..Default::default() }
}

fn http_headers(headers: &[(&str, &str)], end_of_stream: bool) -> HttpHeaders {
    let headers = headers.iter().map(|(key, value)| HeaderValue {
        key: (*key).to_owned(),
        raw_value: value.as_bytes().to_vec(),
        ..Default::default()
    });
    let headers = Some(HeaderMap { headers: headers.collect() });
    HttpHeaders { headers, end_of_stream, ..Default::default() }
}
