//! The picker behind the gRPC service: an exchange for each stream, its decisions from one director.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::director::{Decision, Director, Rejection};
use crate::extproc::{End, Exchange, Next, Settings};
use crate::server::clock;
use crate::server::grpc::{Machine, Machines};
use crate::wire::{ProcessingRequest, ProcessingResponse};

/// Makes exchanges.
#[derive(Debug)]
pub struct Picker {
    /// Decides.
    pub director: Arc<Director>,
    /// How exchanges behave.
    pub settings: Arc<Settings>,
}

/// An exchange that gets its decisions.
#[derive(Debug)]
pub struct Picking {
    exchange: Exchange,
    director: Arc<Director>,
}

impl Machines for Picker {
    type Machine = Picking;

    fn machine(&self) -> Picking {
        let identity = fastrand::u128(..);
        let exchange =
            Exchange::new(Arc::clone(&self.director), Arc::clone(&self.settings), identity);
        Picking { exchange, director: Arc::clone(&self.director) }
    }
}

impl Machine for Picking {
    fn receive(&mut self, message: ProcessingRequest, now: Instant) {
        if self.exchange.receive(message, now) == Next::Decide
            && let Some(ask) = self.exchange.ask()
        {
            let outcome = self.director.decide(ask, fastrand::u64(..));
            report(&outcome);
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
        self.exchange.closed(now);
    }
}

/// Logs the faults of a decision.
fn report(outcome: &Result<Decision, Rejection>) {
    match outcome {
        Ok(decision) => {
            for fault in &decision.faults {
                let (plugin, reason) = (fault.plugin(), fault.cause());
                tracing::warn!(
                    plugin,
                    reason,
                    rung = decision.rung.name(),
                    "plugin left out of a decision"
                );
            }
        }
        Err(Rejection::Internal(fault)) => {
            tracing::error!(
                plugin = fault.plugin(),
                reason = fault.cause(),
                "filter failed, request refused"
            );
        }
        Err(Rejection::NotSynced | Rejection::NoEndpoints | Rejection::Saturated) => {}
    }
}
