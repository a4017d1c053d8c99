//! The way of what spans are made of to whoever sends them.

use std::fmt;
use std::sync::Arc;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::metrics::TraceMetrics;
use crate::spans::{Sampler, Tree};

/// KiB of what waits for the exporter: what was noted of a decision is some KiB mostly, and 160 where there are 2,000
/// endpoints. Further requests are left out.
const ROOM: u32 = 16 << 10;

/// KiB that a request takes at least.
const LEAST: u32 = 8;

/// Requests for which there is room at most.
const QUEUED: usize = (ROOM / LEAST) as usize;

/// Makes the spans of a request.
pub struct Making {
    make: Box<dyn FnOnce() -> Tree + Send>,
    _room: OwnedSemaphorePermit,
}

/// Takes requests of which there are to be spans; whoever gives one never waits.
#[derive(Debug)]
pub struct Tracer {
    /// Of which requests.
    pub sampler: Sampler,
    queue: mpsc::Sender<Making>,
    room: Arc<Semaphore>,
    metrics: TraceMetrics,
}

impl Tracer {
    /// A tracer, and the queue that an exporter is to empty.
    pub fn new(sampler: Sampler, metrics: TraceMetrics) -> (Self, mpsc::Receiver<Making>) {
        let (queue, requests) = mpsc::channel(QUEUED);
        let room = Arc::new(Semaphore::new(ROOM as usize));
        (Self { sampler, queue, room, metrics }, requests)
    }

    /// Has spans made, elsewhere and later, of what takes so many bytes, if there is room for it and somebody sends them.
    pub fn trace(&self, bytes: usize, make: impl FnOnce() -> Tree + Send + 'static) {
        let kibibytes = u32::try_from(bytes / 1024).unwrap_or(ROOM).clamp(LEAST, ROOM);
        let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(kibibytes) else {
            return self.metrics.dropped.inc();
        };
        match self.queue.try_send(Making { make: Box::new(make), _room: room }) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.metrics.dropped.inc(),
            Err(TrySendError::Closed(_)) => self.metrics.failed.inc(),
        }
    }
}

impl Making {
    /// Makes them.
    pub fn make(self) -> Tree {
        (self.make)()
    }
}

impl fmt::Debug for Making {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Making")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn nobody_waits_for_an_exporter_that_is_slow_or_gone() {
        let metrics = Metrics::new("ns", "pool", false).unwrap().traces.clone();
        let (tracer, mut queue) = Tracer::new(Sampler::new(1.0, true), metrics.clone());
        let tree = || Tree { trace_id: 1, state: "".into(), spans: Vec::new() };
        (0..QUEUED + 5).for_each(|_| tracer.trace(100, tree));
        assert_eq!((metrics.dropped.get(), metrics.failed.get()), (5, 0));
        (0..QUEUED).for_each(|_| drop(queue.try_recv().unwrap().make()));
        (0..5).for_each(|_| tracer.trace(4 << 20, tree));
        assert_eq!((metrics.dropped.get(), metrics.failed.get()), (6, 0), "few large ones fill it");
        drop(queue);
        tracer.trace(0, tree);
        assert_eq!((metrics.dropped.get(), metrics.failed.get()), (6, 1));
    }
}
