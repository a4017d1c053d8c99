//! A gRPC message stream on plain HTTP/2, so that it can be reset as Envoy resets it and costs the
//! machine under test little.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use envoy_types::pb::envoy::service::ext_proc::v3::{ProcessingRequest, ProcessingResponse};
use h2::client::SendRequest;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request};
use prost::Message as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Receive windows, as recommended for the picker's cluster in Envoy.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;
/// Compression flag and length before each message.
const PREFIX_BYTES: usize = 5;

/// An HTTP/2 connection to the server; clones share it, the last one closes it.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    sender: SendRequest<Bytes>,
    uri: String,
    _driver: Arc<JoinSet<Result<(), h2::Error>>>,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)
            .await
            .with_context(|| format!("could not connect to {address}"))?;
        stream.set_nodelay(true)?;
        let (sender, connection) = h2::client::Builder::new()
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .handshake(stream)
            .await?;
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        let uri = format!("http://{address}/envoy.service.ext_proc.v3.ExternalProcessor/Process");
        Ok(Self { sender, uri, _driver: Arc::new(driver) })
    }

    /// Opens a stream, waiting while the server allows no more of them.
    pub(super) async fn stream(&self) -> Result<Stream> {
        let mut sender = self.sender.clone().ready().await?;
        let request = Request::post(&self.uri)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())?;
        let (response, send) = sender.send_request(request, false)?;
        let receive = Receiver { response: Some(response), body: None, buffer: BytesMut::new() };
        Ok(Stream { send: Sender { stream: send }, receive })
    }
}

/// One `ext_proc` stream. Dropping it resets it with CANCEL.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) send: Sender,
    pub(super) receive: Receiver,
}

/// The sending half.
#[derive(Debug)]
pub(super) struct Sender {
    stream: SendStream<Bytes>,
}

impl Sender {
    /// Sends a message; returns when the flow-control window has taken all of it.
    pub(super) async fn send(&mut self, message: &ProcessingRequest) -> Result<()> {
        let length = message.encoded_len();
        let mut frame = BytesMut::with_capacity(PREFIX_BYTES + length);
        frame.put_u8(0);
        frame.put_u32(u32::try_from(length)?);
        message.encode(&mut frame)?;
        let mut frame = frame.freeze();
        while !frame.is_empty() {
            self.stream.reserve_capacity(frame.len());
            let granted = poll_fn(|cx| self.stream.poll_capacity(cx)).await;
            let granted = granted.context("the server closed the stream")??;
            self.stream.send_data(frame.split_to(granted.min(frame.len())), false)?;
        }
        Ok(())
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.stream.send_reset(Reason::CANCEL);
    }
}

/// The receiving half.
#[derive(Debug)]
pub(super) struct Receiver {
    response: Option<h2::client::ResponseFuture>,
    body: Option<RecvStream>,
    buffer: BytesMut,
}

impl Receiver {
    /// The next message.
    pub(super) async fn message(&mut self) -> Result<ProcessingResponse> {
        loop {
            if let Some(message) = self.buffered()? {
                return Ok(ProcessingResponse::decode(message)?);
            }
            self.fill().await?;
        }
    }

    fn buffered(&mut self) -> Result<Option<Bytes>> {
        let Some((&[compressed, a, b, c, d], rest)) = self.buffer.split_first_chunk() else {
            return Ok(None);
        };
        ensure!(compressed == 0, "the server compresses without being asked");
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if rest.len() < length {
            return Ok(None);
        }
        self.buffer.advance(PREFIX_BYTES);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }

    async fn fill(&mut self) -> Result<()> {
        if let Some(response) = self.response.take() {
            let response = response.await?;
            ensure!(response.status().is_success(), "HTTP status {}", response.status());
            check(response.headers())?;
            self.body = Some(response.into_body());
        }
        let body = self.body.as_mut().context("no response")?;
        match body.data().await.transpose()? {
            Some(data) => {
                body.flow_control().release_capacity(data.len())?;
                self.buffer.extend_from_slice(&data);
                Ok(())
            }
            None => match body.trailers().await? {
                Some(trailers) => check(&trailers).and(Err(anyhow!("the server ended the stream"))),
                None => bail!("the server ended the stream without a status"),
            },
        }
    }
}

/// Fails if the headers carry a gRPC status other than OK.
fn check(headers: &HeaderMap) -> Result<()> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    match text("grpc-status") {
        None | Some("0") => Ok(()),
        Some(code) => bail!("gRPC status {code}: {}", text("grpc-message").unwrap_or_default()),
    }
}
