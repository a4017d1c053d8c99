//! A model of an inference engine in virtual time, scheduled in steps as vLLM's V1 engine is.
//!
//! Each step has a budget of tokens. Running requests come first: those that decode take one token
//! each, then prompts that were begun go on. What is left admits waiting requests, in order, while
//! sequences, cache blocks and adapter slots allow; a request whose adapter finds no slot is passed
//! over, any other lack ends admission. When a running request finds no cache block, the last one
//! admitted is preempted: it loses its blocks and waits at the head of the queue to be recomputed.
//! A step that preempts admits nobody.
//!
//! A step lasts
//! `(prefill tokens / rate + [n >= 1] * base * (1 + growth * (n - 1)) + loads * load time) * slowdown`
//! with `n` sequences that decode in it and `loads` adapters that it brings in. What happens in a
//! step happens at its end. The step in which the last prompt token is computed yields the first
//! output token.
//!
//! The engine has no clock, no randomness and does no input or output: whoever drives it decides
//! what a step's duration means. It may be cloned, at little cost, and run ahead.

mod adapters;
mod blocks;
mod bound;
mod kv;
mod request;
mod spec;
mod step;
#[cfg(test)]
mod tests;

use std::{collections::VecDeque, sync::Arc};

pub use self::blocks::Spread;
pub use self::spec::EngineSpec;
use self::{adapters::AdapterSlots, kv::Kv, request::Request};

/// One engine: its requests, its cache, its adapters.
///
/// The queue has no bound of its own, like that of the engine it models: whoever submits bounds it.
#[derive(Clone, Debug)]
pub struct Engine {
    spec: EngineSpec,
    waiting: VecDeque<Request>,
    /// In order of admission; at most `spec.sequences`.
    running: Vec<Request>,
    kv: Kv,
    adapters: AdapterSlots,
    counters: Counters,
    /// What the present step works on; zero when the last call of `step` found nothing to do.
    in_step: InStep,
}

impl Engine {
    /// An idle engine with a cold cache.
    pub fn new(spec: EngineSpec) -> Self {
        Self {
            kv: Kv::new(spec.kv_blocks()),
            adapters: AdapterSlots::new(spec.adapter_slots),
            spec,
            waiting: VecDeque::new(),
            running: Vec::new(),
            counters: Counters::default(),
            in_step: InStep::default(),
        }
    }

    /// What the engine was built with.
    pub fn spec(&self) -> &EngineSpec {
        &self.spec
    }

    /// Puts a job at the end of the queue; the next step may admit it.
    ///
    /// # Errors
    /// When the job could never run: it is larger than the cache, or needs an adapter slot where
    /// there is none.
    pub fn submit(&mut self, job: Job) -> Result<(), Refused> {
        if !self.spec.fits(job.prompt_tokens, job.output_tokens) {
            return Err(Refused::TooLarge);
        }
        if job.adapter.is_some() && self.spec.adapter_slots == 0 {
            return Err(Refused::NoAdapterSlots);
        }
        self.counters.submitted += 1;
        self.waiting.push_back(Request::new(job, self.spec.block_tokens()));
        Ok(())
    }

    /// Forgets a job, waiting or running, and frees what it holds; false when it is not there.
    pub fn cancel(&mut self, id: JobId) -> bool {
        let request = if let Some(at) = self.running.iter().position(|request| request.id == id) {
            let request = self.running.remove(at);
            self.vacate(&request);
            Some(request)
        } else {
            let at = self.waiting.iter().position(|request| request.id == id);
            at.and_then(|at| self.waiting.remove(at))
        };
        self.counters.cancelled += u64::from(request.is_some());
        request.is_some()
    }

    /// Load as the engine would publish it during the present step.
    ///
    /// A request that finishes at the end of the step still runs; one that was submitted after the
    /// step began waits.
    pub fn gauges(&self) -> Gauges {
        Gauges {
            waiting: self.waiting.len(),
            running: self.in_step.running,
            kv_used: self.kv.fraction(self.in_step.used_blocks),
        }
    }

