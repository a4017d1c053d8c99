//! Runs an engine in real time and hands each client its tokens.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, mpsc, watch},
    time::{Instant, sleep_until},
};

use super::{
    engine::{AdapterId, Counters, Engine, EngineSpec, Event, Gauges, Job, JobId, Refused},
    fault::Fault,
};

/// Events that a client may lag behind; at the next one its job is dropped and its stream cut.
const UNREAD_EVENTS: usize = 1_024;

/// Jobs in the engine, waiting ones included; at the bound a request is refused.
const MAX_JOBS: usize = 65_536;

/// Bound of a step, whatever factors are ordered.
const LONGEST_STEP: Duration = Duration::from_hours(1);

/// One engine, shared by the handlers that submit to it and the task that steps it.
pub(super) struct Driver {
    spec: EngineSpec,
    time_scale: f64,
    core: Mutex<Core>,
    submitted: Notify,
}

struct Core {
    engine: Engine,
    jobs: HashMap<JobId, mpsc::Sender<Event>>,
    next_id: u64,
}

impl Driver {
    /// An idle engine that runs `time_scale` times faster than its model.
    pub(super) fn new(spec: EngineSpec, time_scale: f64) -> Self {
        let engine = Engine::new(spec.clone());
        let core = Mutex::new(Core { engine, jobs: HashMap::new(), next_id: 0 });
        Self { spec, time_scale, core, submitted: Notify::new() }
    }

    pub(super) fn spec(&self) -> &EngineSpec {
        &self.spec
    }

    /// Submits a job under an id of its own. Its events end without [`Event::Finished`] when the
    /// job was dropped; dropping the receiver withdraws the job with the next step.
    pub(super) fn submit(&self, job: Job) -> Result<mpsc::Receiver<Event>, SubmitError> {
        let mut core = self.core.lock();
        if core.jobs.len() >= MAX_JOBS {
            return Err(SubmitError::Full);
        }
        core.next_id += 1;
        let id = JobId(core.next_id);
        core.engine.submit(Job { id, ..job })?;
        let (sender, receiver) = mpsc::channel(UNREAD_EVENTS);
        core.jobs.insert(id, sender);
        self.submitted.notify_one();
        Ok(receiver)
    }

    /// What the metrics page tells.
    pub(super) fn load(&self) -> Load {
        let core = self.core.lock();
        Load {
            gauges: core.engine.gauges(),
            counters: *core.engine.counters(),
            running_adapters: core.engine.running_adapters().collect(),
            waiting_adapters: core.engine.waiting_adapters().collect(),
        }
    }

    /// Starts over as a new process does: cold cache, all jobs gone.
    pub(super) fn restart(&self) {
        let mut core = self.core.lock();
        core.engine = Engine::new(self.spec.clone());
        core.jobs.clear();
    }

    /// Steps the engine for as long as the fleet lives. Steps follow a schedule of their own, so
    /// that late wake-ups do not add up.
    pub(super) async fn run(&self, mut faults: watch::Receiver<Fault>) -> anyhow::Result<()> {
        let mut events = Vec::new();
        let mut due = Instant::now();
        loop {
            let stopped = faults.borrow().stops_the_engine();
            if stopped {
                faults.wait_for(|fault| !fault.stops_the_engine()).await?;
                due = Instant::now();
            }
            if let Some(duration) = self.begin_step(&mut events) {
                let slowdown = faults.borrow().slowdown();
                due += stretched(duration, slowdown / self.time_scale);
                sleep_until(due).await;
                self.deliver(&mut events);
            } else {
                self.submitted.notified().await;
                due = Instant::now();
            }
        }
    }

    fn begin_step(&self, events: &mut Vec<Event>) -> Option<Duration> {
        let Core { engine, jobs, .. } = &mut *self.core.lock();
        jobs.retain(|id, sender| {
            let wanted = !sender.is_closed();
            wanted || !engine.cancel(*id)
        });
        engine.step(events)
    }

    fn deliver(&self, events: &mut Vec<Event>) {
        let Core { engine, jobs, .. } = &mut *self.core.lock();
        for event in events.drain(..) {
            let id = event.id();
            let Some(sender) = jobs.get(&id) else { continue };
            let lost = sender.try_send(event).is_err();
            if lost {
                engine.cancel(id);
            }
            if lost || matches!(event, Event::Finished { .. }) {
                jobs.remove(&id);
            }
        }
    }
}

fn stretched(duration: Duration, factor: f64) -> Duration {
    let stretched = Duration::try_from_secs_f64(duration.as_secs_f64() * factor);
    stretched.map_or(LONGEST_STEP, |stretched| stretched.min(LONGEST_STEP))
}

/// Why a job was not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum SubmitError {
    /// It can never run.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Too many jobs wait.
    #[error("too many requests wait")]
    Full,
}

/// State of an engine as its metrics page shows it.
#[derive(Clone, Debug, Default)]
pub(super) struct Load {
    pub(super) gauges: Gauges,
    pub(super) counters: Counters,
    pub(super) running_adapters: BTreeSet<AdapterId>,
    pub(super) waiting_adapters: BTreeSet<AdapterId>,
}
