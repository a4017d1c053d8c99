//! Listeners: `ext_proc` over gRPC, health, metrics and admin over HTTP.
//!
//! Every part is a future or a stream that the caller runs; dropping it ends what it started.
//! [`listener`] makes connections out of a TCP port, by way of [`tls`] and [`authority`];
//! [`serve_grpc`] serves them; [`health`] and [`http`] tell the outside how we are.

pub mod admin;
pub mod authority;
pub mod clock;
pub mod drain;
pub mod grpc;
pub mod guard;
pub mod health;
pub mod http;
pub mod listener;
pub mod null;
pub mod overview;
pub mod picker;
pub mod request_log;
pub mod said;
pub mod scaler;
pub mod tls;
pub mod web;

mod connection;
mod tasks;
#[cfg(test)]
mod testing;

use std::convert::Infallible;
use std::future::Future;

use bytes::Bytes;
use hyper::body::{Body, Incoming as Received};
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;

use self::connection::{Driver, Streams};
use self::listener::Incoming;

/// Receive window of a stream: what of its body may have come and not been read, outside the budget for bodies.
const STREAM_WINDOW: u32 = 256 * 1024;

/// Receive window of a connection, shared by all its streams: so many that cannot go on do not starve the others.
///
/// Half of it is also what HTTP/2 allows for small frames that were received and not yet read, each for what it lacks of 256
/// bytes, before it closes the connection with all its streams. In one turn 2 MiB are read at most, some 30,000 frames of the
/// smallest events, which take 6 MiB.
const CONNECTION_WINDOW: u32 = 64 * STREAM_WINDOW;

/// Replies of a stream that wait for the peer, in bytes.
const SEND_BUFFER: usize = 64 * 1024;

/// Streams that the peer may reset before we have looked at them, as in a burst of clients that
/// hang up.
///
/// One more ends the connection and all its streams (the guard against rapid reset); the library's
/// 20 is too few for a gateway that multiplexes all its clients over one connection.
const UNSEEN_RESETS: usize = 4096;

/// Limits of each HTTP/2 connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Streams at a time, which are requests of one gateway worker; 65,536 by default.
    pub streams: u32,
    /// Octets of the headers of one stream; 64 KiB by default, a little more than Envoy's own
    /// limit.
    pub header_bytes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { streams: 65_536, header_bytes: 64 * 1024 }
    }
}

/// Serves all connections until `shutdown`, each in a task of its own on the runtime of the caller; then closes the port,
/// sends GOAWAY, and returns when the last open stream has ended. The caller sets the time limit for that.
pub async fn serve_grpc<S, B>(
    mut incoming: Incoming,
    service: S,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) where
    S: Service<Request<Received>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + Unpin + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let closing = CancellationToken::new();
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            Some(Ok(stream)) = incoming.next() => {
                let streams = Streams::default();
                let connection = limits.http2(&streams).serve_connection(TokioIo::new(stream), service.clone());
                connections.spawn(Driver::new(connection, streams, closing.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
    drop(incoming);
    closing.cancel();
    while connections.join_next().await.is_some() {}
}

impl Limits {
    /// What each connection is served by; its streams go to `streams`.
    fn http2(self, streams: &Streams) -> hyper::server::conn::http2::Builder<Streams> {
        let mut http2 = hyper::server::conn::http2::Builder::new(streams.clone());
        http2
            .auto_date_header(false)
            .max_concurrent_streams(self.streams)
            .max_header_list_size(self.header_bytes)
            .max_pending_accept_reset_streams(UNSEEN_RESETS)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER);
        http2
    }
}
