//! One request inside an engine.

use std::sync::Arc;

use super::{AdapterId, Event, Job, JobId, kv::Kv};

/// A job and how far it got.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) id: JobId,
    pub(super) adapter: Option<AdapterId>,
    prompt_tokens: usize,
    output_tokens: usize,
    blocks: Arc<[u64]>,
    /// Leading blocks of the prompt that may ever be shared: hashed, and full.
    shareable: usize,
    /// Leading blocks that are referenced as shared.
    shared: usize,
    /// Blocks of its own.
    pub(super) private: usize,
    /// Leading tokens in the cache.
    computed: usize,
    /// Tokens to compute before decoding goes on: the prompt, after a preemption also the output
    /// so far.
    prefill_end: usize,
    generated: usize,
    /// Tokens that the present step computes.
    pub(super) planned: usize,
    /// Prompt tokens that were hits at the first admission; none before.
    cached_tokens: Option<usize>,
    /// Leading tokens that it had in the cache when it was last preempted.
    lost: usize,
}

impl Request {
    pub(super) fn new(job: Job, block_tokens: usize) -> Self {
        let prompt_tokens = job.prompt_tokens.max(1);
        Self {
            id: job.id,
            adapter: job.adapter,
            prompt_tokens,
            output_tokens: job.output_tokens.max(1),
            shareable: job.blocks.len().min(prompt_tokens / block_tokens),
            blocks: job.blocks,
            shared: 0,
            private: 0,
            computed: 0,
            prefill_end: prompt_tokens,
            generated: 0,
            planned: 0,
            cached_tokens: None,
            lost: 0,
        }
    }

    /// Whether the prompt is computed, so that each step yields a token.
    pub(super) fn is_decoding(&self) -> bool {
        self.computed >= self.prefill_end
    }

    /// Tokens that are to be computed before the next output token.
    pub(super) fn remaining(&self) -> usize {
        self.prompt_tokens + self.generated - self.computed
    }

    /// Tokens of the prompt that are not computed.
    pub(super) fn prefill_left(&self) -> usize {
        self.prefill_end.saturating_sub(self.computed)
    }

    /// Output tokens that it has not yet.
    pub(super) fn outputs_left(&self) -> usize {
        self.output_tokens.saturating_sub(self.generated)
    }

    /// Tokens that it will have in the cache at its end and has not yet.
    pub(super) fn tokens_left(&self) -> usize {
        self.prompt_tokens + self.output_tokens - self.computed
    }

    /// Leading blocks that it has in common with another prompt. Each hash is one of all blocks up to it, so that they
    /// are equal up to some block and differ from there on.
    pub(super) fn common_blocks(&self, blocks: &[u64]) -> usize {
        let own = self.blocks.get(..self.shareable).unwrap_or_default();
        let (mut equal, mut different) = (0, own.len().min(blocks.len()) + 1);
        while different - equal > 1 {
            let middle = usize::midpoint(equal, different);
            let same = own.get(middle - 1) == blocks.get(middle - 1);
            if same { equal = middle } else { different = middle }
        }
        equal
    }

    /// Blocks to be added before `tokens` more can be computed.
    pub(super) fn missing_blocks(&self, tokens: usize, block_tokens: usize) -> usize {
        let needed = (self.computed + tokens).div_ceil(block_tokens);
        needed.saturating_sub(self.shared + self.private)
    }

    /// The blocks that may be hits: at least one token is always computed.
    pub(super) fn hit_chain(&self, block_tokens: usize) -> &[u64] {
        let longest = self.remaining().saturating_sub(1) / block_tokens;
        self.blocks.get(..self.shareable.min(longest)).unwrap_or_default()
    }

    /// The blocks that it references.
    pub(super) fn shared_chain(&self) -> &[u64] {
        self.blocks.get(..self.shared).unwrap_or_default()
    }

    /// Starts, or starts again, from `hits` leading blocks that are in the cache.
    pub(super) fn start(&mut self, hits: usize, block_tokens: usize) -> Start {
        self.shared = hits;
        self.computed = hits * block_tokens;
        self.prefill_end = self.prompt_tokens + self.generated;
        if self.cached_tokens.is_some() {
            return Start::Again { lost_tokens: self.lost.saturating_sub(self.computed) };
        }
        self.cached_tokens = Some(self.computed);
        Start::First { prompt_tokens: self.prompt_tokens, cached_tokens: self.computed }
    }

    /// Returns to the state before it was started; its output stands.
    pub(super) fn reset(&mut self) {
        self.lost = self.computed;
        (self.shared, self.private, self.computed, self.planned) = (0, 0, 0, 0);
    }

    /// Does what was planned: shares the blocks that got full, and yields a token if the step
    /// reached one.
    pub(super) fn advance(&mut self, kv: &mut Kv, block_tokens: usize) -> Option<Event> {
        self.computed += std::mem::take(&mut self.planned);
        let full = self.shareable.min(self.computed / block_tokens);
        if let Some(computed) = self.blocks.get(self.shared..full).filter(|it| !it.is_empty()) {
            kv.share(computed);
            self.private -= computed.len();
            self.shared = full;
        }
        if self.remaining() > 0 {
            return None;
        }
        self.generated += 1;
        Some(match (self.generated, self.cached_tokens) {
            (1, cached) => Event::FirstToken { id: self.id, cached_tokens: cached.unwrap_or(0) },
            _ => Event::Token { id: self.id },
        })
    }

    pub(super) fn is_finished(&self) -> bool {
        self.generated >= self.output_tokens
    }
}

/// What a start means for the totals.
#[derive(Clone, Copy, Debug)]
pub(super) enum Start {
    /// It had not been started before.
    First { prompt_tokens: usize, cached_tokens: usize },
    /// It had been preempted, and has so many tokens to compute that it had then.
    Again { lost_tokens: usize },
}
