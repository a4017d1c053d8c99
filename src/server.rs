//! Listeners: `ext_proc` over gRPC, health, metrics and admin over HTTP.
//!
//! Every part is a future or a stream that the caller runs; dropping it ends what it started.
//! [`listener`] makes connections out of a TCP port, by way of [`tls`] and [`authority`];
//! [`serve_grpc`] serves them; [`health`] and [`http`] tell the outside how we are.

pub mod admin;
pub mod authority;
pub mod clock;
pub mod grpc;
pub mod health;
pub mod http;
pub mod listener;
pub mod null;
pub mod picker;
pub mod said;
pub mod tls;

mod tasks;
#[cfg(test)]
mod testing;

use std::future::Future;
use std::time::Duration;

use tonic::service::Routes;
use tonic::transport::{Error, Server};

use self::listener::Incoming;

/// Receive window of a stream: a whole Envoy buffer of the default size.
const STREAM_WINDOW: u32 = 1 << 20;

/// Receive window of a connection, shared by all its streams: many bodies at once do not starve the
/// others.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// Silence after which we ask whether the peer is still there.
const KEEPALIVE: Duration = Duration::from_mins(1);

/// Time for its answer.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

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

/// Serves `routes` to all connections until `shutdown`; then closes the port, sends GOAWAY, and
/// returns when the last open stream has ended. The caller sets the time limit for that.
///
/// # Errors
/// When a service is not ready to be called, which ours always are.
pub async fn serve_grpc(
    incoming: Incoming,
    routes: Routes,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    Server::builder()
        .max_concurrent_streams(limits.streams)
        .http2_max_header_list_size(limits.header_bytes)
        .http2_max_pending_accept_reset_streams(Some(UNSEEN_RESETS))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .add_routes(routes)
        .serve_with_incoming_shutdown(incoming, shutdown)
        .await
}
