//! HTTP/1: metrics and probes on the metrics port, insight and what can be set on the admin port.
//!
//! [`serve_http`] bounds what a client can hold: headers must come within 30 s, a connection lives
//! for 5 minutes at most, and beyond 256 connections the oldest is closed.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Query};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use prometheus::TEXT_FORMAT;
use rustls::ServerConfig;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use super::guard::{Guard, refused};
use super::health::Health;
use super::listener::pause_after;
use super::said::Said;
use super::tasks::Tasks;

/// Time for the headers of a request, and so for the silence between two requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest life of a connection; the request under way then has [`LAST_REQUEST`].
const CONNECTION_AGE: Duration = Duration::from_mins(5);

/// Time for the last request of an old connection.
const LAST_REQUEST: Duration = Duration::from_secs(10);

/// Connections of one port; more end the oldest.
const CONNECTIONS: usize = 256;

/// Octets of request line and headers, and of what is buffered of an answer.
const HEADER_LIMIT: usize = 16 * 1024;

/// Octets of a request body.
const BODY_LIMIT: usize = 4 * 1024;

/// The routes of the metrics port: `/metrics`, `/livez` (also as `/healthz`), `/readyz`.
///
/// `metrics` writes the page in the Prometheus text format; `guard` says who may see it, everybody where there is none.
/// Probes are open to all.
pub fn metrics_router<M>(metrics: M, guard: Option<Guard>, health: Health) -> Router
where
    M: Fn() -> String + Clone + Send + Sync + 'static,
{
    let one_at_a_time = Arc::new(Mutex::new(()));
    let guarded = async move |headers: HeaderMap| match refused(guard.as_ref(), &headers).await {
        Some(denial) => denial.into_response(),
        None => page(metrics, &one_at_a_time).await,
    };
    let alive = health.clone();
    let live = get(async move || live(&alive));
    Router::new()
        .route("/metrics", get(guarded))
        .route("/livez", live.clone())
        .route("/healthz", live)
        .route("/readyz", get(async move |Query(query)| ready(&health, &query)))
}

/// Writes the metrics page, which may be large: off the event loop, and one at a time.
async fn page<M>(metrics: M, one_at_a_time: &Mutex<()>) -> Response
where
    M: FnOnce() -> String + Send + 'static,
{
    let _turn = one_at_a_time.lock().await;
    match tokio::task::spawn_blocking(metrics).await {
        Ok(page) => ([(CONTENT_TYPE, TEXT_FORMAT)], page).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// A page of the admin port that shows a setting and lets it be changed.
pub fn setting_page(path: &str, setting: Setting) -> Router {
    let Setting { read, write } = setting;
    let set = async move |value: String| match write(value.trim()) {
        Ok(()) => (StatusCode::OK, String::new()),
        Err(reason) => (StatusCode::BAD_REQUEST, format!("{reason}\n")),
    };
    Router::new().route(path, get(async move || format!("{}\n", read())).put(set))
}

/// A page of the admin port that shows a value as JSON.
pub fn json_page<R, T>(path: &str, read: R) -> Router
where
    R: Fn() -> T + Clone + Send + Sync + 'static,
    T: Serialize + 'static,
{
    Router::new().route(path, get(async move || Json(read())))
}

/// How to read and to change what is set while it runs.
#[derive(Clone)]
pub struct Setting {
    /// The value in force.
    pub read: Arc<dyn Fn() -> String + Send + Sync>,
    /// Takes another one, or says why not.
    pub write: Arc<Set>,
}

/// Sets a value; the error says in a line why it cannot.
pub type Set = dyn Fn(&str) -> Result<(), String> + Send + Sync;

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setting").field("value", &(self.read)()).finish_non_exhaustive()
    }
}

fn live(health: &Health) -> Response {
    if health.alive() {
        "ok\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "an event loop hangs\n").into_response()
    }
}

/// The failed conditions of readiness, or with `?verbose` all of them, a line each; and what is wrong besides.
fn ready(health: &Health, query: &HashMap<String, String>) -> Response {
    let readiness = health.readiness();
    let verbose = query.contains_key("verbose");
    let mut text = String::new();
    for check in readiness.checks() {
        let line = match check.failure {
            Some(reason) => writeln!(text, "[-] {}: {reason}", check.name),
            None if verbose => writeln!(text, "[+] {}", check.name),
            None => Ok(()),
        };
        debug_assert!(line.is_ok(), "a string takes everything");
    }
    if let Some(warning) = &readiness.warning {
        writeln!(text, "[!] {warning}").ok();
    }
    if readiness.ready() {
        text.push_str("ok\n");
        text.into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
    }
}

/// Serves `router` until `shutdown`, then closes all connections at once.
pub async fn serve_http(listener: TcpListener, router: Router, shutdown: impl Future<Output = ()>) {
    serve(listener, router, None, shutdown).await;
}

/// The same by TLS alone.
pub async fn serve_https(
    listener: TcpListener,
    router: Router,
    tls: Arc<ServerConfig>,
    shutdown: impl Future<Output = ()>,
) {
    serve(listener, router, Some(tls.into()), shutdown).await;
}

async fn serve(
    listener: TcpListener,
    router: Router,
    tls: Option<TlsAcceptor>,
    shutdown: impl Future<Output = ()>,
) {
    let router = router.layer(DefaultBodyLimit::max(BODY_LIMIT));
    let (mut connections, said) = (Tasks::new(CONNECTIONS), Said::default());
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => return,
            socket = listener.accept() => match socket {
                Ok((socket, _)) => connections.spawn(accepted_by(tls.clone(), socket, router.clone())),
                Err(error) => recover(&error, &said).await,
            },
            _ = connections.ended() => {}
        }
    }
}

async fn recover(error: &io::Error, said: &Said) {
    if let Some(pause) = pause_after(error) {
        if said.may_speak() {
            warn!(%error, "cannot accept: raise the limit of open files");
        }
        sleep(pause).await;
    }
}

async fn accepted_by(tls: Option<TlsAcceptor>, socket: TcpStream, router: Router) {
    let Some(tls) = tls else { return serve_connection(socket, router).await };
    match timeout(HEADER_TIMEOUT, tls.accept(socket)).await {
        Ok(Ok(stream)) => serve_connection(stream, router).await,
        Ok(Err(error)) => debug!(%error, "TLS handshake failed"),
        Err(_) => debug!("TLS handshake took too long"),
    }
}

async fn serve_connection<S>(socket: S, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_LIMIT)
        .serve_connection(TokioIo::new(socket), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    let ended = if let Ok(ended) = timeout(CONNECTION_AGE, connection.as_mut()).await {
        ended
    } else {
        connection.as_mut().graceful_shutdown();
        timeout(LAST_REQUEST, connection).await.unwrap_or(Ok(()))
    };
    if let Err(error) = ended {
        debug!(%error, "connection broke");
    }
}
