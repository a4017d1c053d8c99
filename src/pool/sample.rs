//! What one scrape of a model server's metrics told.

/// Values read from one metrics page; a value that the page lacks, or that is not finite, is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Requests waiting in the server's queue, summed over its engines.
    pub waiting: Option<f32>,
    /// Requests being computed, summed over its engines.
    pub running: Option<f32>,
    /// Used share of the KV cache, 0.0 ..= 1.0, the maximum over its engines.
    pub kv_usage: Option<f32>,
}

impl Sample {
    /// Whether the page held nothing of use.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
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
