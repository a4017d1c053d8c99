//! The ext_proc service: moves messages between a gRPC stream and its state machine.
//!
//! Replies are made by polling the inbound stream: no task, channel or buffer stands between the two. All logic is in
//! the [`Machine`]; what is here is clock, dice, panics and the end of the stream.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::time::Sleep;
use tokio_stream::Stream;
use tonic::codec::CompressionEncoding;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::extproc::End;
use crate::metrics::StreamMetrics;
use crate::server::clock;
use crate::wire::external_processor_server::{ExternalProcessor, ExternalProcessorServer};
use crate::wire::{ProcessingRequest, ProcessingResponse};

/// What answers a stream.
pub trait Machine: Send + Unpin + 'static {
    /// Takes a message in.
    fn receive(&mut self, message: ProcessingRequest, now: Instant);
    /// The next reply to send.
    fn pop(&mut self) -> Option<ProcessingResponse>;
    /// How the stream is to be ended once all replies are sent; none while it goes on.
    fn end(&self) -> Option<End>;
    /// The other side will send no more.
    fn half_closed(&mut self);
    /// How long the other side may be silent now; none when it may for ever.
    fn patience(&self) -> Option<Duration>;
    /// It was silent for longer than that.
    fn lost_patience(&mut self);
    /// A call of the machine panicked.
    fn failed(&mut self);
    /// The stream is gone.
    fn closed(&mut self, now: Instant);
}

/// Makes a machine for each stream.
pub trait Machines: Send + Sync + 'static {
    /// What it makes.
    type Machine: Machine;
    /// A machine for a new stream.
    fn machine(&self) -> Self::Machine;
}

/// The gRPC service over some kind of machine.
#[derive(Debug)]
pub struct Service<M> {
    machines: M,
    metrics: Arc<StreamMetrics>,
}

impl<M: Machines> Service<M> {
    /// A service that takes and sends messages of at most so many bytes, compressed ones too.
    pub fn over(
        machines: M,
        metrics: Arc<StreamMetrics>,
        (receive, send): (usize, usize),
    ) -> ExternalProcessorServer<Self> {
        ExternalProcessorServer::new(Self { machines, metrics })
            .max_decoding_message_size(receive)
            .max_encoding_message_size(send)
            .accept_compressed(CompressionEncoding::Gzip)
    }
}

#[tonic::async_trait]
impl<M: Machines> ExternalProcessor for Service<M> {
    type ProcessStream = Serving<M::Machine>;

    async fn process(
        &self,
        request: Request<Streaming<ProcessingRequest>>,
    ) -> Result<Response<Self::ProcessStream>, Status> {
        let (now, metrics) = (clock::now(), Arc::clone(&self.metrics));
        metrics.began();
        let (inbound, machine) = (request.into_inner(), self.machines.machine());
        Ok(Response::new(Serving {
            inbound,
            machine,
            began: now,
            heard: now,
            timer: None,
            code: None,
            metrics,
        }))
    }
}

/// The replies of one stream.
#[derive(Debug)]
pub struct Serving<M: Machine> {
    inbound: Streaming<ProcessingRequest>,
    machine: M,
    began: Instant,
    /// When the other side was last heard.
    heard: Instant,
    /// Set when the other side is first waited for; pushed on when it fires too early, not with every message.
    timer: Option<Pin<Box<Sleep>>>,
    /// The status that the stream ended with; none when the other side reset it, as Envoy does in the end.
    code: Option<Code>,
    metrics: Arc<StreamMetrics>,
}

impl<M: Machine> Serving<M> {
    fn receive(&mut self, message: ProcessingRequest) {
        self.heard = clock::now();
        let (machine, now) = (&mut self.machine, self.heard);
        if catch_unwind(AssertUnwindSafe(|| machine.receive(message, now))).is_err() {
            tracing::error!(
                "an exchange panicked: this is a bug, please report it with the lines above"
            );
            self.machine.failed();
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

    fn finish(&mut self, end: End) -> Option<Result<ProcessingResponse, Status>> {
        if self.code.is_some() {
            return None;
        }
        let status = match end {
            End::Ok => None,
            End::Unavailable => Some(Status::unavailable("the endpoints are not known yet")),
            End::Internal => Some(Status::internal("internal fault")),
        };
        self.code = Some(status.as_ref().map_or(Code::Ok, Status::code));
        status.map(Err)
    }
}

impl<M: Machine> Stream for Serving<M> {
    type Item = Result<ProcessingResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(reply) = this.machine.pop() {
                return Poll::Ready(Some(Ok(reply)));
            }
            if let Some(end) = this.machine.end() {
                return Poll::Ready(this.finish(end));
            }
            match Pin::new(&mut this.inbound).poll_next(cx) {
                Poll::Ready(Some(Ok(message))) => this.receive(message),
                Poll::Ready(Some(Err(status))) => {
                    this.code = Some(status.code());
                    return Poll::Ready(Some(Err(status)));
                }
                Poll::Ready(None) => this.machine.half_closed(),
                Poll::Pending if this.silent(cx) => this.machine.lost_patience(),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<M: Machine> Drop for Serving<M> {
    fn drop(&mut self) {
        let now = clock::now();
        self.machine.closed(now);
        self.metrics.ended(name(self.code), now.saturating_duration_since(self.began));
    }
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
