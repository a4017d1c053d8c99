//! Which endpoint has how much of a prompt in its cache, as far as our own decisions tell.
//!
//! A prompt is cut into blocks, and each block is hashed together with all before it while the body arrives
//! ([`Hashing`]). The [`Index`] remembers which endpoint was given which blocks and forgets them as the endpoint's own
//! cache would: least recently used first, the end of a prefix before its beginning. A decision asks it how many blocks
//! of a prompt, from the first on, each candidate has ([`Hits`]).
//!
//! It is an estimate: a server may have evicted what we believe in. A wrong entry makes a choice worse, never wrong.
//! What servers say that they had corrects it: [`Index::missed`] and [`Index::found`] take what it has for less or
//! more, and [`Index::judge`] weighs what is believed of an endpoint by how often it was right.

use std::num::NonZeroU32;

pub use self::chain::{Chain, Hashing};
pub use self::hits::Hits;
pub use self::index::Index;
pub use self::media::{Encoded, Media};

mod chain;
mod heat;
mod hits;
mod holders;
mod index;
mod lru;
mod media;
mod trust;

#[cfg(test)]
mod tests;

/// Tokens of a block unless configured, and the least that may be: smaller blocks cost memory and tell little more.
pub const BLOCK_TOKENS: u32 = 64;

/// Blocks that an index holds over all endpoints unless set: about half a gibibyte.
const BLOCK_LIMIT: usize = 8 << 20;

/// How prompts are cut and how much is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The name of the configured instance, for metrics.
    pub name: Box<str>,
    /// Tokens of a block; 64 unless configured.
    pub block_tokens: NonZeroU32,
    /// Blocks of a prompt that are looked at; what is beyond is not hashed. 2,048 unless configured.
    pub chain_limit: usize,
    /// Tokens that an endpoint caches where its own figure is not known or not used; 500,000 unless configured.
    pub capacity_tokens: u64,
    /// Whether an endpoint's own figure counts.
    pub auto_tune: bool,
    /// Blocks of all endpoints together; each endpoint has an equal share at most. 8,388,608 unless set.
    pub block_limit: usize,
    /// Whether media are to be known one by one; false unless a plugin asks for them.
    pub media: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "approx-prefix-cache-producer".into(),
            block_tokens: NonZeroU32::MIN.saturating_add(BLOCK_TOKENS - 1),
            chain_limit: 131_072 / 64,
            capacity_tokens: 31_250 * 16,
            auto_tune: true,
            block_limit: BLOCK_LIMIT,
            media: false,
        }
    }
}
