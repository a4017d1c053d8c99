//! The server that anyone would write first: what `tonic` and `prost` generate from Envoy's protocol, as `envoy-types`
//! publishes it, a task and a channel for each stream, the same echoes as `lodesman --null`. Lodesman's transport is
//! measured against it.

use anyhow::Result;
use envoy_types::pb::envoy::config::core::v3::{HeaderValue, HeaderValueOption};
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_server::{
    ExternalProcessor, ExternalProcessorServer,
};
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request as Message;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response as Reply;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    BodyMutation, BodyResponse, CommonResponse, HeaderMutation, HeadersResponse, HttpBody,
    ProcessingRequest, ProcessingResponse, StreamedBodyResponse, TrailersResponse,
};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

/// Where every request is sent.
const CHOICE: (&str, &str) = ("x-gateway-destination-endpoint", "127.0.0.1:8000");
/// Overwrites the header, or adds it.
const OVERWRITE: i32 = 2;
/// Replies that may wait for the connection.
const WAITING: usize = 16;
/// Largest message, as Lodesman takes it.
const MESSAGE_BYTES: usize = 65 << 20;

/// Serves on `listener` until the future is dropped.
///
/// # Errors
/// When the listener fails.
pub async fn serve(listener: TcpListener) -> Result<()> {
    let incoming = TcpListenerStream::new(listener).map(|stream| {
        let stream = stream?;
        stream.set_nodelay(true)?;
        Ok::<_, std::io::Error>(stream)
    });
    let service = ExternalProcessorServer::new(Echo)
        .max_decoding_message_size(MESSAGE_BYTES)
        .max_encoding_message_size(MESSAGE_BYTES);
    let server = tonic::transport::Server::builder().add_service(service);
    Ok(server.serve_with_incoming(incoming).await?)
}

#[derive(Debug)]
struct Echo;

#[tonic::async_trait]
impl ExternalProcessor for Echo {
    type ProcessStream = ReceiverStream<Result<ProcessingResponse, Status>>;

    #[expect(clippy::disallowed_methods, reason = "as anyone would write it")]
    async fn process(
        &self,
        request: Request<Streaming<ProcessingRequest>>,
    ) -> Result<Response<Self::ProcessStream>, Status> {
        let (sender, replies) = mpsc::channel(WAITING);
        tokio::spawn(echo(request.into_inner(), sender));
        Ok(Response::new(ReceiverStream::new(replies)))
    }
}

async fn echo(
    mut requests: Streaming<ProcessingRequest>,
    replies: mpsc::Sender<Result<ProcessingResponse, Status>>,
) {
    while let Ok(Some(message)) = requests.message().await {
        let Some(request) = message.request else { continue };
        let response = Some(reply(request));
        let reply = ProcessingResponse { response, ..ProcessingResponse::default() };
        if replies.send(Ok(reply)).await.is_err() {
            return;
        }
    }
}

fn reply(request: Message) -> Reply {
    match request {
        Message::RequestHeaders(_) => Reply::RequestHeaders(chosen()),
        Message::ResponseHeaders(_) => Reply::ResponseHeaders(HeadersResponse::default()),
        Message::RequestBody(body) => Reply::RequestBody(echoed(body)),
        Message::ResponseBody(body) => Reply::ResponseBody(echoed(body)),
        Message::RequestTrailers(_) => Reply::RequestTrailers(TrailersResponse::default()),
        Message::ResponseTrailers(_) => Reply::ResponseTrailers(TrailersResponse::default()),
    }
}

fn chosen() -> HeadersResponse {
    let (key, value) = CHOICE;
    let header = HeaderValue { key: key.into(), raw_value: value.into(), ..HeaderValue::default() };
    let option = HeaderValueOption {
        header: Some(header),
        append_action: OVERWRITE,
        ..HeaderValueOption::default()
    };
    let mutation = HeaderMutation { set_headers: vec![option], remove_headers: Vec::new() };
    let header_mutation = Some(mutation);
    HeadersResponse {
        response: Some(CommonResponse { header_mutation, ..CommonResponse::default() }),
    }
}

fn echoed(HttpBody { body, end_of_stream, .. }: HttpBody) -> BodyResponse {
    let piece = StreamedBodyResponse { body, end_of_stream, ..StreamedBodyResponse::default() };
    let body_mutation = Some(BodyMutation { mutation: Some(Mutation::StreamedResponse(piece)) });
    BodyResponse { response: Some(CommonResponse { body_mutation, ..CommonResponse::default() }) }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;
    use crate::load::{Options, run};

    #[tokio::test]
    async fn every_byte_is_echoed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = listener.local_addr().unwrap();
        let mut server = JoinSet::new();
        server.spawn(serve(listener));
        for args in ["--body-bytes 0", "--body-bytes 300000 --events 20"] {
            let mut options = Options::parse(target, args).unwrap();
            options.requests = 50;
            let report = run(&options).await.unwrap();
            assert_eq!((report.served(), report.failed()), (50, 0), "{report}");
        }
    }
}
