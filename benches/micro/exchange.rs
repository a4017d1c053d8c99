//! A whole exchange without transport: a chat of 1 kB, and an answer of 100 events that each come singly.
//!
//! What it costs to make the messages is in the figures; their bodies are shared, not copied.

use std::sync::Arc;
use std::time::Duration;

use lodesman::extproc::{Budget, Exchange, Next, Settings};
use lodesman::request::Parsers;
use lodesman::wire::processing_request::Request;
use lodesman::wire::{
    HeaderMap, HeaderValue, HttpBody, HttpHeaders, ProcessingRequest, ProtocolConfiguration,
};
use lodesman_e2e::wait::now;
use prost::Message as _;

use crate::json::chat;
use crate::measure::Bench;
use crate::pool::director;

const EVENTS: usize = 100;
const FULL_DUPLEX: i32 = 4;

const REQUEST_HEADERS: [(&str, &str); 12] = [
    (":authority", "gateway.example"),
    (":path", "/v1/chat/completions"),
    (":method", "POST"),
    (":scheme", "http"),
    ("accept", "application/json"),
    ("accept-encoding", "gzip, deflate"),
    ("authorization", "Bearer token"),
    ("content-type", "application/json"),
    ("user-agent", "OpenAI/Python 1.99.0"),
    ("x-stainless-runtime", "CPython"),
    ("x-forwarded-proto", "http"),
    ("x-request-id", "00000000-0000-4000-8000-000000000000"),
];

const ANSWER_HEADERS: [(&str, &str); 3] =
    [(":status", "200"), ("content-type", "text/event-stream"), ("server", "uvicorn")];

pub(crate) fn run(bench: &mut Bench) {
    let (director, _) = director(None, 16, |_| {});
    let (director, settings) = (Arc::new(director), Arc::new(settings()));
    let messages = messages();
    let mut dice = 0;
    bench.case("1 kB and 100 events, 16 endpoints", || {
        let mut exchange = Exchange::new(Arc::clone(&director), Arc::clone(&settings), 7);
        let mut replies = 0;
        for message in &messages {
            if exchange.receive(message.clone(), now()) == Next::Decide {
                dice += 1;
                let outcome = exchange.decide(dice).unwrap();
                exchange.decided(outcome, now());
            }
            replies += std::iter::from_fn(|| exchange.pop()).count();
        }
        assert_eq!(replies, messages.len() - 1, "the two pieces of the body have one reply");
        exchange.closed(now())
    });
}

fn settings() -> Settings {
    Settings {
        parsers: Parsers::default(),
        body_limit: 64 << 20,
        budget: Budget::new(1 << 30),
        flow: Arc::default(),
        hold: None,
        chunk_limit: 64 << 10,
        header_limit: 64 << 10,
        body_read_timeout: Duration::from_mins(1),
        idle_timeout: Some(Duration::from_mins(10)),
        destinations: 1,
        ignore_subset: false,
        report_served: false,
        report_decision: None,
        summary_namespace: Some("lodesman".to_owned()),
    }
}

fn messages() -> Vec<ProcessingRequest> {
    let body = |body: Vec<u8>, end_of_stream| HttpBody { body: body.into(), end_of_stream };
    let mut messages = vec![
        Request::RequestHeaders(headers(&REQUEST_HEADERS)),
        Request::RequestBody(body(chat("Tell me of the sea. ", 1_000), false)),
        Request::RequestBody(body(Vec::new(), true)),
        Request::ResponseHeaders(headers(&ANSWER_HEADERS)),
    ];
    messages.extend(
        (1..=EVENTS).map(|n| Request::ResponseBody(body(event(n).into_bytes(), n == EVENTS))),
    );
    let protocol_config = Some(ProtocolConfiguration {
        request_body_mode: FULL_DUPLEX,
        response_body_mode: FULL_DUPLEX,
    });
    let message = |request| ProcessingRequest {
        request: Some(request),
        protocol_config,
        ..ProcessingRequest::default()
    };
    messages.into_iter().map(message).collect()
}

fn headers(pairs: &[(&'static str, &'static str)]) -> HttpHeaders {
    let header = |&(key, value): &(&'static str, &'static str)| HeaderValue {
        key: key.into(),
        raw_value: value.into(),
        ..HeaderValue::default()
    };
    let map = HeaderMap { headers: pairs.iter().map(header).collect() };
    HttpHeaders { headers: Some(map.encode_to_vec().into()), end_of_stream: false }
}

/// Event `n`: a token, or at last the usage and the end mark.
fn event(n: usize) -> String {
    if n < EVENTS {
        return format!(
            "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\" {n}\"}}}}]}}\n\n"
        );
    }
    format!(
        "data: {{\"id\":\"c\",\"choices\":[],\"usage\":{{\"prompt_tokens\":250,\"completion_tokens\":{n},\"total_tokens\":{}}}}}\n\ndata: [DONE]\n\n",
        250 + n
    )
}
