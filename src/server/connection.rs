//! One HTTP/2 connection and all its streams, in one task.
//!
//! A connection carries the requests of one worker of a gateway. With a task for each of its streams every message would
//! cross threads twice, from the task that reads frames and back to it; here frames are read, messages answered and
//! replies written in one turn, by few system calls.

#[cfg(test)]
mod tests;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, Stream};
use futures_util::task::AtomicWaker;
use hyper::rt::Executor;
use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Turns in a row before other connections have theirs.
const TURNS: usize = 8;

/// A stream, until it has ended.
type Open = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where a connection puts the streams that its peer opens.
#[derive(Clone, Default)]
pub(super) struct Streams(Arc<Mutex<Vec<Open>>>);

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Streams").field(&self.0.lock().len()).finish()
    }
}

impl<F: Future + Send + 'static> Executor<F> for Streams {
    /// A panic ends the stream in which it happens, not its neighbors.
    fn execute(&self, stream: F) {
        self.0.lock().push(Box::pin(AssertUnwindSafe(stream).catch_unwind().map(drop)));
    }
}

/// A connection that can be asked to take no more streams.
pub(super) trait Connection: Future {
    /// Tells the peer to open no more streams; the connection ends with its last.
    fn close(self: Pin<&mut Self>);
}

impl<I, S, B> Connection for hyper::server::conn::http2::Connection<I, S, Streams>
where
    Self: Future,
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    S: hyper::service::HttpService<hyper::body::Incoming, ResBody = B>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: hyper::body::Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    Streams: hyper::rt::bounds::Http2ServerConnExec<S::Future, B>,
{
    fn close(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// Drives a connection and its streams to their end.
pub(super) struct Driver<C> {
    connection: Pin<Box<C>>,
    opened: Streams,
    open: FuturesUnordered<Open>,
    bell: Arc<Bell>,
    closing: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl<C: Connection> Driver<C> {
    /// Drives `connection`, which opens `streams`, and closes it when that is asked for.
    pub(super) fn new(connection: C, streams: Streams, closing: CancellationToken) -> Self {
        Self {
            connection: Box::pin(connection),
            opened: streams,
            open: FuturesUnordered::new(),
            bell: Arc::default(),
            closing: Some(Box::pin(closing.cancelled_owned())),
        }
    }

    /// Reads what has come, lets every stream that has something to do do it, and writes what they left.
    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.closing.as_mut().is_some_and(|closing| closing.as_mut().poll(cx).is_ready()) {
            self.closing = None;
            self.connection.as_mut().close();
        }
        let ended = self.connection.as_mut().poll(cx).is_ready();
        self.open.extend(self.opened.0.lock().drain(..));
        while let Poll::Ready(Some(())) = Pin::new(&mut self.open).poll_next(cx) {}
        if ended { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl<C: Connection> Future for Driver<C> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let bell = Arc::clone(&self.bell);
        let waker = Waker::from(Arc::clone(&bell));
        let mut inside = Context::from_waker(&waker);
        bell.outside.register(cx.waker());
        bell.heard.store(true, Ordering::SeqCst);
        for _ in 0..TURNS {
            bell.rung.store(false, Ordering::SeqCst);
            if self.turn(&mut inside).is_ready() {
                return Poll::Ready(());
            }
            if !bell.rung.load(Ordering::SeqCst) {
                break;
            }
        }
        bell.heard.store(false, Ordering::SeqCst);
        if bell.rung.load(Ordering::SeqCst) {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

/// Wakes the task of a connection, but not while that is at work and will look again anyway: the runtime would wake another
/// thread for it, which costs more than an answer to a message.
///
/// Who rings writes `rung` and reads `heard`; who is about to rest writes `heard` and reads `rung`. In one order of all four
/// (`SeqCst`) at least one of them sees the other; in weaker ones a ring could be lost.
#[derive(Debug, Default)]
struct Bell {
    outside: AtomicWaker,
    /// It rang since it was last looked at.
    rung: AtomicBool,
    /// It is looked at before the task rests.
    heard: AtomicBool,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::SeqCst);
        if !self.heard.load(Ordering::SeqCst) {
            self.outside.wake();
        }
    }
}
