//! What came of a run.

use std::time::Duration;

/// What came of one run, over the requests that count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// One for each request that was answered, in the order of arrival.
    pub served: Vec<Served>,
    /// Requests placed on each pod, by its position.
    pub placed: Vec<u64>,
    /// Times an adapter was loaded, over all pods.
    pub adapter_loads: u64,
    /// Prompt tokens computed that were computed on some pod before, or again after a preemption.
    pub recomputed_tokens: u64,
    /// Requests larger than an engine's cache, which no policy is asked about.
    pub left_out: u64,
    /// Requests that the policy refused.
    pub refused: u64,
    /// Replicas that the load needed, from when on, as autoscalers would have been told; nothing by other policies than the
    /// production director.
    pub needed: Vec<(Duration, u32)>,
}

/// One request that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Arrival to the end of the step that computes the last prompt token.
    pub ttft: Duration,
    /// Arrival to the last token.
    pub end_to_end: Duration,
    /// Output tokens.
    pub output_tokens: usize,
    /// Length of the prompt.
    pub prompt_tokens: usize,
    /// Prompt tokens that were hits.
    pub cached_tokens: usize,
    /// As in [`Arrival`](super::Arrival).
    pub shared_tokens: usize,
}
