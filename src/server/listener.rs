//! One TCP port for TLS and plaintext, told apart by the first byte.
//!
//! [`Incoming`] yields connections that are past their TLS handshake and have sent the HTTP/2
//! preface. Getting that far happens in a task per connection, beside the accept loop, within
//! [`HANDSHAKE_TIMEOUT`].

mod refusal;
#[cfg(test)]
mod tests;

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use prometheus::IntCounterVec;
use rustls::ServerConfig;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::Stream;
use tokio_util::either::Either;
use tracing::warn;

use self::refusal::{Refusal, Refusals};
use super::authority::Authority;
use super::tasks::Tasks;

/// Time from the accept to the end of the HTTP/2 preface; honest peers need milliseconds.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Handshakes in progress; one more ends the oldest, which is the least likely to be honest.
const HANDSHAKES: usize = 1024;

/// Established connections; more are closed at once. A gateway opens one per worker thread.
const CONNECTIONS: usize = 16_384;

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 1024;

/// Rest after an accept that failed for lack of file descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Silence after which the kernel asks whether the peer's host is still there, and time between its questions; it gives up
/// after its usual nine. HTTP/2 has such questions too, but then the clock is read for every frame.
const KEEPALIVE: Duration = Duration::from_mins(1);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// First byte of a TLS connection: the content type of a handshake record (RFC 8446, 5.1).
const TLS_HANDSHAKE: u8 = 0x16;

/// What every HTTP/2 client sends first (RFC 9113, 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What a port speaks.
#[derive(Debug, Clone)]
pub enum Security {
    /// TLS when the first byte says so, else plaintext: the default.
    Both(Arc<ServerConfig>),
    /// TLS alone: `--secure-serving` given.
    TlsOnly(Arc<ServerConfig>),
    /// Plaintext alone: `--secure-serving=false`.
    PlainOnly,
}

/// Listens on `port` of all addresses, IPv6 and IPv4, or IPv4 alone where the host has no IPv6; 0
/// takes a free port.
///
/// # Errors
/// When the port is taken or may not be bound.
pub fn bind(port: u16) -> io::Result<TcpListener> {
    match bind_to((Ipv6Addr::UNSPECIFIED, port).into()) {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            bind_to((Ipv4Addr::UNSPECIFIED, port).into())
        }
        bound => bound,
    }
}

/// Listens on one address; an unspecified IPv6 address includes IPv4.
///
/// # Errors
/// When the address is taken, not ours, or may not be bound.
pub fn bind_to(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if let IpAddr::V6(ip) = address.ip() {
        socket.set_only_v6(!ip.is_unspecified())?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// How long to wait after `accept` failed with `error`; `None` when the fault was the peer's alone.
pub(super) fn pause_after(error: &io::Error) -> Option<Duration> {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    let peer = matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted);
    (!peer).then_some(ACCEPT_PAUSE)
}

/// The connections of one port; it never ends and yields no error.
#[derive(Debug)]
pub struct Incoming {
    tcp: TcpListener,
    security: Security,
    handshakes: Tasks<Result<Connection, Refusal>>,
    places: Arc<Semaphore>,
    pause: Option<Pin<Box<Sleep>>>,
    refusals: Refusals,
}

impl Incoming {
    /// Starts to accept when first polled, inside a tokio runtime.
    ///
    /// `refused` has the one label `reason` and counts the connections that were not let in.
    pub fn new(tcp: TcpListener, security: Security, refused: IntCounterVec) -> Self {
        Self {
            tcp,
            security,
            handshakes: Tasks::new(HANDSHAKES),
            places: Arc::new(Semaphore::new(CONNECTIONS)),
            pause: None,
            refusals: Refusals::new(refused),
        }
    }

    fn begin(&mut self, socket: TcpStream) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return self.refusals.report(&Refusal::Full);
        };
        let security = self.security.clone();
        self.handshakes.spawn(async move {
            let handshake = Box::pin(establish(socket, security, place));
            timeout(HANDSHAKE_TIMEOUT, handshake).await.unwrap_or(Err(Refusal::Slow))
        });
    }

    /// Waits for the next socket, and for the end of the pause after a failure.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<TcpStream> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            match ready!(self.tcp.poll_accept(cx)) {
                Ok((socket, _)) => return Poll::Ready(socket),
                Err(error) => self.recover(error),
            }
        }
    }

    fn recover(&mut self, error: io::Error) {
        if let Some(pause) = pause_after(&error) {
            self.pause = Some(Box::pin(sleep(pause)));
            self.refusals.report(&Refusal::Accept(error));
        }
    }
}

impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Poll::Ready(ended) = this.handshakes.poll_ended(cx) {
                match ended {
                    Ok(Ok(connection)) => return Poll::Ready(Some(Ok(connection))),
                    Ok(Err(refusal)) => this.refusals.report(&refusal),
                    Err(error) if error.is_cancelled() => this.refusals.report(&Refusal::Crowded),
                    Err(_) => warn!("a handshake panicked"),
                }
                continue;
            }
            let socket = ready!(this.poll_accept(cx));
            this.begin(socket);
        }
    }
}

/// Everything between the accept and the first frame.
async fn establish(
    socket: TcpStream,
    security: Security,
    place: OwnedSemaphorePermit,
) -> Result<Connection, Refusal> {
    socket.set_nodelay(true).map_err(Refusal::Io)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE_INTERVAL);
    SockRef::from(&socket).set_tcp_keepalive(&keepalive).map_err(Refusal::Io)?;
    let mut first = [0];
    if socket.peek(&mut first).await.map_err(Refusal::Io)? == 0 {
        return Err(Refusal::Closed);
    }
    let mut stream = match (security, first == [TLS_HANDSHAKE]) {
        (Security::Both(config) | Security::TlsOnly(config), true) => {
            let accept = TlsAcceptor::from(config).accept(socket);
            Either::Right(Box::new(accept.await.map_err(Refusal::of_tls)?))
        }
        (Security::Both(_) | Security::PlainOnly, false) => Either::Left(socket),
        (Security::TlsOnly(_), false) => return Err(Refusal::Plaintext),
        (Security::PlainOnly, true) => return Err(Refusal::Tls),
    };
    let mut preface = [0; PREFACE.len()];
    stream.read_exact(&mut preface).await.map_err(Refusal::of_preface)?;
    if &preface != PREFACE {
        return Err(Refusal::NotHttp2);
    }
    Ok(Connection { stream: Authority::new(stream, &preface), _place: place })
}

/// One established connection.
#[derive(Debug)]
pub struct Connection {
    stream: Authority<Either<TcpStream, Box<TlsStream<TcpStream>>>>,
    _place: OwnedSemaphorePermit,
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
