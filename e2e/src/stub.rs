//! A picker that always chooses the same endpoint, and a model server that echoes.

use std::collections::HashMap;
use std::future::ready;
use std::net::SocketAddr;
use std::pin::Pin;

use envoy_types::pb::envoy::config::core::v3::{HeaderValue, HeaderValueOption};
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_server::{
    ExternalProcessor, ExternalProcessorServer,
};
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request as Message;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response as Reply;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    BodyMutation, BodyResponse, CommonResponse, HeaderMutation, HeadersResponse, HttpBody,
    ImmediateResponse, ProcessingRequest, ProcessingResponse, StreamedBodyResponse,
    TrailersResponse,
};
use envoy_types::pb::envoy::r#type::v3::HttpStatus;
use envoy_types::pb::google::protobuf::{Struct, Value, value::Kind};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Status, Streaming};

const KEY: &str = "x-gateway-destination-endpoint";

/// A model server that sends every request body back, trailers included, and names itself.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    _task: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let echo = service_fn(move |request| ready(echoed(request, address)));
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), echo);
                connections.spawn(connection);
            }
        });
        Self { address, _task: task }
    }
}

fn echoed(request: Request<Incoming>, address: SocketAddr) -> http::Result<Response<Incoming>> {
    Response::builder()
        .header("x-served-by", address.to_string())
        .header("trailer", "x-end")
        .body(request.into_body())
}

/// A picker that answers each message in turn.
#[derive(Debug)]
pub(crate) struct StubPicker {
    pub(crate) address: SocketAddr,
    seen: watch::Receiver<Vec<ProcessingRequest>>,
    _task: JoinSet<()>,
}

impl StubPicker {
    /// Always chooses `choice` and changes nothing.
    pub(crate) async fn start(choice: SocketAddr) -> Self {
        Self::serve(Behavior::Choose(choice)).await
    }

    /// Always chooses `choice` and changes a byte of each piece of a body.
    pub(crate) async fn altering(choice: SocketAddr) -> Self {
        Self::serve(Behavior::Alter(choice)).await
    }

    /// Answers with 429 and ends the stream.
    pub(crate) async fn refusing() -> Self {
        Self::serve(Behavior::Refuse).await
    }

    async fn serve(behavior: Behavior) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, seen) = watch::channel(Vec::new());
        let service = ExternalProcessorServer::new(Service { behavior, seen: sender });
        let mut task = JoinSet::new();
        task.spawn(async move {
            let incoming = TcpListenerStream::new(listener).map(|stream| {
                let stream = stream?;
                stream.set_nodelay(true)?;
                Ok::<_, std::io::Error>(stream)
            });
            tonic::transport::Server::builder()
                .add_service(service.max_decoding_message_size(usize::MAX))
                .serve_with_incoming(incoming)
                .await
                .unwrap();
        });
        Self { address, seen, _task: task }
    }

    /// All messages so far.
    pub(crate) fn messages(&self) -> Vec<ProcessingRequest> {
        self.seen.borrow().clone()
    }
}

/// What a stub picker does.
#[derive(Debug, Clone, Copy)]
enum Behavior {
    Choose(SocketAddr),
    Alter(SocketAddr),
    Refuse,
}

struct Service {
    behavior: Behavior,
    seen: watch::Sender<Vec<ProcessingRequest>>,
}

#[tonic::async_trait]
impl ExternalProcessor for Service {
    type ProcessStream = Pin<Box<dyn Stream<Item = Result<ProcessingResponse, Status>> + Send>>;

    async fn process(
        &self,
        request: tonic::Request<Streaming<ProcessingRequest>>,
    ) -> Result<tonic::Response<Self::ProcessStream>, Status> {
        let (behavior, seen) = (self.behavior, self.seen.clone());
        let mut duplex = false;
        let replies = request.into_inner().map(move |message| {
            let message = message?;
            duplex |= message.protocol_config.is_some_and(|config| config.request_body_mode == 4);
            seen.send_modify(|seen| seen.push(message.clone()));
            Ok(reply(message, behavior, duplex))
        });
        if let Behavior::Refuse = behavior {
            return Ok(tonic::Response::new(Box::pin(replies.take(1))));
        }
        Ok(tonic::Response::new(Box::pin(replies)))
    }
}

/// Answers one message; in full duplex, bodies are echoed, else left as they are.
fn reply(message: ProcessingRequest, behavior: Behavior, duplex: bool) -> ProcessingResponse {
    let (choice, alter) = match behavior {
        Behavior::Choose(choice) => (choice.to_string(), false),
        Behavior::Alter(choice) => (choice.to_string(), true),
        Behavior::Refuse => return refusal(),
    };
    let echo = |body: HttpBody| if duplex { echo(body, alter) } else { BodyResponse::default() };
    let mut dynamic_metadata = None;
    let response = match message.request.unwrap() {
        Message::RequestHeaders(_) => {
            dynamic_metadata = Some(metadata(&choice));
            Reply::RequestHeaders(HeadersResponse { response: Some(picked(&choice)) })
        }
        Message::ResponseHeaders(_) => Reply::ResponseHeaders(HeadersResponse::default()),
        Message::RequestBody(body) => Reply::RequestBody(echo(body)),
        Message::ResponseBody(body) => Reply::ResponseBody(echo(body)),
        Message::RequestTrailers(_) => Reply::RequestTrailers(TrailersResponse::default()),
        Message::ResponseTrailers(_) => Reply::ResponseTrailers(TrailersResponse::default()),
    };
    ProcessingResponse { dynamic_metadata, response: Some(response), ..Default::default() }
}

fn refusal() -> ProcessingResponse {
    let status = Some(HttpStatus { code: 429 });
    let answer = ImmediateResponse { status, ..Default::default() };
    ProcessingResponse { response: Some(Reply::ImmediateResponse(answer)), ..Default::default() }
}

fn echo(mut body: HttpBody, alter: bool) -> BodyResponse {
    if let (true, Some(byte)) = (alter, body.body.first_mut()) {
        *byte ^= 1;
    }
    let streamed = StreamedBodyResponse {
        body: body.body,
        end_of_stream: body.end_of_stream,
        ..Default::default()
    };
    let mutation = BodyMutation { mutation: Some(Mutation::StreamedResponse(streamed)) };
    BodyResponse {
        response: Some(CommonResponse { body_mutation: Some(mutation), ..Default::default() }),
    }
}

fn picked(choice: &str) -> CommonResponse {
    let header = HeaderValue { key: KEY.into(), raw_value: choice.into(), ..Default::default() };
    let option = HeaderValueOption { header: Some(header), append_action: 2, ..Default::default() };
    let mutation = HeaderMutation { set_headers: vec![option], remove_headers: Vec::new() };
    CommonResponse { header_mutation: Some(mutation), ..Default::default() }
}

fn metadata(choice: &str) -> Struct {
    let text = Value { kind: Some(Kind::StringValue(choice.to_owned())) };
    let inner = Struct { fields: HashMap::from([(KEY.to_owned(), text)]) };
    let outer = Value { kind: Some(Kind::StructValue(inner)) };
    Struct { fields: HashMap::from([("envoy.lb".to_owned(), outer)]) }
}

/// The first bytes that a peer sends on the next connection.
pub(crate) async fn first_bytes(listener: &TcpListener) -> Vec<u8> {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut bytes = vec![0; 4096];
    let length = stream.read(&mut bytes).await.unwrap();
    bytes.truncate(length);
    bytes
}
