//! What a decision knows of the endpoints' caches, and what it adds.

use std::sync::Arc;

use crate::metrics::{Metrics, PrefixMatches};
use crate::pool::{Endpoint, Slot, Snapshot};
use crate::prefix::{Chain, Hashing, Hits, Index};

/// The index and what is counted of it.
#[derive(Debug)]
pub(super) struct Affinity {
    index: Arc<Index>,
    matches: PrefixMatches,
}

impl Affinity {
    pub(super) fn new(index: Arc<Index>, metrics: &Metrics) -> Self {
        let matches = metrics.prefix(&index.settings().name);
        Self { index, matches }
    }

    /// The same, counting elsewhere.
    pub(super) fn aside(&self, metrics: &Metrics) -> Self {
        Self::new(Arc::clone(&self.index), metrics)
    }

    /// Whether it is over this index.
    pub(super) fn is_over(&self, index: &Arc<Index>) -> bool {
        Arc::ptr_eq(&self.index, index)
    }

    pub(super) fn hashing(&self) -> Hashing {
        self.index.hashing()
    }

    /// Finds what each candidate has of a prompt.
    pub(super) fn sense(&self, chain: &Chain, candidates: &[Slot], hits: &mut Hits) {
        self.index.longest(chain, candidates, hits);
    }

    /// Counts what the chosen endpoint has of the prompt.
    pub(super) fn count(&self, endpoint: &Endpoint, hits: &Hits) {
        let total = u64::from(hits.total()) * u64::from(hits.block_tokens());
        self.matches.observe(hits.tokens(endpoint.id.slot), total);
    }

    /// Remembers the prompt as the endpoint's. At the decision, not when it is answered: the next of a burst of equal
    /// prompts must find the first.
    pub(super) fn placed(&self, snapshot: &Snapshot, endpoint: &Endpoint, chain: &Chain) {
        let capacity = snapshot.kv_capacity_tokens(endpoint.id.slot);
        self.index.record(endpoint.id, chain, capacity);
    }
}
