//! The key-value cache of one engine: blocks, references, prefix hits, eviction.
//!
//! A block is either *private* to one request (being computed, or holding output) and then only
//! counted, or *shared* under the hash of its chain and referenced by every request that uses it.
//! A shared block without references stays as a possible hit until room is needed; the one that
//! was released longest ago goes first. Of one chain the tail is released before the head, so
//! that eviction shortens a prefix instead of cutting off its beginning.

use super::blocks::{Blocks, Shared};

/// Blocks of one engine. Never holds more than its capacity in used and idle blocks together.
#[derive(Clone, Debug)]
pub(super) struct Kv {
    capacity: usize,
    used: usize,
    idle: usize,
    /// Its releases are at most twice the capacity, then void ones are dropped.
    shared: Blocks,
    stamp: u32,
}

impl Kv {
    /// An empty cache of `capacity` blocks.
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, used: 0, idle: 0, shared: Blocks::default(), stamp: 0 }
    }

    /// Blocks that some request owns or references.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Share of the capacity that `blocks` are, 0.0 ..= 1.0 for blocks in use.
    pub(super) fn fraction(&self, blocks: usize) -> f64 {
        blocks as f64 / self.capacity.max(1) as f64
    }

    /// The leading blocks of a chain that are cached.
    pub(super) fn hits(&self, chain: &[u64]) -> Hits {
        let mut hits = Hits::default();
        for block in chain.iter().map_while(|hash| self.shared.find(*hash)) {
            hits.blocks += 1;
            hits.idle += usize::from(block.references == 0);
        }
        hits
    }

    /// Whether `blocks` can be brought into use, by eviction if need be.
    pub(super) fn fits(&self, blocks: usize) -> bool {
        self.used + blocks <= self.capacity
    }

    /// Brings `blocks` private blocks into use; false, and nothing done, when they do not fit.
    pub(super) fn take(&mut self, blocks: usize) -> bool {
        if !self.fits(blocks) {
            return false;
        }
        self.used += blocks;
        self.evict();
        true
    }

    /// References the blocks of a chain; all of them must be hits.
    pub(super) fn hold(&mut self, chain: &[u64]) {
        let mut shared = self.shared.edit();
        for hash in chain {
            let Some(block) = shared.find(*hash) else { continue };
            if block.references == 0 {
                self.idle -= 1;
                self.used += 1;
            }
            block.references += 1;
        }
    }

    /// Shares private blocks that are now computed: from here on they are hits.
    ///
    /// Where another request computed the same block first, that one is referenced and the private
    /// one given back: a block is kept once.
    pub(super) fn share(&mut self, chain: &[u64]) {
        let mut shared = self.shared.edit();
        for hash in chain {
            let Some(block) = shared.find(*hash) else {
                shared.insert(*hash, Shared { references: 1, stamp: 0 });
                continue;
            };
            if block.references == 0 {
                self.idle -= 1;
            } else {
                self.used -= 1;
            }
            block.references += 1;
        }
    }

    /// Gives back what a request holds: its references and its private blocks.
    pub(super) fn release(&mut self, chain: &[u64], private: usize) {
        let mut shared = self.shared.edit();
        for hash in chain.iter().rev() {
            let Some(block) = shared.find(*hash) else { continue };
            block.references -= 1;
            if block.references == 0 {
                self.stamp = self.stamp.wrapping_add(1);
                block.stamp = self.stamp;
                self.used -= 1;
                self.idle += 1;
                shared.release((*hash, self.stamp), 2 * self.capacity);
            }
        }
        self.used -= private;
    }

    /// Drops idle blocks until there are no more blocks than the capacity.
    fn evict(&mut self) {
        if self.used + self.idle <= self.capacity {
            return;
        }
        let mut shared = self.shared.edit();
        while self.used + self.idle > self.capacity {
            let Some(release) = shared.oldest() else {
                debug_assert_eq!(self.idle, 0, "every idle block has an entry");
                self.idle = 0;
                return;
            };
            if shared.is_idle(release) {
                shared.remove(release.0);
                self.idle -= 1;
            }
        }
    }

    /// Referenced shared blocks, idle shared blocks, as counted from the table.
    #[cfg(test)]
    pub(super) fn census(&self) -> (usize, usize) {
        let blocks = self.shared.clone().all();
        let idle = blocks.iter().filter(|block| block.references == 0).count();
        assert_eq!(idle, self.idle);
        assert!(self.used + self.idle <= self.capacity);
        (blocks.len() - idle, idle)
    }
}

/// What the cache has of a chain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hits {
    /// Leading blocks that are cached.
    pub(super) blocks: usize,
    /// How many of these nobody references: holding them takes as much room.
    pub(super) idle: usize,
}
