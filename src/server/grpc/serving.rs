//! The replies of one stream, as the body of its answer.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use hyper::body::{Body, Frame};
use tokio::time::Sleep;
use tonic::{Code, Status};

use super::Machine;
use super::messages::Messages;
use crate::extproc::End;
use crate::metrics::StreamMetrics;
use crate::server::clock;
use crate::wire::{self, ProcessingRequest, ProcessingResponse};

/// Replies are gathered up to so many bytes while there are messages to answer.
const BATCH: usize = 16 * 1024;

/// The replies of one stream.
#[derive(Debug)]
pub struct Serving<M: Machine> {
    messages: Messages,
    machine: M,
    began: Instant,
    /// When the other side was last heard.
    heard: Instant,
    /// Set when the other side is first waited for; pushed on when it fires too early, not with every message.
    timer: Option<Pin<Box<Sleep>>>,
    /// Replies that have not left.
    batch: BytesMut,
    /// What leaves behind them.
    piece: Option<Bytes>,
    /// The machine is not done with the last message.
    busy: bool,
    /// Longest reply in bytes.
    limit: usize,
    /// How the stream ends once all has left; none while it goes on.
    ends: Option<Status>,
    /// The status that the stream ended with; none when the other side reset it, as Envoy does in the end.
    code: Option<Code>,
    metrics: Arc<StreamMetrics>,
}

impl<M: Machine> Serving<M> {
    pub(super) fn new(
        messages: Messages,
        machine: M,
        limit: usize,
        metrics: Arc<StreamMetrics>,
    ) -> Self {
        let now = clock::now();
        metrics.began();
        Self {
            messages,
            machine,
            began: now,
            heard: now,
            timer: None,
            batch: BytesMut::new(),
            piece: None,
            busy: false,
            limit,
            ends: None,
            code: None,
            metrics,
        }
    }

    /// Answers the messages that are there. They have come together, so the clock is read once.
    fn look(&mut self, cx: &mut Context<'_>) {
        let mut now = None;
        if self.busy {
            self.drive(M::proceed);
        }
        while self.gather() {
            if self.busy {
                cx.waker().wake_by_ref();
                return;
            }
            let told_nothing = match self.messages.poll_next(cx) {
                Poll::Ready(Some(message)) => {
                    self.hear(message, &mut now);
                    false
                }
                Poll::Ready(None) => {
                    self.machine.half_closed();
                    self.machine.end().is_none()
                }
                Poll::Pending => true,
            };
            if told_nothing && self.rests(cx) {
                return;
            }
        }
    }

    /// Takes a message in, or what came in its place.
    fn hear(&mut self, message: Result<Bytes, Status>, now: &mut Option<Instant>) {
        match message.map(wire::decode) {
            Ok(Ok(message)) => self.receive(message, *now.get_or_insert_with(clock::now)),
            Ok(Err(error)) => self.ends = Some(Status::internal(error.to_string())),
            Err(status) => self.ends = Some(status),
        }
    }

    /// Whether nothing happens without a message.
    fn rests(&mut self, cx: &mut Context<'_>) -> bool {
        if self.released(cx) {
            return false;
        }
        let lost = self.batch.is_empty() && self.silent(cx);
        if lost {
            self.machine.lost_patience();
        }
        !lost
    }

    /// Lets the machine go on that waited for something.
    fn released(&mut self, cx: &mut Context<'_>) -> bool {
        self.guarded(|machine| machine.released(cx)).unwrap_or(true)
    }

    /// Takes up what the machine replies; whether another message may be read before that leaves.
    fn gather(&mut self) -> bool {
        while self.ends.is_none() && self.piece.is_none() && self.batch.len() < BATCH {
            match (self.machine.pop(), self.machine.end()) {
                (Some(reply), _) => self.reply(&reply),
                (None, Some(end)) => self.ends = Some(status(end)),
                (None, None) => return true,
            }
        }
        false
    }

    fn receive(&mut self, message: ProcessingRequest, now: Instant) {
        self.heard = now;
        self.drive(|machine| machine.receive(message, now));
    }

    fn drive(&mut self, work: impl FnOnce(&mut M) -> bool) {
        self.busy = self.guarded(work).unwrap_or(false);
    }

    /// What the machine says of its work; none when it has failed.
    fn guarded(&mut self, work: impl FnOnce(&mut M) -> bool) -> Option<bool> {
        let machine = &mut self.machine;
        let said = catch_unwind(AssertUnwindSafe(|| work(machine))).ok();
        if said.is_none() {
            tracing::error!(
                "an exchange panicked: this is a bug, please report it with the lines above"
            );
            self.machine.failed();
        }
        said
    }

    fn reply(&mut self, reply: &ProcessingResponse) {
        let before = self.batch.len();
        self.piece = wire::encode(reply, &mut self.batch);
        let length = self.batch.len() - before + self.piece.as_ref().map_or(0, Bytes::len);
        if length > self.limit {
            self.batch.truncate(before);
            self.piece = None;
            let limit = self.limit;
            let told = format!("a reply of more than {limit} bytes");
            self.ends = Some(Status::resource_exhausted(told));
        }
    }

    /// Whether the other side has been silent for too long.
    fn silent(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(patience) = self.machine.patience() else { return false };
        let deadline = self.heard + patience;
        let timer =
            self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline.into())));
        if timer.deadline() > deadline.into() {
            timer.as_mut().reset(deadline.into());
        }
        while timer.as_mut().poll(cx).is_ready() {
            if clock::now() >= deadline {
                return true;
            }
            timer.as_mut().reset(deadline.into());
        }
        false
    }

    /// What leaves next, of what there is.
    fn next(&mut self) -> Option<Frame<Bytes>> {
        if self.batch.is_empty() {
            return self.piece.take().map(Frame::data);
        }
        // taken whole: what is left of a buffer would keep all of it while the stream waits
        Some(Frame::data(std::mem::take(&mut self.batch).freeze()))
    }
}

impl<M: Machine> Body for Serving<M> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if this.code.is_some() {
            return Poll::Ready(None);
        }
        if this.batch.is_empty() && this.piece.is_none() {
            this.look(cx);
        }
        if let Some(frame) = this.next() {
            return Poll::Ready(Some(Ok(frame)));
        }
        let Some(status) = this.ends.take() else { return Poll::Pending };
        this.code = Some(status.code());
        Poll::Ready(Some(Ok(Frame::trailers(trailers(&status)))))
    }
}

impl<M: Machine> Drop for Serving<M> {
    fn drop(&mut self) {
        let now = clock::now();
        self.machine.closed(now);
        self.metrics.ended(name(self.code), now.saturating_duration_since(self.began));
    }
}

fn status(end: End) -> Status {
    match end {
        End::Ok => Status::ok(""),
        End::Unavailable => Status::unavailable("the endpoints are not known yet"),
        End::Internal => Status::internal("internal fault"),
    }
}

fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(2);
    // fails for a message that is no header value, which ours all are once they are encoded
    status.add_header(&mut trailers).unwrap_or_default();
    trailers
}

/// The name of a gRPC status as the reference shows it; a stream that was reset is `Canceled`.
fn name(code: Option<Code>) -> &'static str {
    match code {
        Some(Code::Ok) => "OK",
        None | Some(Code::Cancelled) => "Canceled",
        Some(Code::Internal) => "Internal",
        Some(Code::Unavailable) => "Unavailable",
        Some(Code::ResourceExhausted) => "ResourceExhausted",
        Some(_) => "Unknown",
    }
}
