//! A receiver of traces: OTLP over gRPC, by the messages that OpenTelemetry publishes.

use std::net::SocketAddr;

use anyhow::Result;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, async_trait};

/// A receiver on a port of the kernel's choice; dropping it ends it.
#[derive(Debug)]
pub struct Receiver {
    /// Where it listens.
    pub address: SocketAddr,
    received: watch::Receiver<Vec<Received>>,
    _task: JoinSet<()>,
}

/// A span that has come.
#[derive(Clone, Debug)]
pub struct Received {
    /// The span.
    pub span: Span,
    /// What it is of.
    pub resource: Value,
    /// The header `authorization` of the call.
    pub authorization: Option<String>,
}

#[derive(Debug)]
struct Service(watch::Sender<Vec<Received>>);

impl Receiver {
    /// A receiver that listens.
    ///
    /// # Errors
    /// When there is no port for it.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (sender, received) = watch::channel(Vec::new());
        let service = TraceServiceServer::new(Service(sender));
        let mut task = JoinSet::new();
        task.spawn(async move {
            let server = tonic::transport::Server::builder().add_service(service);
            // What breaks here shows as spans that do not come.
            drop(server.serve_with_incoming(TcpListenerStream::new(listener)).await);
        });
        Ok(Self { address, received, _task: task })
    }

    /// All spans so far, in the order in which they came.
    pub fn spans(&self) -> Vec<Received> {
        self.received.borrow().clone()
    }
}

impl Received {
    /// An attribute; null where it has none of that name.
    pub fn attribute(&self, name: &str) -> Value {
        pairs(&self.span.attributes).get(name).cloned().unwrap_or_default()
    }

    /// Name and attributes of each event.
    pub fn events(&self) -> Vec<(&str, Value)> {
        let events = self.span.events.iter();
        events.map(|event| (event.name.as_str(), pairs(&event.attributes).into())).collect()
    }
}

#[async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let authorization = request.metadata().get("authorization");
        let authorization = authorization.and_then(|value| Some(value.to_str().ok()?.to_owned()));
        let mut come = Vec::new();
        for of_resource in request.into_inner().resource_spans {
            let resource = of_resource.resource.map(|it| pairs(&it.attributes)).unwrap_or_default();
            for span in of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                let (resource, authorization) = (resource.clone().into(), authorization.clone());
                come.push(Received { span, resource, authorization });
            }
        }
        self.0.send_modify(|received| received.extend(come));
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn pairs(attributes: &[KeyValue]) -> Map<String, Value> {
    let pair = |pair: &KeyValue| (pair.key.clone(), json(pair.value.as_ref()));
    attributes.iter().map(pair).collect()
}

fn json(value: Option<&AnyValue>) -> Value {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Any::StringValue(text)) => json!(text),
        Some(Any::BoolValue(truth)) => json!(truth),
        Some(Any::IntValue(number)) => json!(number),
        Some(Any::DoubleValue(number)) => json!(number),
        Some(Any::ArrayValue(list)) => list.values.iter().map(|value| json(Some(value))).collect(),
        _ => Value::Null,
    }
}
