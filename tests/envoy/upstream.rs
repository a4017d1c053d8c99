//! A model server that sends back what it gets, body and trailers, and remembers it.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use lodesman_e2e::{Body, Piece};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A server; dropping it ends it.
pub(super) struct Echo {
    pub(super) address: SocketAddr,
    seen: watch::Receiver<Vec<Seen>>,
    _task: JoinSet<()>,
}

/// A request as it arrived.
#[derive(Clone)]
pub(super) struct Seen {
    pub(super) line: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) trailers: HeaderMap,
}

impl Echo {
    /// A server whose metrics page is empty.
    pub(super) async fn start() -> Self {
        Self::with_page(Response::default).await
    }

    /// A server with this metrics page.
    pub(super) async fn with_page(page: fn() -> Response<Body>) -> Self {
        Self::of(page, None).await
    }

    /// A server that sends nothing back but says this to everything.
    pub(super) async fn saying(answer: fn() -> Response<Body>) -> Self {
        Self::of(Response::default, Some(answer)).await
    }

    async fn of(page: fn() -> Response<Body>, said: Option<fn() -> Response<Body>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, seen) = watch::channel(Vec::new());
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, (page, said), sender.clone()));
            }
        });
        Self { address, seen, _task: task }
    }

    /// The latest request that came through Envoy, which gives each an id; the picker's own bear none.
    pub(super) fn last(&self) -> Seen {
        let through = |seen: &&Seen| seen.header("x-request-id").is_some();
        self.seen.borrow().iter().rev().find(through).unwrap().clone()
    }

    /// How many requests there were with this method and path.
    pub(super) fn count(&self, line: &str) -> usize {
        self.seen.borrow().iter().filter(|seen| seen.line == line).count()
    }
}

impl Seen {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// What a server has on its metrics page, and what it says if it does not send back what it gets.
type Words = (fn() -> Response<Body>, Option<fn() -> Response<Body>>);

async fn serve(stream: TcpStream, words: Words, seen: watch::Sender<Vec<Seen>>) {
    let answer = service_fn(|request| answer(request, words, seen.clone()));
    // A connection that breaks is its client's matter.
    drop(
        hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), answer)
            .await,
    );
}

async fn answer(
    request: Request<Incoming>,
    (page, said): Words,
    seen: watch::Sender<Vec<Seen>>,
) -> Result<Response<Body>, Infallible> {
    if request.uri() == "/metrics" {
        return Ok(page());
    }
    let (head, body) = request.into_parts();
    let line = format!("{} {}", head.method, head.uri);
    let Ok(body) = body.collect().await else { return Ok(Response::default()) };
    let trailers = body.trailers().cloned().unwrap_or_default();
    let body = body.to_bytes();
    let kind = head.headers.get("content-type").cloned();
    let echo = Seen { line, headers: head.headers, body: body.clone(), trailers: trailers.clone() };
    seen.send_modify(|seen| seen.push(echo));
    if let Some(said) = said {
        return Ok(said());
    }
    let mut response = if trailers.is_empty() {
        Response::new(Body::full(body))
    } else {
        Response::new(Body::pieces([Piece::Data(body), Piece::Trailers(trailers)]))
    };
    response.headers_mut().extend(kind.map(|kind| (http::header::CONTENT_TYPE, kind)));
    response.headers_mut().insert("trailer", http::HeaderValue::from_static("x-end"));
    Ok(response)
}
