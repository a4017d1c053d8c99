//! What a workload arrives at.

use std::time::Duration;

use crate::sim::engine::EngineSpec;

/// The engines of a run, and what is known of them.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// One for each pod.
    pub engines: Vec<EngineSpec>,
    /// Between two reads of a pod's gauges; 50 ms unless given. The phases of the pods are spread by the seed.
    pub scrape_interval: Duration,
    /// Pods that fail for a while.
    pub outages: Vec<Outage>,
}

/// A pod that is gone for a while: what it has is lost and asked for again, its cache is cold afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Position of the pod.
    pub pod: usize,
    /// Since the start of the run.
    pub from: Duration,
    /// Since the start of the run, after `from`.
    pub to: Duration,
}
