//! One ext_proc stream as a gateway opens it, and its transcript.

use std::collections::HashMap;
use std::net::SocketAddr;

use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue, Metadata};
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_client::ExternalProcessorClient;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    HttpBody, HttpHeaders, HttpTrailers, ProcessingRequest, ProcessingResponse,
    ProtocolConfiguration,
};
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{ListValue, Struct, Value};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::render;
use super::rig::SOON;

pub(crate) const CHAT: &str = "/v1/chat/completions";
/// A body for [`CHAT`].
pub(crate) const HI: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
pub(crate) const COMPLETIONS: &str = "/v1/completions";

/// Messages that may wait to be sent.
const QUEUE: usize = 1024;

/// A stream. Dropping it resets it, as Envoy does.
pub(crate) struct Stream {
    sender: Option<mpsc::Sender<ProcessingRequest>>,
    replies: Streaming<ProcessingResponse>,
    /// What the next message has besides its kind.
    next: ProcessingRequest,
    log: String,
    pods: Vec<SocketAddr>,
}

impl Stream {
    pub(crate) async fn open(channel: Channel, pods: &[SocketAddr]) -> Result<Self, Status> {
        let (sender, queue) = mpsc::channel(QUEUE);
        let mut client = ExternalProcessorClient::new(channel).max_decoding_message_size(65 << 20);
        let replies = client.process(ReceiverStream::new(queue)).await?.into_inner();
        let next = ProcessingRequest::default();
        Ok(Self { sender: Some(sender), replies, next, log: String::new(), pods: pods.to_vec() })
    }

    /// Says with the next message which body modes the gateway uses, by Envoy's numbers.
    pub(crate) fn modes(&mut self, request: i32, response: i32) -> &mut Self {
        self.next.protocol_config = Some(ProtocolConfiguration {
            request_body_mode: request,
            response_body_mode: response,
            ..ProtocolConfiguration::default()
        });
        self
    }

    /// Says with the modes whether bodies come without waiting for the answer to the headers.
    pub(crate) fn ahead(&mut self, ahead: bool) -> &mut Self {
        let config = self.next.protocol_config.get_or_insert_default();
        config.send_body_without_waiting_for_header_response = ahead;
        self
    }

    /// Says with the next message that the gateway only lets us watch.
    pub(crate) fn observed(&mut self) -> &mut Self {
        self.next.observability_mode = true;
        self
    }

    /// Names with the next message the addresses that may be chosen.
    pub(crate) fn subset(&mut self, addresses: &[&str]) -> &mut Self {
        let values = addresses.iter().map(|&address| text(address)).collect();
        self.hint(Kind::ListValue(ListValue { values }))
    }

    /// Gives with the next message a subset hint of any kind.
    pub(crate) fn hint(&mut self, kind: Kind) -> &mut Self {
        let value = Value { kind: Some(kind) };
        self.metadata("envoy.lb.subset_hint", "x-gateway-destination-endpoint-subset", value)
    }

    /// Reports with the next message who answers.
    pub(crate) fn served_by(&mut self, address: SocketAddr) -> &mut Self {
        let value = text(&address.to_string());
        self.metadata("envoy.lb", "x-gateway-destination-endpoint-served", value)
    }

    fn metadata(&mut self, namespace: &str, key: &str, value: Value) -> &mut Self {
        let fields = HashMap::from([(key.to_owned(), value)]).into_iter().collect();
        let filter_metadata = HashMap::from([(namespace.to_owned(), Struct { fields })]);
        self.next.metadata_context = Some(Metadata { filter_metadata, ..Metadata::default() });
        self
    }

    /// Request headers of a POST with `x-request-id: id-1`; a body follows.
    pub(crate) fn post(&mut self, path: &str, more: &[(&str, &str)]) -> &mut Self {
        let usual = [(":method", "POST"), (":path", path), ("x-request-id", "id-1")];
        self.request_headers(&[&usual, more].concat(), false)
    }

    pub(crate) fn request_headers(&mut self, pairs: &[(&str, &str)], end: bool) -> &mut Self {
        self.tell(Request::RequestHeaders(headers(pairs, end)))
    }

    /// A piece of the request's body that is not the last.
    pub(crate) fn body(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.tell(Request::RequestBody(piece(bytes.as_ref(), false)))
    }

    /// The last piece of the request's body.
    pub(crate) fn last(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.tell(Request::RequestBody(piece(bytes.as_ref(), true)))
    }

    pub(crate) fn trailers(&mut self) -> &mut Self {
        self.tell(Request::RequestTrailers(HttpTrailers::default()))
    }

    /// Response headers with status 200; a body follows.
    pub(crate) fn answer(&mut self, content_type: &str) -> &mut Self {
        self.response_headers(&[(":status", "200"), ("content-type", content_type)], false)
    }

