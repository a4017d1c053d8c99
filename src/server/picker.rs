//! The picker behind the gRPC service: an exchange for each stream, its decisions from one director.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use crate::director::{Decision, Director, Rejection};
use crate::extproc::{End, Exchange, Next, Settings};
use crate::recording::Recorder;
use crate::server::clock;
use crate::server::grpc::{Machine, Machines};
use crate::server::said::Said;
use crate::wire::{ProcessingRequest, ProcessingResponse};

/// Makes exchanges.
#[derive(Debug)]
pub struct Picker {
    /// Decides.
    pub director: Arc<Director>,
    /// How exchanges behave that begin from now on.
    pub settings: Arc<ArcSwap<Settings>>,
    /// When faults were last logged.
    pub said: Arc<Said>,
    /// Takes what has passed; none where nothing is recorded.
    pub recorder: Option<Recorder>,
}

/// An exchange that gets its decisions.
#[derive(Debug)]
pub struct Picking {
    exchange: Exchange,
    said: Arc<Said>,
    recorder: Option<Recorder>,
}

impl Machines for Picker {
    type Machine = Picking;

    fn machine(&self) -> Picking {
        let identity = fastrand::u128(..);
        let exchange =
            Exchange::new(Arc::clone(&self.director), self.settings.load_full(), identity);
        Picking { exchange, said: Arc::clone(&self.said), recorder: self.recorder.clone() }
    }
}

impl Machine for Picking {
    fn receive(&mut self, message: ProcessingRequest, now: Instant) {
        if self.exchange.receive(message, now) == Next::Decide
            && let Some(outcome) = self.exchange.decide(fastrand::u64(..))
        {
            report(&outcome, &self.said);
            if let (true, Ok(decision)) = (tracing::enabled!(tracing::Level::DEBUG), &outcome) {
                let model = self.exchange.ask().and_then(|ask| ask.model);
                placed(&self.exchange.request_id(), model, decision);
            }
            self.exchange.decided(outcome, clock::now());
        }
    }

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
        let passed = self.exchange.closed(now);
        if let (Some(recorder), Some(passed)) = (&self.recorder, passed) {
            recorder.record(passed);
        }
    }
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
    let request_id = String::from_utf8_lossy(request_id);
    tracing::debug!(%request_id, model, endpoint, rung = decision.rung.name(), "request placed");
}
