//! A request body that is sent as the test says: in pieces, with pauses, trailers or an abort.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use hyper::body::{Frame, SizeHint};
use tokio::time::Sleep;

/// A request body. The default is empty.
#[derive(Debug, Default)]
pub struct Body {
    pieces: VecDeque<Piece>,
    pause: Option<Pin<Box<Sleep>>>,
    /// Sent as `content-length`; a body without it is chunked.
    length: Option<u64>,
}

/// A step in the sending of a [`Body`].
#[derive(Debug, Clone)]
pub enum Piece {
    /// Sends these bytes.
    Data(Bytes),
    /// Waits.
    Pause(Duration),
    /// Sends trailers; nothing may follow.
    Trailers(HeaderMap),
    /// Breaks the request off: closes the connection, or resets the stream in HTTP/2.
    Abort,
}

impl Piece {
    /// Bytes to send.
    pub fn data(bytes: impl Into<Bytes>) -> Self {
        Self::Data(bytes.into())
    }
}

impl Body {
    /// A body in one piece, with `content-length`.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let length = Some(bytes.len() as u64);
        Self { pieces: VecDeque::from([Piece::Data(bytes)]), pause: None, length }
    }

    /// A body of unknown length, sent step by step.
    pub fn pieces(pieces: impl IntoIterator<Item = Piece>) -> Self {
        Self { pieces: pieces.into_iter().collect(), pause: None, length: None }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            return Poll::Ready(match self.pieces.pop_front() {
                None => None,
                Some(Piece::Data(bytes)) => Some(Ok(Frame::data(bytes))),
                Some(Piece::Trailers(trailers)) => Some(Ok(Frame::trailers(trailers))),
                Some(Piece::Abort) => Some(Err(io::Error::other("aborted by the test"))),
                Some(Piece::Pause(length)) => {
                    self.pause = Some(Box::pin(tokio::time::sleep(length)));
                    continue;
                }
            });
        }
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty() && self.pause.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let empty = self.is_end_stream().then_some(0);
        self.length.or(empty).map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
