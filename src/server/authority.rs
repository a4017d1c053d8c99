//! Makes the `:authority` of an Istio gateway acceptable to HTTP/2 in Rust.
//!
//! Istio sets no authority for the picker, so Envoy sends the name of its cluster,
//! `outbound|9002||epp.default.svc.cluster.local`. The `h2` crate, and so hyper and tonic, resets
//! such a stream with `PROTOCOL_ERROR`. [`Authority`] sits below HTTP/2 and hands on every byte but
//! those of a refused authority: it becomes a string of the same length with `-` for each offending
//! byte.
//!
//! Envoy sends the name once per connection and refers to it by a table index afterwards, so that
//! the price is the walk over frame headers: payloads go straight into the reader's buffer.

mod block;
mod rewriter;
#[cfg(test)]
mod tests;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use self::rewriter::Rewriter;

/// One HTTP/2 connection as its server sees it; writes go through untouched.
#[derive(Debug)]
pub struct Authority<S> {
    inner: S,
    rewriter: Rewriter,
    /// Bytes behind a header block that did not stay in the reader's buffer: at most one read and
    /// one header block (128 KiB), as nothing is read while it is not empty.
    ready: BytesMut,
    ended: bool,
}

impl<S> Authority<S> {
    /// Wraps a connection of which `read`, its first bytes, were read already.
    pub fn new(inner: S, read: &[u8]) -> Self {
        let mut rewriter = Rewriter::new();
        let mut ready = BytesMut::new();
        rewriter.push(read, &mut ready);
        Self { inner, rewriter, ready, ended: false }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Authority<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { inner, rewriter, ready, ended } = self.get_mut();
        let start = buf.filled().len();
        while buf.remaining() > 0 {
            if !ready.is_empty() {
                let taken = ready.len().min(buf.remaining());
                buf.put_slice(ready.get(..taken).unwrap_or_default());
                ready.advance(taken);
                break;
            }
            if *ended {
                break;
            }
            ready!(Pin::new(&mut *inner).poll_read(cx, buf))?;
            let read = buf.filled().get(start..).unwrap_or_default();
            if read.is_empty() {
                *ended = true;
                rewriter.finish(ready);
                continue;
            }
            let passed = rewriter.pass(read);
            rewriter.push(read.get(passed..).unwrap_or_default(), ready);
            buf.set_filled(start + passed);
            if passed > 0 {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Authority<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
