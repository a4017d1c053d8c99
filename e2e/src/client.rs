//! An HTTP/1.1 and h2c client for tests: sends bodies in pieces, reads answers chunk by chunk.

mod body;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

pub use body::{Body, Piece};

use crate::wait::now;

/// Opens one connection per request, so that requests share nothing.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    address: SocketAddr,
    version: Version,
}

/// The HTTP version of a [`Client`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 without TLS, by prior knowledge.
    Http2,
}

impl Client {
    /// A client of the HTTP/1.1 server at `address`.
    pub fn http1(address: SocketAddr) -> Self {
        Self { address, version: Version::Http1 }
    }

    /// A client of the h2c server at `address`.
    pub fn http2(address: SocketAddr) -> Self {
        Self { address, version: Version::Http2 }
    }

    /// Sends a GET request and reads the whole answer.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn get(&self, path: &str) -> Result<Answer> {
        Ok(self.send(Request::get(path).body(Body::default())?).await?.collect().await)
    }

    /// Posts JSON and reads the whole answer.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn post(&self, path: &str, json: &serde_json::Value) -> Result<Answer> {
        let request = Request::post(path)
            .header("content-type", "application/json")
            .body(Body::full(json.to_string()))?;
        Ok(self.send(request).await?.collect().await)
    }

    /// Sends a request whose URI is a path and waits for the head of the answer. `host` (or
    /// `:authority`) is the server's address unless the request says otherwise.
    ///
    /// # Errors
    /// When the server cannot be reached or closes without an answer.
    pub async fn send(&self, request: Request<Body>) -> Result<Response> {
        let started = now();
        let mut connection = JoinSet::new();
        let stream = TcpStream::connect(self.address)
            .await
            .with_context(|| format!("could not connect to {}", self.address))?;
        stream.set_nodelay(true)?;
        let io = TokioIo::new(stream);
        let request = self.addressed(request)?;
        let response = match self.version {
            Version::Http1 => {
                let (mut sender, driver) = hyper::client::conn::http1::handshake(io).await?;
                connection.spawn(driver);
                sender.send_request(request).await?
            }
            Version::Http2 => {
                let (mut sender, driver) =
                    hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await?;
                connection.spawn(driver);
                sender.send_request(request).await?
            }
        };
        let (head, body) = response.into_parts();
        let (status, headers) = (head.status, head.headers);
        Ok(Response { status, headers, trailers: None, body, started, _connection: connection })
    }

    fn addressed(&self, mut request: Request<Body>) -> Result<Request<Body>> {
        let authority = match request.headers_mut().remove(http::header::HOST) {
            Some(host) => host.to_str()?.to_owned(),
            None => self.address.to_string(),
        };
        match self.version {
            Version::Http1 => {
                request.headers_mut().insert(http::header::HOST, authority.parse()?);
            }
            Version::Http2 => {
                let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
                *request.uri_mut() = format!("http://{authority}{path}").parse()?;
            }
        }
        Ok(request)
    }
}

/// The head of an answer and its unread body. Dropping it closes the connection.
#[derive(Debug)]
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The trailers, once [`Response::chunk`] has returned `None`; absent if there were none.
    pub trailers: Option<HeaderMap>,
    body: Incoming,
    started: Instant,
    _connection: JoinSet<hyper::Result<()>>,
}

impl Response {
    /// The next piece of the body as it arrives; `None` at its end.
    ///
    /// # Errors
    /// When the body is cut off.
    pub async fn chunk(&mut self) -> Result<Option<Chunk>> {
        while let Some(frame) = self.body.frame().await.transpose()? {
            match frame.into_data() {
                Ok(data) => return Ok(Some(Chunk { at: self.started.elapsed(), data })),
                Err(other) => self.trailers = other.into_trailers().ok(),
            }
        }
        Ok(None)
    }

    /// Reads the body to its end.
    pub async fn collect(mut self) -> Answer {
        let mut chunks = Vec::new();
        let broken = loop {
            match self.chunk().await {
                Ok(Some(chunk)) => chunks.push(chunk),
                Ok(None) => break None,
                Err(error) => break Some(format!("{error:#}")),
            }
        };
        let Self { status, headers, trailers, .. } = self;
        Answer { status, headers, chunks, trailers, broken }
    }
}

/// A piece of an answer's body.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// Time from the start of the request, connecting included.
    pub at: Duration,
    /// The bytes, as the network delivered them.
    pub data: Bytes,
}

/// An answer that was read to its end.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body in pieces.
    pub chunks: Vec<Chunk>,
    /// The trailers, if any.
    pub trailers: Option<HeaderMap>,
    /// Why the body ended early; absent if it is complete.
    pub broken: Option<String>,
}

impl Answer {
    /// The body in one piece, as text; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> String {
        let bytes: Vec<u8> = self.chunks.iter().flat_map(|chunk| &chunk.data).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// When it is not JSON.
    pub fn json(&self) -> Result<serde_json::Value> {
        serde_json::from_str(&self.text())
            .with_context(|| format!("status {}, body is not JSON", self.status))
    }

    /// A header's text; absent if it is missing or not ASCII.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}
