//! What arrives when.

use std::sync::Arc;
use std::time::Duration;

use crate::prefix::Chain;
use crate::sim::engine::AdapterId;

/// Requests in the order of their arrival.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// Sorted by [`Arrival::at`].
    pub arrivals: Vec<Arrival>,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Since the start of the run.
    pub at: Duration,
    /// Length of the prompt, at least 1.
    pub prompt_tokens: usize,
    /// Tokens that the engine will generate, at least 1; no policy but the oracle knows it.
    pub output_tokens: usize,
    /// None asks for the base model.
    pub adapter: Option<AdapterId>,
    /// The prompt's whole blocks of 64 tokens, as the director hashes them.
    pub chain: Arc<Chain>,
    /// The prompt's whole blocks of 16 tokens, as the engine hashes them.
    pub blocks: Arc<[u64]>,
    /// Tokens at the start of the prompt that other requests share; 0 where the workload does not say.
    pub shared_tokens: usize,
    /// False while the caches are warmed: it is served and counts in no figure.
    pub counts: bool,
}
