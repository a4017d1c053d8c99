use std::net::SocketAddr;

use lodesman_e2e::otlp::Receiver;
use serde_json::json;

use super::*;
use crate::metrics::Metrics;
use crate::server::clock;
use crate::spans::{self, Kind, Sampler, Tracer, Tree};

const CLOCKS: Clocks = Clocks { now: clock::now, calendar: clock::calendar };

/// A tracer, and the sending of what it takes.
fn tracing(address: SocketAddr) -> (Tracer, TraceMetrics, impl Future<Output = ()>) {
    let metrics = Metrics::new("ns", "pool", false).unwrap().traces.clone();
    let value = |name: &str| match name {
        "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(format!("http://{address}")),
        "OTEL_EXPORTER_OTLP_HEADERS" => Some("authorization=Bearer%20t0ken".to_owned()),
        _ => None,
    };
    let traces = Traces::read(value).unwrap().unwrap();
    let exporter = Exporter::new(&traces, CLOCKS, metrics.clone()).unwrap();
    let (begun, requests) = Tracer::new(Sampler::new(1.0, true), metrics.clone());
    (begun, metrics, exporter.run(requests))
}

fn tree() -> Tree {
    let now = clock::now();
    let mut span =
        spans::Span::new("a", Kind::Internal, (2, 1), (now, now + Duration::from_secs(1)))
            .with("text", "t")
            .with("number", 7u64)
            .with("list", [0.5].into_iter().collect::<spans::Value>());
    span.error = Some("why".to_owned());
    Tree { trace_id: 3, state: "v=1".into(), spans: vec![span] }
}

#[tokio::test]
async fn what_waits_is_sent_when_nobody_traces_any_more() {
    let receiver = Receiver::start().await.unwrap();
    let (tracer, metrics, sending) = tracing(receiver.address);
    tracer.trace(0, tree);
    tracer.trace(0, tree);
    drop(tracer);
    sending.await;
    let spans = receiver.spans();
    assert_eq!((spans.len(), metrics.exported.get()), (2, 2));
    let span = &spans[0].span;
    assert_eq!((span.name.as_str(), span.trace_state.as_str(), span.kind), ("a", "v=1", 1));
    assert_eq!(span.trace_id, 3u128.to_be_bytes());
    assert_eq!(
        (&span.span_id[..], &span.parent_span_id[..]),
        (&2u64.to_be_bytes()[..], &1u64.to_be_bytes()[..])
    );
    assert_eq!(span.end_time_unix_nano - span.start_time_unix_nano, 1_000_000_000);
    let since = clock::calendar().as_nanos() - u128::from(span.start_time_unix_nano);
    assert!(since < Duration::from_mins(1).as_nanos(), "{since}");
    let status = span.status.as_ref().unwrap();
    assert_eq!((status.message.as_str(), status.code), ("why", 2));
    assert_eq!(
        ["text", "number", "list"].map(|name| spans[0].attribute(name)),
        [json!("t"), json!(7), json!([0.5])]
    );
    assert_eq!(spans[0].resource["service.name"], "llm-d-epp");
    assert_eq!(spans[0].authorization.as_deref(), Some("Bearer t0ken"));
}

#[tokio::test]
async fn what_nobody_takes_is_counted_and_gone() {
    // Bound for the test, and nobody listens.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((std::net::Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let (tracer, metrics, sending) = tracing(socket.local_addr().unwrap());
    tracer.trace(0, tree);
    drop(tracer);
    sending.await;
    assert_eq!((metrics.exported.get(), metrics.failed.get()), (0, 1));
}
