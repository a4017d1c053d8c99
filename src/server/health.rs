//! gRPC health (`grpc.health.v1`) for gateways and the kubelet, and the life sign of the event
//! loops.
//!
//! | service | SERVING when |
//! |---|---|
//! | `""`, `readiness`, `envoy.service.ext_proc.v3.ExternalProcessor` | [`Readiness::ready`] |
//! | `liveness` | every event loop beats; depends on nothing else |
//! | `inference-extension` | as readiness until that was fulfilled once or 60 s have passed, then until the drain |
//!
//! Existing charts use the last name for both probes: it must neither restart a replica that waits
//! for its pool nor send traffic to one that just started. Any other name is `NOT_FOUND`, and `SERVICE_UNKNOWN` to who
//! watches it.

#[cfg(test)]
mod tests;
mod watched;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};

use crate::pool::readiness::Readiness;

use self::watched::Watchable;

/// Names that answer as readiness.
const READINESS: [&str; 3] = ["", "readiness", "envoy.service.ext_proc.v3.ExternalProcessor"];

/// The name that answers for the process alone.
const LIVENESS: &str = "liveness";

/// The name that existing charts use for both probes.
const LATCHED: &str = "inference-extension";

/// After this time `inference-extension` is SERVING without a pool, so that no kubelet restarts us
/// for waiting.
const LATCH_AFTER: Duration = Duration::from_mins(1);

/// How often an event loop gives a life sign, and how often they are looked at.
const BEAT: Duration = Duration::from_secs(1);

/// Silence after which an event loop counts as hung.
const SILENCE: Duration = Duration::from_secs(10);

/// The life sign of one event loop.
#[derive(Debug)]
pub struct Pulse {
    started: Instant,
    /// Milliseconds from `started` to the last beat.
    last_beat: AtomicU64,
}

impl Pulse {
    /// A pulse that beats now.
    pub fn new() -> Self {
        Self { started: Instant::now(), last_beat: AtomicU64::new(0) }
    }

    /// Beats for ever, on the event loop that is to be watched.
    pub async fn beat(&self) {
        let mut ticks = interval(BEAT);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let elapsed = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.last_beat.store(elapsed, Ordering::Relaxed);
        }
    }

    /// Whether the last beat is less than 10 s ago.
    pub fn alive(&self) -> bool {
        let last_beat = Duration::from_millis(self.last_beat.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(last_beat) < SILENCE
    }
}

impl Default for Pulse {
    fn default() -> Self {
        Self::new()
    }
}

/// The state behind all health services; keep one for each process.
#[derive(Debug, Clone)]
pub struct Health {
    reporter: HealthReporter,
    readiness: watch::Receiver<Readiness>,
    pulses: Arc<[Arc<Pulse>]>,
}

impl Health {
    /// Nothing is SERVING before [`Health::follow`] runs; `pulses` are all event loops.
    pub async fn new(readiness: watch::Receiver<Readiness>, pulses: &[Arc<Pulse>]) -> Self {
        let health = Self { reporter: HealthReporter::new(), readiness, pulses: pulses.into() };
        health.publish(&Verdict::default()).await;
        health
    }

    /// The service to add to a gRPC server; all servers of one state say the same.
    pub fn service(&self) -> HealthServer<Watchable> {
        let service = HealthService::from_health_reporter(self.reporter.clone());
        HealthServer::new(Watchable(service))
    }

    /// The conditions of readiness as they are now.
    pub fn readiness(&self) -> Readiness {
        self.readiness.borrow().clone()
    }

    /// Whether every event loop beats.
    pub fn alive(&self) -> bool {
        self.pulses.iter().all(|pulse| pulse.alive())
    }

    /// Keeps the services current, for ever, or until the source of readiness is gone.
    pub async fn follow(mut self) {
        let started = Instant::now();
        let mut ticks = interval(BEAT);
        let mut verdict = Verdict::default();
        loop {
            let readiness = self.readiness.borrow_and_update().clone();
            let next = verdict.next(&readiness, self.alive(), started.elapsed());
            if next != verdict {
                self.publish(&next).await;
                verdict = next;
            }
            tokio::select! {
                _ = ticks.tick() => {}
                changed = self.readiness.changed() => if changed.is_err() { return },
            }
        }
    }

    async fn publish(&self, verdict: &Verdict) {
        for name in READINESS {
            self.reporter.set_service_status(name, status(verdict.ready)).await;
        }
        self.reporter.set_service_status(LIVENESS, status(verdict.alive)).await;
        self.reporter.set_service_status(LATCHED, status(verdict.latched == Latch::Serving)).await;
    }
}

/// What the services answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Verdict {
    ready: bool,
    alive: bool,
    latched: Latch,
}

impl Verdict {
    /// The verdict after this one, `up` after the start.
    fn next(self, readiness: &Readiness, alive: bool, up: Duration) -> Self {
        let ready = readiness.ready();
        let latched = match self.latched {
            _ if readiness.draining => Latch::Draining,
            Latch::Waiting if !ready && up < LATCH_AFTER => Latch::Waiting,
            Latch::Waiting | Latch::Serving | Latch::Draining => Latch::Serving,
        };
        Self { ready, alive, latched }
    }
}

/// The answer of `inference-extension`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Latch {
    /// Never served yet.
    #[default]
    Waiting,
    Serving,
    Draining,
}

fn status(serving: bool) -> ServingStatus {
    if serving { ServingStatus::Serving } else { ServingStatus::NotServing }
}
