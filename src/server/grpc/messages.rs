//! The messages of a gRPC stream, out of the pieces in which HTTP/2 brings them.
//!
//! A message that came in one piece is a slice of it; only those that came in several are put together, once.

use std::io::Read;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use flate2::read::GzDecoder;
use hyper::body::{Body, Incoming};
use tonic::Status;

/// What stands before each message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// Room that is made at once for a message because its prefix says how long it is; more when that much has come.
const TRUSTED: usize = 1 << 20;

/// Reads messages.
#[derive(Debug)]
pub(super) struct Messages<B = Incoming> {
    body: B,
    /// What came last and is not read yet.
    piece: Bytes,
    /// The beginning of a message whose end has not come.
    begun: BytesMut,
    /// Longest message in bytes.
    limit: usize,
    gzip: bool,
}

impl<B: Body<Data = Bytes> + Unpin> Messages<B> {
    /// The messages of a request's body, of at most `limit` bytes each; compressed ones only if `gzip` was announced.
    pub(super) fn new(body: B, limit: usize, gzip: bool) -> Self {
        Self { body, piece: Bytes::new(), begun: BytesMut::new(), limit, gzip }
    }

    /// The next message; none when the peer will send no more.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Status>>>
    where
        B::Error: std::fmt::Display,
    {
        loop {
            if let Some(message) = self.take().transpose() {
                return Poll::Ready(Some(message));
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => self.piece = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => {
                    return Poll::Ready(Some(Err(Status::cancelled(error.to_string()))));
                }
                None if self.begun.is_empty() => return Poll::Ready(None),
                None => {
                    self.begun.clear();
                    let status = Status::internal("the stream ended inside a message");
                    return Poll::Ready(Some(Err(status)));
                }
            }
        }
    }

    /// A message, if all of it is there.
    fn take(&mut self) -> Result<Option<Bytes>, Status> {
        if self.begun.is_empty() {
            match self.end_of(&self.piece)? {
                Some(end) if end <= self.piece.len() => {
                    let whole = self.piece.split_to(end);
                    return self.unpacked(whole).map(Some);
                }
                _ => {}
            }
        }
        while !self.piece.is_empty() {
            let end = self.end_of(&self.begun)?.unwrap_or(PREFIX);
            let taken = end.saturating_sub(self.begun.len()).min(self.piece.len());
            self.begun.reserve((end - self.begun.len()).min(TRUSTED));
            self.begun.extend_from_slice(&self.piece.split_to(taken));
            if self.end_of(&self.begun)? == Some(self.begun.len()) {
                let whole = std::mem::take(&mut self.begun).freeze();
                return self.unpacked(whole).map(Some);
            }
        }
        Ok(None)
    }

    /// Where the message ends that begins here; none when its prefix is not all there.
    fn end_of(&self, bytes: &[u8]) -> Result<Option<usize>, Status> {
        let Some((&[_, length @ ..], _)) = bytes.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(length) as usize;
        if length > self.limit {
            return Err(self.too_large());
        }
        Ok(Some(PREFIX + length))
    }

    fn unpacked(&self, mut whole: Bytes) -> Result<Bytes, Status> {
        let compressed = whole.first() == Some(&1);
        whole.advance(PREFIX);
        if !compressed {
            return Ok(whole);
        }
        if !self.gzip {
            return Err(Status::internal("a compressed message, but no grpc-encoding"));
        }
        let mut message = Vec::new();
        let mut limited = GzDecoder::new(&*whole).take(self.limit as u64 + 1);
        match limited.read_to_end(&mut message) {
            Ok(length) if length > self.limit => Err(self.too_large()),
            Ok(_) => Ok(message.into()),
            Err(error) => Err(Status::internal(format!("a message cannot be unpacked: {error}"))),
        }
    }

    fn too_large(&self) -> Status {
        let limit = self.limit;
        Status::resource_exhausted(format!("a message of more than {limit} bytes"))
    }
}
