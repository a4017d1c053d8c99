//! The way of what spans are made of to whoever sends them.

use std::fmt;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::metrics::TraceMetrics;
use crate::spans::{Sampler, Tree};

/// Requests that may wait for the exporter, each with what was noted of its decision, some kilobytes mostly; further ones
/// are left out.
const QUEUED: usize = 512;

/// Makes the spans of a request.
pub struct Making(Box<dyn FnOnce() -> Tree + Send>);

/// Takes requests of which there are to be spans; whoever gives one never waits.
#[derive(Debug)]
pub struct Tracer {
    /// Of which requests.
    pub sampler: Sampler,
    queue: mpsc::Sender<Making>,
    metrics: TraceMetrics,
}

impl Tracer {
    /// A tracer, and the queue that an exporter is to empty.
    pub fn new(sampler: Sampler, metrics: TraceMetrics) -> (Self, mpsc::Receiver<Making>) {
        let (queue, requests) = mpsc::channel(QUEUED);
        (Self { sampler, queue, metrics }, requests)
    }

    /// Has spans made, elsewhere and later, if there is room in the queue and somebody sends them.
    pub fn trace(&self, make: impl FnOnce() -> Tree + Send + 'static) {
        match self.queue.try_send(Making(Box::new(make))) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.metrics.dropped.inc(),
            Err(TrySendError::Closed(_)) => self.metrics.failed.inc(),
        }
    }
}

impl Making {
    /// Makes them.
    pub fn make(self) -> Tree {
        (self.0)()
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
        let (tracer, queue) = Tracer::new(Sampler::new(1.0, true), metrics.clone());
        let tree = || Tree { trace_id: 1, state: "".into(), spans: Vec::new() };
        (0..QUEUED + 5).for_each(|_| tracer.trace(tree));
        assert_eq!((metrics.dropped.get(), metrics.failed.get()), (5, 0));
        drop(queue);
        tracer.trace(tree);
        assert_eq!((metrics.dropped.get(), metrics.failed.get()), (5, 1));
    }
}
