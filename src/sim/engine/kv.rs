//! The key-value cache of one engine: blocks, references, prefix hits, eviction.
//!
//! A block is either *private* to one request (being computed, or holding output) and then only
//! counted, or *shared* under the hash of its chain and referenced by every request that uses it.
//! A shared block without references stays as a possible hit until room is needed; the one that
//! was released longest ago goes first. Of one chain the tail is released before the head, so
//! that eviction shortens a prefix instead of cutting off its beginning.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    hash::{BuildHasherDefault, Hasher},
};

/// Blocks of one engine. Never holds more than its capacity in used and idle blocks together.
#[derive(Clone, Debug)]
pub(super) struct Kv {
    capacity: usize,
    used: usize,
    idle: usize,
    shared: HashMap<u64, Shared, BuildHasherDefault<Spread>>,
    /// Released blocks, oldest first, with the stamp of their release; an entry whose stamp is no
    /// longer that of its block is void. At most twice the capacity, then void entries are dropped.
    released: VecDeque<(u64, u32)>,
    stamp: u32,
}

impl Kv {
    /// An empty cache of `capacity` blocks.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            used: 0,
            idle: 0,
            shared: HashMap::default(),
            released: VecDeque::new(),
            stamp: 0,
        }
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
        for block in chain.iter().map_while(|hash| self.shared.get(hash)) {
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
        while self.used + self.idle > self.capacity {
            self.evict();
        }
        true
    }

    /// References the blocks of a chain; all of them must be hits.
    pub(super) fn hold(&mut self, chain: &[u64]) {
        for hash in chain {
            let Some(block) = self.shared.get_mut(hash) else { continue };
            if block.references == 0 {
                self.idle -= 1;
                self.used += 1;
            }
            block.references += 1;
        }
    }

    /// Shares a private block that is now computed: from here on it is a hit.
    ///
    /// Where another request computed the same block first, that one is referenced and the private
    /// one given back: a block is kept once.
    pub(super) fn share(&mut self, hash: u64) {
        match self.shared.entry(hash) {
            Entry::Vacant(place) => {
                place.insert(Shared { references: 1, stamp: 0 });
            }
            Entry::Occupied(mut place) => {
                let block = place.get_mut();
                if block.references == 0 {
                    self.idle -= 1;
                } else {
                    self.used -= 1;
                }
                block.references += 1;
            }
        }
    }

    /// Gives back what a request holds: its references and its private blocks.
    pub(super) fn release(&mut self, chain: &[u64], private: usize) {
        for hash in chain.iter().rev() {
            let Some(block) = self.shared.get_mut(hash) else { continue };
            block.references -= 1;
            if block.references == 0 {
                self.stamp = self.stamp.wrapping_add(1);
                block.stamp = self.stamp;
                self.released.push_back((*hash, self.stamp));
                self.used -= 1;
                self.idle += 1;
            }
        }
        self.used -= private;
        if self.released.len() > 2 * self.capacity {
            let shared = &self.shared;
            self.released.retain(|(hash, stamp)| is_idle(shared.get(hash), *stamp));
        }
    }

    fn evict(&mut self) {
        while let Some((hash, stamp)) = self.released.pop_front() {
            if is_idle(self.shared.get(&hash), stamp) {
                self.shared.remove(&hash);
                self.idle -= 1;
                return;
            }
        }
        debug_assert_eq!(self.idle, 0, "every idle block has an entry");
        self.idle = 0;
    }

    /// Referenced shared blocks, idle shared blocks, as counted from the table.
    #[cfg(test)]
    pub(super) fn census(&self) -> (usize, usize) {
        let idle = self.shared.values().filter(|block| block.references == 0).count();
        assert_eq!(idle, self.idle);
        assert!(self.used + self.idle <= self.capacity);
        (self.shared.len() - idle, idle)
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

#[derive(Clone, Copy, Debug)]
struct Shared {
    references: u32,
    /// Stamp of the last release; means nothing while referenced.
    stamp: u32,
}

fn is_idle(block: Option<&Shared>, stamp: u32) -> bool {
    block.is_some_and(|block| block.references == 0 && block.stamp == stamp)
}

/// Spreads a block hash over the table: one multiplication (Fibonacci hashing) and a rotation that
/// brings the well-mixed high bits down. Block hashes are trusted, so no keyed hash is needed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