    pub(crate) fn response_headers(&mut self, pairs: &[(&str, &str)], end: bool) -> &mut Self {
        self.tell(Request::ResponseHeaders(headers(pairs, end)))
    }

    /// A piece of the answer's body that is not the last.
    pub(crate) fn chunk(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.tell(Request::ResponseBody(piece(bytes.as_ref(), false)))
    }

    /// The last piece of the answer's body.
    pub(crate) fn last_chunk(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.tell(Request::ResponseBody(piece(bytes.as_ref(), true)))
    }

    pub(crate) fn answer_trailers(&mut self) -> &mut Self {
        self.tell(Request::ResponseTrailers(HttpTrailers::default()))
    }

    /// Sends a message, along with what was set for it.
    pub(crate) fn tell(&mut self, message: Request) -> &mut Self {
        self.next.request = Some(message);
        self.send()
    }

    /// Sends what was set, without a message if none was.
    pub(crate) fn send(&mut self) -> &mut Self {
        let message = std::mem::take(&mut self.next);
        self.note('>', &render::request(&message));
        let sender = self.sender.as_ref().expect("not half-closed");
        sender.try_send(message).expect("the picker reads");
        self
    }

    /// Waits for so many replies.
    pub(crate) async fn hear(&mut self, count: usize) -> &mut Self {
        for _ in 0..count {
            self.reply().await;
        }
        self
    }

    /// Waits for the next reply.
    pub(crate) async fn reply(&mut self) -> ProcessingResponse {
        let reply = match self.message().await {
            Ok(Some(reply)) => reply,
            end => panic!("no reply but {end:?} after\n{}", self.log),
        };
        self.note('<', &render::response(&reply));
        reply
    }

    /// Waits for so many bytes of a body that is sent on piece by piece, and returns them.
    pub(crate) async fn relayed(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let reply = self.reply().await;
            bytes.extend_from_slice(render::streamed(&reply).expect("a piece of a body").0);
        }
        bytes
    }

    /// The address that the next reply, to headers or a buffered body, sends the request to.
    pub(crate) async fn placed(&mut self) -> SocketAddr {
        let reply = self.reply().await;
        let address = render::destination(&reply);
        address.unwrap_or_else(|| panic!("not placed:\n{}", self.log)).parse().expect("an address")
    }

    /// Waits for the picker to end the stream by itself; the transcript.
    pub(crate) async fn ended(mut self) -> String {
        let end = match self.message().await {
            Ok(None) => "END OK".to_owned(),
            Err(status) => format!("END {:?}", status.code()),
            Ok(Some(reply)) => panic!("no end but {reply:?} after\n{}", self.log),
        };
        self.note('<', &end);
        self.log
    }

    /// Half-closes, waits for the picker to end the stream; the transcript.
    pub(crate) async fn closed(mut self) -> String {
        self.sender = None;
        self.ended().await
    }

    /// The transcript so far.
    pub(crate) fn log(&self) -> &str {
        &self.log
    }

    async fn message(&mut self) -> Result<Option<ProcessingResponse>, Status> {
        let message = timeout(SOON, self.replies.message()).await;
        message.unwrap_or_else(|_| panic!("silence after\n{}", self.log))
    }

    fn note(&mut self, direction: char, what: &str) {
        let what = self.pods.iter().zip(1..).fold(what.to_owned(), |what, (pod, n): (_, u32)| {
            what.replace(&pod.to_string(), &format!("pod-{n}"))
        });
        self.log.extend([direction, ' ']);
        self.log.extend([&what, "\n"]);
    }
}

/// Status and body of a refusal; none when the reply is something else. A body that is no JSON is null.
pub(crate) fn refusal(reply: &ProcessingResponse) -> Option<(i32, serde_json::Value)> {
    let Some(Response::ImmediateResponse(immediate)) = &reply.response else { return None };
    let body = serde_json::from_slice(&immediate.body).unwrap_or_default();
    Some((immediate.status?.code, body))
}

fn headers(pairs: &[(&str, &str)], end_of_stream: bool) -> HttpHeaders {
    let header = |&(key, value): &(&str, &str)| HeaderValue {
        key: key.to_owned(),
        raw_value: value.as_bytes().to_vec(),
        ..HeaderValue::default()
    };
    let headers = Some(HeaderMap { headers: pairs.iter().map(header).collect() });
    HttpHeaders { headers, end_of_stream, ..HttpHeaders::default() }
}

fn piece(bytes: &[u8], end_of_stream: bool) -> HttpBody {
    HttpBody { body: bytes.to_vec(), end_of_stream, ..HttpBody::default() }
}

fn text(text: &str) -> Value {
    Value { kind: Some(Kind::StringValue(text.to_owned())) }
}