    /// Totals since the engine was built.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Prompt tokens that would be hits if this prompt were admitted now.
    pub fn cached_tokens(&self, prompt_tokens: usize, blocks: &[u64]) -> usize {
        let block_tokens = self.spec.block_tokens();
        let longest = prompt_tokens.saturating_sub(1) / block_tokens;
        self.kv.hits(blocks.get(..longest).unwrap_or(blocks)).blocks * block_tokens
    }

    /// Adapters that need no loading, at most `adapter_slots`.
    pub fn resident_adapters(&self) -> impl Iterator<Item = AdapterId> {
        self.adapters.resident()
    }

    /// Adapters of requests that run.
    pub fn running_adapters(&self) -> impl Iterator<Item = AdapterId> {
        self.adapters.running()
    }

    /// Adapters of requests that wait, in the order of the queue, with repetitions.
    pub fn waiting_adapters(&self) -> impl Iterator<Item = AdapterId> {
        self.waiting.iter().filter_map(|request| request.adapter)
    }

    fn vacate(&mut self, request: &Request) {
        self.kv.release(request.shared_chain(), request.private);
        if let Some(adapter) = request.adapter {
            self.adapters.end(adapter);
        }
    }
}

/// What an engine is asked to do.
#[derive(Clone, Debug)]
pub struct Job {
    /// Unique among the jobs of the engine; chosen by the caller.
    pub id: JobId,
    /// Length of the prompt; 0 counts as 1.
    pub prompt_tokens: usize,
    /// Chained hashes of the full blocks of the prompt, first block first. Whatever separates
    /// caches (model, adapter, salt) is part of the chain. May be shorter than the prompt: the rest
    /// is never a hit.
    pub blocks: Arc<[u64]>,
    /// Tokens to generate; 0 counts as 1.
    pub output_tokens: usize,
    /// The adapter that the job needs, none for the base model.
    pub adapter: Option<AdapterId>,
}

/// Why a job was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Prompt and output together are larger than the cache.
    #[error("prompt and output exceed the key-value cache")]
    TooLarge,
    /// The job needs an adapter and the engine has no slot for any.
    #[error("the engine serves no adapters")]
    NoAdapterSlots,
}

/// Identifies a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// Identifies a LoRA adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AdapterId(pub u32);

/// What happens to a job at the end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The prompt is computed and the first output token is there.
    FirstToken {
        /// The job.
        id: JobId,
        /// Prompt tokens that were hits when the job was first admitted, a multiple of the block
        /// size and less than the prompt.
        cached_tokens: usize,
    },
    /// One more output token.
    Token {
        /// The job.
        id: JobId,
    },
    /// The job has all its tokens and is gone; follows its last token.
    Finished {
        /// The job.
        id: JobId,
    },
    /// The job lost its cache blocks and waits again. Its tokens so far stand.
    Preempted {
        /// The job.
        id: JobId,
    },
}

impl Event {
    /// The job that it happens to.
    pub fn id(&self) -> JobId {
        match *self {
            Self::FirstToken { id, .. }
            | Self::Token { id }
            | Self::Finished { id }
            | Self::Preempted { id } => id,
        }
    }
}

/// Load of an engine at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Requests whose prefill has not begun, or that were preempted.
    pub waiting: usize,
    /// Requests in the present step or between two chunks of their prompt.
    pub running: usize,
    /// Share of the cache blocks in use, 0.0 ..= 1.0; idle prefix blocks count as free.
    pub kv_used: f64,
}

/// Totals of an engine, only ever growing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Jobs taken.
    pub submitted: u64,
    /// Jobs that got all their tokens.
    pub finished: u64,
    /// Jobs withdrawn.
    pub cancelled: u64,
    /// Times a running request lost its blocks.
    pub preempted: u64,
    /// Prompt tokens of requests at their first admission.
    pub queried_tokens: u64,
    /// How many of these were hits.
    pub cached_tokens: u64,
    /// Tokens computed in prefill, those computed again after a preemption included.
    pub prefill_tokens: u64,
    /// How many of these were computed before, by the same request.
    pub recomputed_tokens: u64,
    /// Output tokens.
    pub generated_tokens: u64,
    /// Times an adapter was loaded.
    pub adapter_loads: u64,
    /// Steps that did something.
    pub steps: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct InStep {
    running: usize,
    used_blocks: usize,
}
