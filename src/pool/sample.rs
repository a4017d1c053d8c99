//! What one scrape of a model server's metrics told.

use std::sync::Arc;

use crate::pool::Names;

/// Values read from one metrics page; a value that the page lacks, or that is not finite, is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Requests waiting in the server's queue, summed over its engines.
    pub waiting: Option<f32>,
    /// Requests being computed, summed over its engines.
    pub running: Option<f32>,
    /// Used share of the KV cache, 0.0 ..= 1.0, the maximum over its engines.
    pub kv_usage: Option<f32>,
    /// Tokens in a block of the KV cache, at least 1, the largest of its engines.
    pub block_size: Option<u32>,
    /// Blocks of the KV cache, at least 1, summed over its engines.
    pub blocks: Option<u32>,
    /// Its adapters; absent for a server without.
    pub adapters: Option<Arc<Adapters>>,
    /// Models that its series name; usually base models, and only the first name of each.
    pub models: Option<Arc<Names>>,
}

/// Adapters that a server has requests for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adapters {
    /// Those of the requests being computed. An adapter without requests is not here though it may be loaded.
    pub running: Names,
    /// Those of the requests in the queue.
    pub waiting: Names,
    /// How many can be loaded at once.
    pub slots: Option<u32>,
}

impl Sample {
    /// Whether the page told no load: then it is no page of the engine.
    pub fn is_empty(&self) -> bool {
        [self.waiting, self.running, self.kv_usage].iter().all(Option::is_none)
    }
}

/// A scraped value as a decision may use it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// Read recently enough to trust.
    Fresh(f32),
    /// Read once, too long ago: what this process has in flight tells more.
    Stale,
    /// Never read: the endpoint is neither idle nor busy, it is unknown.
    Unknown,
}
