//! The ext_proc service: moves messages between a gRPC stream and its state machine.
//!
//! Replies are made by polling the inbound stream: no task, channel or buffer stands between the two. All logic is in
//! the [`Machine`]; what is here is framing, clock, dice, panics and the end of the stream.
//!
//! The framing of gRPC is ours, over hyper: tonic copies every body once in and once out, and what it does for each message
//! beside costs more than the message (docs/performance.md).

mod messages;
mod serving;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, Instant};

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response};
use http_body_util::Either;
use hyper::body::Incoming;
use hyper_util::service::TowerToHyperService;
use tokio_util::either::Either as EitherFuture;
use tonic::Status;
use tonic::service::Routes;

use crate::extproc::End;
use crate::metrics::StreamMetrics;
use crate::wire::{ProcessingRequest, ProcessingResponse};

use self::messages::Messages;
pub use self::serving::Serving;

/// The path of the one method.
const PROCESS: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// What answers a stream.
pub trait Machine: Send + Unpin + 'static {
    /// Takes a message in; true if there is so much to do for it that others are to have their turn, and then
    /// [`proceed`](Self::proceed) is to be called before another message comes.
    fn receive(&mut self, message: ProcessingRequest, now: Instant) -> bool;
    /// Goes on with the last message, as far as [`receive`](Self::receive) does.
    fn proceed(&mut self) -> bool;
    /// The next reply to send.
    fn pop(&mut self) -> Option<ProcessingResponse>;
    /// Whether it has more to reply without a message, as something that it waited for came; else `cx` is woken then.
    fn released(&mut self, _cx: &mut Context<'_>) -> bool {
        false
    }
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

/// Longest messages in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// That are taken.
    pub received: usize,
    /// That are sent.
    pub sent: usize,
}

/// The gRPC service over some kind of machine, beside other services.
#[derive(Debug)]
pub struct Service<M> {
    machines: Arc<M>,
    metrics: Arc<StreamMetrics>,
    sizes: Sizes,
    others: TowerToHyperService<Routes>,
}

impl<M: Machines> Service<M> {
    /// Serves `Process` with machines, all other methods by `others`.
    pub fn new(machines: M, metrics: Arc<StreamMetrics>, sizes: Sizes, others: Routes) -> Self {
        let (machines, others) = (Arc::new(machines), TowerToHyperService::new(others));
        Self { machines, metrics, sizes, others }
    }

    fn process(&self, request: Request<Incoming>) -> Response<Reply<M::Machine>> {
        let encoding = request.headers().get("grpc-encoding").map(HeaderValue::as_bytes);
        let gzip = encoding == Some(b"gzip");
        if !gzip && encoding.is_some_and(|encoding| encoding != b"identity") {
            let unknown = Status::unimplemented("messages are compressed by gzip or not at all");
            return unknown.into_http().map(Either::Right);
        }
        let messages = Messages::new(request.into_body(), self.sizes.received, gzip);
        let serving = Serving::new(
            messages,
            self.machines.machine(),
            self.sizes.sent,
            Arc::clone(&self.metrics),
        );
        let mut response = Response::new(Either::Left(Box::new(serving)));
        response.headers_mut().insert(CONTENT_TYPE, GRPC);
        response
    }
}

impl<M> Clone for Service<M> {
    fn clone(&self) -> Self {
        Self {
            machines: Arc::clone(&self.machines),
            metrics: Arc::clone(&self.metrics),
            sizes: self.sizes,
            others: self.others.clone(),
        }
    }
}

/// The body of an answer: of a stream of ours, or of another service.
type Reply<M> = Either<Box<Serving<M>>, tonic::body::Body>;

type Answer<M> = Result<Response<Reply<M>>, Infallible>;

impl<M: Machines> hyper::service::Service<Request<Incoming>> for Service<M> {
    type Response = Response<Reply<M::Machine>>;
    type Error = Infallible;
    type Future = EitherFuture<
        Ready<Answer<M::Machine>>,
        Pin<Box<dyn Future<Output = Answer<M::Machine>> + Send>>,
    >;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        if request.uri().path() == PROCESS {
            return EitherFuture::Left(ready(Ok(self.process(request))));
        }
        let answer = self.others.call(request);
        EitherFuture::Right(Box::pin(async move { Ok(answer.await?.map(Either::Right)) }))
    }
}
