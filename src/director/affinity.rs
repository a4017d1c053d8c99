//! What a decision knows of the endpoints' caches, what it adds, and what answers correct.
//!
//! An engine tells how much of a prompt it had in its cache when it began to compute it. That is compared with what was
//! believed: a miss costs the endpoint trust and room in the index (see [`Index::judge`] and [`Index::missed`]). Not
//! held against it are
//! - blocks of requests that it had yet to answer when this one was placed: it may not have computed them in time;
//! - less than a block of the index and one of the engine, since hits are counted in whole blocks;
//! - of a text, an eighth: where in it a token ends is not known;
//! - prompts with media, whose length in tokens is a guess.
//!
//! The prompt itself is not forgotten: it was computed for this very answer.

use std::sync::Arc;

use crate::director::report::{Prediction, Report};
use crate::metrics::{Metrics, PrefixMatches};
use crate::pool::{Endpoint, Slot, Snapshot};
use crate::prefix::{Chain, Hashing, Hits, Index};
use crate::request::BytesPerToken;
use crate::schedule::Fault;
use crate::schedule::profile::contained;
use crate::units::whole;

/// Tokens of an engine's block while its page does not say: that of vLLM.
const ENGINE_BLOCK_TOKENS: u32 = 16;

/// The place of a token in a text may be missed by one of so many parts of what comes before it.
const TEXT_SLACK: u64 = 8;

/// Expected tokens that make an answer count fully: what is lost on fewer is little.
const FULL_WEIGHT_TOKENS: f32 = 1024.0;

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

    /// Finds what each candidate has of a prompt; nothing where that fails.
    pub(super) fn sense(
        &self,
        chain: &Chain,
        candidates: &[Slot],
        hits: &mut Hits,
    ) -> Option<Fault> {
        let fault = self.guard(|| self.index.longest(chain, candidates, hits));
        if fault.is_some() {
            hits.clear();
        }
        fault
    }

    /// The endpoint is chosen: counts what it has of the prompt, foretells what it will say, and remembers the prompt as
    /// its own. At the decision, not when it is answered: the next of a burst of equal prompts must find the first.
    pub(super) fn chosen(
        &self,
        snapshot: &Snapshot,
        endpoint: &Endpoint,
        (chain, hits): (&Chain, &Hits),
        prediction: &mut Prediction,
    ) -> Option<Fault> {
        self.guard(|| {
            let (believed, block_tokens) = (hits.blocks(endpoint.id.slot), hits.block_tokens());
            let tokens = |blocks: u32| u64::from(blocks) * u64::from(block_tokens);
            self.matches.observe(tokens(believed), tokens(hits.total()));
            let others = endpoint.live.requests().saturating_sub(1);
            prediction.believed = believed;
            prediction.settled = self.index.settled(endpoint.id, chain, believed, others);
            self.placed(snapshot, endpoint, chain);
        })
    }

    /// Remembers a prompt as the endpoint's.
    pub(super) fn placed(&self, snapshot: &Snapshot, endpoint: &Endpoint, chain: &Chain) {
        let capacity = snapshot.kv_capacity_tokens(endpoint.id.slot);
        self.index.record(endpoint.id, chain, capacity);
    }

    /// Text has so many bytes to a token, over all models.
    pub(super) fn calibrated(&self, by: BytesPerToken) {
        self.index.scale(BytesPerToken::default().ratio() / by.ratio());
    }

    /// Learns from how much of a prompt the endpoint said that it had.
    pub(super) fn learn(&self, snapshot: &Snapshot, report: &Report<'_>) {
        let &Report { endpoint, chain, prediction, usage, .. } = report;
        let (Some(cached), Prediction { prompt, believed, settled, .. }) =
            (usage.cached, prediction)
        else {
            return;
        };
        if prompt.media > 0 || prompt.tokens == 0 || usage.prompt == 0 {
            return;
        }
        let slot = endpoint.id.slot;
        let block_tokens = f64::from(self.index.settings().block_tokens.get())
            * (usage.prompt as f64 / prompt.tokens as f64);
        let tokens = |blocks: u32| whole(f64::from(blocks) * block_tokens);
        self.matches.reported(tokens(believed), cached);
        let (expected, one_block) = (tokens(settled), tokens(1).max(1));
        let engine_block = u64::from(snapshot.block_size(slot).unwrap_or(ENGINE_BLOCK_TOKENS));
        let unsure = if prompt.text_bytes > 0 { expected.max(cached) / TEXT_SLACK } else { 0 };
        let short = expected.saturating_sub(cached);
        let missed = short > one_block + engine_block + unsure;
        if expected > 0 {
            let right = if missed { cached as f32 / expected as f32 } else { 1.0 };
            self.index.judge(endpoint.id, right, expected as f32 / FULL_WEIGHT_TOKENS);
        }
        let blocks = |tokens: u64| usize::try_from(tokens / one_block).unwrap_or(usize::MAX);
        if missed {
            self.index.missed(endpoint.id, chain, blocks(short));
        } else if cached > tokens(believed) + one_block + unsure {
            let capacity = snapshot.kv_capacity_tokens(slot);
            self.index.found(endpoint.id, chain, blocks(cached - unsure), capacity);
        }
    }

    /// A fault of the index costs what it knows, never the request.
    fn guard(&self, work: impl FnOnce()) -> Option<Fault> {
        (!contained(work)).then(|| Fault::Panicked((&*self.index.settings().name).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prefix::Settings;

    #[test]
    fn a_fault_of_the_index_is_contained_and_named() {
        let index = Arc::new(Index::new(Settings::default(), 1));
        let affinity = Affinity::new(index, &Metrics::new("ns", "pool", false).unwrap());
        let fault = affinity.guard(|| panic!("a fault"));
        assert_eq!(fault, Some(Fault::Panicked("approx-prefix-cache-producer".into())));
        assert_eq!(affinity.guard(|| {}), None);
    }
}
