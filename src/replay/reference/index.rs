//! The reference's approximate prefix index, as it is.
//!
//! Blocks of 64 tokens, also a last one that is not full, at most 131,072 tokens of a prompt. Each endpoint has a list
//! of the blocks that it was given, least recently used first; it holds as many *blocks* as the engine said that its
//! cache has of its own, smaller ones, and its size is fixed when the first prompt is added: 31,250 where no page was
//! read by then. A prompt is added from its beginning, which is therefore evicted first. A search ends at the first
//! block that nobody has; an endpoint counts for each block before that it has, whether or not it has those before.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use smallvec::SmallVec;

use crate::replay::contender::Asked;
use crate::replay::tally::BLOCK_TOKENS;
use crate::sim::engine::Spread;

/// Blocks of a prompt that are looked at.
const CHAIN_LIMIT: usize = 131_072 / BLOCK_TOKENS;

/// Blocks of an endpoint whose page was not read when its first prompt was added.
const UNSCRAPED: usize = 31_250;

type ByBlock<V> = HashMap<u64, V, BuildHasherDefault<Spread>>;

/// Which pod was given which blocks.
#[derive(Debug)]
pub(super) struct PrefixIndex {
    /// A bit for each pod that has the block.
    holders: ByBlock<SmallVec<[u64; 1]>>,
    lists: Vec<List>,
}

/// The blocks of one pod. Bounded by its capacity.
#[derive(Debug, Default)]
struct List {
    /// Blocks of the engine's cache, once its page was read.
    scraped: Option<usize>,
    /// Fixed with the first prompt.
    capacity: Option<usize>,
    /// When each block was last given.
    stamps: ByBlock<u64>,
    /// Oldest first; void where the stamp is no longer the block's. At most twice the capacity, then the void ones go.
    order: VecDeque<(u64, u64)>,
    stamp: u64,
}

/// How many blocks of a prompt each pod has.
#[derive(Debug)]
pub(super) struct Matches {
    blocks: Vec<u32>,
    total: usize,
}

impl PrefixIndex {
    /// An index over so many pods that knows nothing.
    pub(super) fn new(pods: usize) -> Self {
        Self {
            holders: HashMap::default(),
            lists: std::iter::repeat_with(List::default).take(pods).collect(),
        }
    }

    /// A page told how many blocks the cache of a pod has.
    pub(super) fn scraped(&mut self, pod: usize, blocks: usize) {
        if let Some(list) = self.lists.get_mut(pod) {
            list.scraped = Some(blocks).filter(|blocks| *blocks > 0);
        }
    }

    /// A pod is gone, or new.
    pub(super) fn forget(&mut self, pod: usize) {
        let Some(list) = self.lists.get_mut(pod) else { return };
        for hash in std::mem::take(list).stamps.into_keys() {
            remove(&mut self.holders, hash, pod);
        }
    }

    /// Looks a prompt up.
    pub(super) fn matches(&self, asked: Asked<'_>) -> Matches {
        let mut matches = Matches { blocks: vec![0; self.lists.len()], total: 0 };
        let mut known = true;
        for hash in chain(asked) {
            matches.total += 1;
            let holders = self.holders.get(&hash).filter(|_| known);
            known = holders.is_some();
            for (at, word) in holders.into_iter().flatten().enumerate() {
                matches.add(at, *word);
            }
        }
        matches
    }

    /// A prompt is sent to a pod.
    pub(super) fn record(&mut self, asked: Asked<'_>, pod: usize) {
        let Self { holders, lists } = self;
        let Some(list) = lists.get_mut(pod) else { return };
        for hash in chain(asked) {
            if list.touch(hash) {
                insert(holders, hash, pod);
            }
            while let Some(evicted) = list.evict() {
                remove(holders, evicted, pod);
            }
        }
    }
}

impl List {
    /// Makes a block the newest; true when it was not there.
    fn touch(&mut self, hash: u64) -> bool {
        self.stamp += 1;
        self.order.push_back((hash, self.stamp));
        let new = self.stamps.insert(hash, self.stamp).is_none();
        if self.order.len() > 2 * self.capacity().max(1) {
            let stamps = &self.stamps;
            self.order.retain(|(hash, stamp)| stamps.get(hash) == Some(stamp));
        }
        new
    }

    /// Takes the oldest block out while there are too many.
    fn evict(&mut self) -> Option<u64> {
        if self.stamps.len() <= self.capacity() {
            return None;
        }
        while let Some((hash, stamp)) = self.order.pop_front() {
            if self.stamps.get(&hash) == Some(&stamp) {
                self.stamps.remove(&hash);
                return Some(hash);
            }
        }
        None
    }

    fn capacity(&mut self) -> usize {
        let scraped = self.scraped;
        *self.capacity.get_or_insert_with(|| scraped.unwrap_or(UNSCRAPED))
    }
}

impl Matches {
    /// Share of the prompt's blocks that a pod has.
    pub(super) fn share(&self, pod: usize) -> f64 {
        let blocks = self.blocks.get(pod).copied().unwrap_or(0);
        f64::from(blocks) / self.total.max(1) as f64
    }

    /// Counts a block for the pods of the word `at`.
    fn add(&mut self, at: usize, mut word: u64) {
        while word != 0 {
            if let Some(blocks) = self.blocks.get_mut(at * 64 + word.trailing_zeros() as usize) {
                *blocks += 1;
            }
            word &= word - 1;
        }
    }
}

/// The blocks of a prompt. A last one that is not full is known by what is before it and the length; a prompt of which
/// no block is known is like no other.
fn chain(asked: Asked<'_>) -> impl Iterator<Item = u64> {
    let arrival = asked.arrival;
    let rest = (!arrival.prompt_tokens.is_multiple_of(BLOCK_TOKENS)).then(|| {
        let before = arrival.blocks.last().copied().unwrap_or(asked.job.0);
        before.rotate_left(32) ^ arrival.prompt_tokens as u64
    });
    arrival.chain.hashes().iter().copied().chain(rest).take(CHAIN_LIMIT)
}

fn insert(holders: &mut ByBlock<SmallVec<[u64; 1]>>, hash: u64, pod: usize) {
    let words = holders.entry(hash).or_default();
    if words.len() <= pod / 64 {
        words.resize(pod / 64 + 1, 0);
    }
    if let Some(word) = words.get_mut(pod / 64) {
        *word |= 1 << (pod % 64);
    }
}

fn remove(holders: &mut ByBlock<SmallVec<[u64; 1]>>, hash: u64, pod: usize) {
    let Some(words) = holders.get_mut(&hash) else { return };
    if let Some(word) = words.get_mut(pod / 64) {
        *word &= !(1 << (pod % 64));
    }
    if words.iter().all(|word| *word == 0) {
        holders.remove(&hash);
    }
}
