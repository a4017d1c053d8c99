//! The picker behind the gRPC service: an exchange for each stream, its decisions from one director.

use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use crate::director::{Decision, Director, Rejection, shown};
use crate::extproc::{End, Ending, Exchange, Next, Settings};
use crate::metrics::Metrics;
use crate::recording::Recorder;
use crate::server::clock;
use crate::server::grpc::{Machine, Machines};
use crate::server::request_log::RequestLog;
use crate::server::said::Said;
use crate::spans::Tracer;
use crate::wire::processing_request::Request;
use crate::wire::{ProcessingRequest, ProcessingResponse};

/// Makes exchanges.
#[derive(Debug)]
pub struct Picker {
    /// Decides.
    pub director: Arc<Director>,
    /// How exchanges behave that begin from now on.
    pub settings: Arc<ArcSwap<Settings>>,
    /// What is logged of requests.
    pub logs: Arc<Logs>,
    /// Takes what has passed; none where nothing is recorded.
    pub recorder: Option<Recorder>,
    /// Says which requests are traced, and takes them; none where none is.
    pub tracer: Option<Arc<Tracer>>,
}

/// What is logged of requests.
#[derive(Debug)]
pub struct Logs {
    /// When faults were last logged.
    pub faults: Said,
    /// Requests that have ended.
    pub requests: RequestLog,
}

/// An exchange that gets its decisions.
#[derive(Debug)]
pub struct Picking {
    exchange: Exchange,
    logs: Arc<Logs>,
    recorder: Option<Recorder>,
    tracer: Option<Arc<Tracer>>,
    /// Where one of 64 counts the time that its answer takes, and how much that is so far.
    measured: Option<(Arc<Metrics>, Duration)>,
}

/// One in so many has the time measured that its answer takes.
const MEASURED: u128 = 64;

impl Machines for Picker {
    type Machine = Picking;

    fn machine(&self) -> Picking {
        let identity = fastrand::u128(..);
        let mut exchange =
            Exchange::new(Arc::clone(&self.director), self.settings.load_full(), identity);
        let tracer = self.tracer.clone();
        if let Some(tracer) = &tracer {
            exchange.track(tracer.sampler);
        }
        let measured = identity
            .is_multiple_of(MEASURED)
            .then(|| (Arc::clone(self.director.metrics()), Duration::ZERO));
        let logs = Arc::clone(&self.logs);
        Picking { exchange, logs, recorder: self.recorder.clone(), tracer, measured }
    }
}

impl Machine for Picking {
    fn receive(&mut self, message: ProcessingRequest, now: Instant) -> bool {
        if self.measured.is_some() && is_of_answer(&message) {
            return self.measure(message, now);
        }
        let next = self.exchange.receive(message, now);
        self.follow(next)
    }

    fn proceed(&mut self) -> bool {
        let next = self.exchange.proceed();
        self.follow(next)
    }

    fn released(&mut self, cx: &mut Context<'_>) -> bool {
        let released = self.exchange.released(cx);
        if released {
            self.decide();
        }
        released
    }

    #[expect(clippy::inline_always, reason = "as that of the exchange")]
    #[inline(always)]
    fn pop(&mut self) -> Option<ProcessingResponse> {
        self.exchange.pop()
    }

    fn end(&self) -> Option<End> {
        self.exchange.end()
    }

    fn half_closed(&mut self) {
        self.exchange.half_closed();
    }

    fn patience(&self) -> Option<Duration> {
        self.exchange.patience()
    }

    fn lost_patience(&mut self) {
        self.exchange.lost_patience();
    }

    fn failed(&mut self) {
        self.exchange.failed();
    }

    fn closed(&mut self, now: Instant) {
        if let Some((metrics, spent)) = self.measured.take_if(|(_, spent)| !spent.is_zero()) {
            metrics.response_processing.observe(spent.as_secs_f64());
        }
        let Some(ending) = self.exchange.closed(now) else { return };
        self.tell(&ending);
        if let Some(recorder) = &self.recorder
            && let Some(passed) = self.exchange.passed(ending)
        {
            recorder.record(passed);
        }
    }
}

impl Picking {
    /// Does what the exchange asks for; whether it is to proceed.
    fn follow(&mut self, next: Next) -> bool {
        if next == Next::Decide && !self.exchange.queues(clock::now) {
            self.decide();
        }
        next == Next::Proceed
    }

    fn decide(&mut self) {
        if let Some(outcome) = self.exchange.decide(fastrand::u64(..)) {
            report(&outcome, &self.logs.faults);
            if let (true, Ok(decision)) = (tracing::enabled!(tracing::Level::DEBUG), &outcome) {
                let model = self.exchange.ask().and_then(|ask| ask.model);
                placed(&self.exchange.request_id(), model, decision);
            }
            self.exchange.decided(outcome, clock::now());
        }
    }

    /// Tells of the request that ended so whom it is to be told.
    fn tell(&mut self, ending: &Ending) {
        let (log, sampled) = (&self.logs.requests, self.exchange.sampled());
        let logged = log.wants(ending.failed());
        if !logged && !sampled {
            return;
        }
        let Some(summary) = self.exchange.summary(ending) else { return };
        if logged {
            log.write(&summary);
        }
        if let (Some(tracer), Some(traced)) = (&self.tracer, self.exchange.traced(summary)) {
            tracer.trace(traced.bytes(), move || traced.tree());
        }
    }

    /// Takes a message of the answer in, and adds what that takes.
    fn measure(&mut self, message: ProcessingRequest, now: Instant) -> bool {
        let began = clock::now();
        let next = self.exchange.receive(message, now);
        if let Some((_, spent)) = &mut self.measured {
            *spent += began.elapsed();
        }
        self.follow(next)
    }
}

fn is_of_answer(message: &ProcessingRequest) -> bool {
    use Request::{ResponseBody, ResponseHeaders, ResponseTrailers};
    let request = message.request.as_ref();
    request
        .is_some_and(|it| matches!(it, ResponseHeaders(_) | ResponseBody(_) | ResponseTrailers(_)))
}

/// Logs the faults of a decision; in full once in a while, since a fault comes with every request.
fn report(outcome: &Result<Decision, Rejection>, said: &Said) {
    match outcome {
        Ok(decision) => {
            for fault in &decision.faults {
                let (plugin, reason) = (fault.plugin(), fault.cause());
                if said.may_speak() {
                    let rung = decision.rung.name();
                    tracing::warn!(plugin, reason, rung, "plugin left out of decisions");
                }
            }
        }
        Err(Rejection::Internal(fault)) if said.may_speak() => {
            let (plugin, reason) = (fault.plugin(), fault.cause());
            tracing::error!(plugin, reason, "filter failed, requests are refused");
        }
        Err(_) => {}
    }
}

/// Logs where a request goes.
fn placed(request_id: &[u8], model: Option<&str>, decision: &Decision) {
    let endpoint = decision.endpoints.first().map(|endpoint| endpoint.spec.name.as_str());
    let (request_id, model) = (String::from_utf8_lossy(request_id), model.map(shown));
    tracing::debug!(%request_id, model, endpoint, rung = decision.rung.name(), "request placed");
}
