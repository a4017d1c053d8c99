//! What the tests of several listeners share: free ports and a client that writes HTTP/2 by hand.

use std::net::{Ipv4Addr, SocketAddr};

use fluke_hpack::Decoder;
use prometheus::{IntCounterVec, Opts};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::listener::{Incoming, Security, bind_to};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A counter with the one label `label`.
pub(super) fn counter(label: &str) -> IntCounterVec {
    IntCounterVec::new(Opts::new("events", "help"), &[label]).unwrap()
}

/// A listener on a free loopback port.
pub(super) fn port(security: Security, refused: IntCounterVec) -> (SocketAddr, Incoming) {
    let tcp = bind_to((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    (tcp.local_addr().unwrap(), Incoming::new(tcp, security, refused))
}

pub(super) fn plain_port() -> (SocketAddr, Incoming) {
    port(Security::PlainOnly, counter("reason"))
}

/// An HTTP/2 client that writes its frames by hand, as no library would send what Envoy sends.
pub(super) struct RawClient<S> {
    stream: S,
    decoder: Decoder<'static>,
    next_stream: u32,
}

/// One frame.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) payload: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> RawClient<S> {
    pub(super) async fn new(mut stream: S) -> Self {
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        let mut client = Self { stream, decoder: Decoder::new(), next_stream: 1 };
        client.send(SETTINGS, 0, 0, &[]).await;
        client
    }

    pub(super) async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        self.stream.write_all(&[&head, payload].concat()).await.unwrap();
    }

    pub(super) async fn frame(&mut self) -> std::io::Result<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        self.stream.read_exact(&mut payload).await?;
        Ok(Frame { kind: head[3], flags: head[4], payload })
    }

    /// Calls the health service for `""`; `authority` is the HPACK field that Envoy would send.
    pub(super) async fn begin(&mut self, method: &str, authority: &[u8]) -> u32 {
        let stream = self.next_stream;
        self.next_stream += 2;
        let path = format!("/grpc.health.v1.Health/{method}");
        // POST, scheme http, path, authority, te and content-type as literals without indexing
        let mut block = vec![0x83, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
        block.extend_from_slice(path.as_bytes());
        block.extend_from_slice(authority);
        block.extend_from_slice(b"\x00\x02te\x08trailers\x0f\x10\x10application/grpc");
        self.send(HEADERS, END_HEADERS, stream, &block).await;
        self.send(DATA, END_STREAM, stream, &[0; 5]).await;
        stream
    }

    /// The `grpc-status` of a call, or `None` when the stream or the connection was ended instead.
    pub(super) async fn status(&mut self) -> Option<u32> {
        loop {
            let frame = self.frame().await.ok()?;
            let fields = match frame.kind {
                HEADERS => self.decoder.decode(&frame.payload).unwrap(),
                RST_STREAM | GOAWAY => return None,
                _ => Vec::new(),
            };
            if let Some((_, status)) = fields.into_iter().find(|field| field.0 == b"grpc-status") {
                return str::from_utf8(&status).unwrap().parse().ok();
            }
        }
    }

    pub(super) async fn call(&mut self, authority: &[u8]) -> Option<u32> {
        self.begin("Check", authority).await;
        self.status().await
    }
}
