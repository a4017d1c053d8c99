//! A gRPC message stream on plain HTTP/2, so that it can be reset as Envoy resets it and costs the
//! machine under test little.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use bytes::{Buf as _, Bytes, BytesMut};
use h2::client::SendRequest;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::plan::PREFIX_BYTES;

/// Receive windows, as recommended for the picker's cluster in Envoy.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;

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
        let receive =
            Receiver { response: Some(response), body: None, buffer: BytesMut::new(), read: 0 };
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
    /// Sends an encoded message: at once where the flow-control window has room for it, so that messages sent one
    /// after the other leave together, else when it has taken all of it.
    pub(super) async fn send(&mut self, mut frame: Bytes) -> Result<()> {
        self.stream.reserve_capacity(frame.len());
        while self.stream.capacity() < frame.len() {
            let granted = poll_fn(|cx| self.stream.poll_capacity(cx)).await;
            let granted = granted.context("the server closed the stream")??;
            if granted > 0 {
                self.stream.send_data(frame.split_to(granted.min(frame.len())), false)?;
                self.stream.reserve_capacity(frame.len());
            }
        }
        if !frame.is_empty() {
            self.stream.send_data(frame, false)?;
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
    /// Bytes of `buffer` that were read.
    read: usize,
}

impl Receiver {
    /// The next message.
    pub(super) async fn message(&mut self) -> Result<&[u8]> {
        self.buffer.advance(self.read);
        self.read = 0;
        loop {
            if let Some(length) = self.whole()? {
                self.read = PREFIX_BYTES + length;
                return Ok(self.buffer.get(PREFIX_BYTES..self.read).unwrap_or_default());
            }
            self.fill().await?;
        }
    }

    /// The length of the first message, once all of it is there.
    fn whole(&self) -> Result<Option<usize>> {
        let Some((&[compressed, a, b, c, d], rest)) = self.buffer.split_first_chunk() else {
            return Ok(None);
        };
        ensure!(compressed == 0, "the server compresses without being asked");
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        Ok((rest.len() >= length).then_some(length))
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
