//! Who has which block.
//!
//! Two views of one relation. A sharded map finds the endpoints of a block; each endpoint has its blocks in the order
//! of their use, under a lock of its own. A decision reads the map alone.
//!
//! What an endpoint has is always closed towards the root: whoever has a block has all before it. A chain is touched
//! from its end to its beginning, so each block is newer than what depends on it, and the oldest block, which is
//! evicted first, has nothing that depends on it. So a search may leap: if a candidate has block 64, it has 1 to 63.

use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use parking_lot::{Mutex, RwLock};

use crate::pool::{EndpointId, Slot};
use crate::prefix::heat::Heat;
use crate::prefix::holders::Holders;
use crate::prefix::lru::Lru;
use crate::prefix::trust::Trust;
use crate::prefix::{Chain, Hashing, Hits, Settings};
use crate::units::whole;

/// Parts of the map, a power of two. A part that grows is copied by whoever adds the block that is one too many, so parts
/// are small: of eight, one that doubled at a million blocks took 0.1 s, of 4,096 all that grew for 2,048 blocks took 3 ms.
const SHARDS: usize = 4096;

/// Which endpoint was given which blocks. Shared by all decisions.
///
/// Holds at most [`Settings::block_limit`] blocks as of the last change of membership: each endpoint has as many as its
/// cache, and not more than an equal share of the limit.
#[derive(Debug)]
pub struct Index {
    settings: Settings,
    seed: u64,
    holders: DashMap<u64, Holders, BuildHasherDefault<Same>>,
    /// By slot; as many as the pool has slots.
    caches: RwLock<Vec<Place>>,
    /// Endpoints that have a cache.
    count: AtomicUsize,
    /// Blocks of all endpoints.
    blocks: AtomicUsize,
    /// Tokens to each that a block is counted by, the bits of an `f64`.
    scale: AtomicU64,
    heat: Heat,
}

impl Index {
    /// An index that knows nothing; `seed` is random, so that nobody can make up prompts whose hashes collide.
    pub fn new(settings: Settings, seed: u64) -> Self {
        Self {
            settings,
            seed,
            heat: Heat::default(),
            holders: DashMap::with_hasher_and_shard_amount(BuildHasherDefault::default(), SHARDS),
            caches: RwLock::default(),
            count: AtomicUsize::new(0),
            blocks: AtomicUsize::new(0),
            scale: AtomicU64::new(1.0_f64.to_bits()),
        }
    }

    /// How it was built.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Hashes a prompt for this index.
    pub fn hashing(&self) -> Hashing {
        Hashing::new(&self.settings, self.seed)
    }

    /// Blocks over all endpoints.
    pub fn len(&self) -> usize {
        self.blocks.load(Ordering::Relaxed)
    }

    /// Whether it knows nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens that an endpoint is believed to have cached.
    pub fn cached_tokens(&self, id: EndpointId) -> u64 {
        let Some(cache) = self.known(id) else { return 0 };
        let blocks = cache.blocks.lock().as_ref().map_or(0, Lru::len);
        whole(blocks as f64 * self.tokens_per_block())
    }

    /// Writes how many blocks of `chain`, from the first on, each candidate has.
    ///
    /// A gallop with a binary search at its end: a few looks for each length that occurs, not one for each block.
    pub fn longest(&self, chain: &Chain, candidates: &[Slot], hits: &mut Hits) {
        let hashes = chain.hashes();
        hits.reset(hashes.len(), self.settings.block_tokens.get(), candidates);
        let (mut depth, mut step, mut narrowing) = (0, 1, false);
        while hits.any() && depth < hashes.len() {
            let leap = step.min(hashes.len() - depth);
            let holders = hashes.get(depth + leap - 1).and_then(|hash| self.holders.get(hash));
            let all = hits.all(holders.as_deref());
            if !all && leap == 1 {
                hits.keep(holders.as_deref(), depth);
                narrowing = false;
            }
            if all || leap == 1 {
                depth += leap;
            }
            narrowing |= !all && leap > 1;
            step = if narrowing { (leap / 2).max(1) } else { leap * 2 };
        }
        hits.keep(None, depth);
        let last = hits.deepest().checked_sub(1).and_then(|at| hashes.get(at));
        hits.hot(last.map_or(0, |&hash| self.heat.of(hash)));
        let caches = self.caches.read();
        for &slot in candidates {
            if let Some(place) = caches.get(slot.index()) {
                hits.trusted(slot, place.trust.credit());
            }
        }
    }

    /// A prompt shares its first so many blocks with what somebody has.
    pub fn shared(&self, chain: &Chain, blocks: usize) {
        if let Some(&hash) = blocks.checked_sub(1).and_then(|at| chain.hashes().get(at)) {
            self.heat.note(hash);
        }
    }

    /// How many blocks of `chain`, of the first `believed`, an endpoint had before the last so many prompts that it was
    /// given: those are not computed yet, for all we know.
    pub fn settled(&self, id: EndpointId, chain: &Chain, believed: u32, prompts: u32) -> u32 {
        let Some(cache) = self.known(id) else { return 0 };
        let Some(blocks) = &*cache.blocks.lock() else { return 0 };
        let believed = usize::try_from(believed).unwrap_or(usize::MAX);
        let hashes = chain.hashes().get(..believed).unwrap_or_else(|| chain.hashes());
        // Nothing came before what it depends on.
        let settled = hashes.partition_point(|&hash| blocks.has_before(hash, prompts));
        u32::try_from(settled).unwrap_or(u32::MAX)
    }

    /// An endpoint is given a prompt: from now on it has its blocks, of a prompt longer than its cache the beginning.
    ///
    /// `capacity` is the size of its cache in tokens, none when it is unknown. Ignored for an endpoint that has left.
    pub fn record(&self, id: EndpointId, chain: &Chain, capacity: Option<u64>) {
        if chain.hashes().is_empty() {
            return;
        }
        let Some(cache) = self.cache(id) else { return };
        let Some(blocks) = &mut *cache.blocks.lock() else { return };
        blocks.turn();
        self.touch(id.slot, blocks, chain.hashes(), self.capacity(capacity));
    }

    /// An endpoint had so many blocks of a prompt as it began to compute it: more than it was believed to have.
    pub fn found(&self, id: EndpointId, chain: &Chain, blocks: usize, capacity: Option<u64>) {
        let Some(cache) = self.known(id) else { return };
        let Some(held) = &mut *cache.blocks.lock() else { return };
        let hashes = chain.hashes().get(..blocks).unwrap_or_else(|| chain.hashes());
        self.touch(id.slot, held, hashes, self.capacity(capacity));
    }

    /// An endpoint lacked so many blocks of a prompt that it was believed to have.
    ///
    /// It has computed them, so it has them now; but it made room for them as for any new block, so as many of the oldest
    /// are gone, if others than the prompt's.
    pub fn missed(&self, id: EndpointId, chain: &Chain, blocks: usize) {
        let Some(cache) = self.known(id) else { return };
        if let Some(held) = &mut *cache.blocks.lock() {
            let left = held.len().saturating_sub(blocks);
            self.evict(id.slot, held, left.max(chain.hashes().len()));
        }
    }

    /// An endpoint said what it had: `right` is the share of what it was believed to have, `weight` how much that tells,
    /// both 0.0 ..= 1.0.
    pub fn judge(&self, id: EndpointId, right: f32, weight: f32) {
        let caches = self.caches.read();
        if let Some(place) = caches.get(id.slot.index()).filter(|place| place.is(id)) {
            place.trust.hear(right, weight);
        }
    }

    /// A block has so many tokens to each that it is counted by; 1.0 until it is said.
    pub fn scale(&self, scale: f64) {
        self.scale.store(scale.to_bits(), Ordering::Relaxed);
    }

    fn touch(&self, slot: Slot, blocks: &mut Lru, hashes: &[u64], capacity: usize) {
        let hashes = hashes.get(..capacity).unwrap_or(hashes);
        blocks.touch_all(hashes, |hash| self.add(hash, slot));
        self.evict(slot, blocks, capacity);
    }

    /// Forgets the endpoints that are no more, and makes room for those that are new.
    pub fn keep(&self, alive: impl Fn(EndpointId) -> bool) {
        let mut gone = Vec::new();
        let mut stay = Vec::new();
        let mut caches = self.caches.write();
        for place in caches.iter_mut() {
            match place.cache.take_if(|cache| !alive(cache.id)) {
                Some(cache) => {
                    place.left = cache.id.epoch;
                    gone.push(cache);
                }
                None => stay.extend(place.cache.clone()),
            }
        }
        self.count.store(stay.len(), Ordering::Relaxed);
        drop(caches);
        for cache in gone {
            self.retire(&cache);
        }
        for cache in stay {
            if let Some(blocks) = &mut *cache.blocks.lock() {
                self.evict(cache.id.slot, blocks, self.share());
            }
        }
    }

    /// The cache of an endpoint, a new one if need be; none for an endpoint that has left.
    fn cache(&self, id: EndpointId) -> Option<Arc<Cache>> {
        let at = id.slot.index();
        if let Some(cache) = self.known(id) {
            return Some(cache);
        }
        let mut caches = self.caches.write();
        if caches.len() <= at {
            caches.resize_with(at + 1, Place::default);
        }
        let place = caches.get_mut(at)?;
        let newest = place.cache.as_ref().map_or(place.left, |cache| cache.id.epoch);
        match &place.cache {
            Some(cache) if cache.id == id => return Some(Arc::clone(cache)),
            _ if id.epoch <= newest => return None,
            _ => {}
        }
        let cache = Arc::new(Cache { id, blocks: Mutex::new(Some(Lru::new())) });
        let before = place.cache.replace(Arc::clone(&cache));
        place.trust = Trust::default();
        self.count.fetch_add(usize::from(before.is_none()), Ordering::Relaxed);
        drop(caches);
        if let Some(before) = before {
            self.retire(&before);
        }
        Some(cache)
    }

    /// The cache of an endpoint that was given something.
    fn known(&self, id: EndpointId) -> Option<Arc<Cache>> {
        let caches = self.caches.read();
        caches.get(id.slot.index()).filter(|place| place.is(id))?.cache.clone()
    }

    fn retire(&self, cache: &Cache) {
        let blocks = cache.blocks.lock().take();
        if let Some(mut blocks) = blocks {
            self.evict(cache.id.slot, &mut blocks, 0);
        }
    }

    fn evict(&self, slot: Slot, blocks: &mut Lru, capacity: usize) {
        while blocks.len() > capacity {
            let Some(hash) = blocks.pop_oldest() else { return };
            self.holders.remove_if_mut(&hash, |_, holders| holders.remove(slot));
            self.blocks.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn add(&self, hash: u64, slot: Slot) {
        match self.holders.entry(hash) {
            Entry::Occupied(mut holders) => holders.get_mut().insert(slot),
            Entry::Vacant(place) => {
                drop(place.insert(Holders::One(slot)));
            }
        }
        self.blocks.fetch_add(1, Ordering::Relaxed);
    }

    /// Blocks that an endpoint with a cache of so many tokens may have here.
    fn capacity(&self, tokens: Option<u64>) -> usize {
        let known = tokens.filter(|_| self.settings.auto_tune);
        let tokens = known.unwrap_or(self.settings.capacity_tokens);
        let blocks = tokens as f64 / self.tokens_per_block();
        usize::try_from(whole(blocks.floor())).unwrap_or(usize::MAX).min(self.share())
    }

    fn tokens_per_block(&self) -> f64 {
        let scale = f64::from_bits(self.scale.load(Ordering::Relaxed));
        f64::from(self.settings.block_tokens.get()) * scale
    }

    fn share(&self) -> usize {
        self.settings.block_limit / self.count.load(Ordering::Relaxed).max(1)
    }
}

/// The endpoint of a slot.
#[derive(Debug, Default)]
struct Place {
    cache: Option<Arc<Cache>>,
    /// Epoch of the last endpoint that left.
    left: u64,
    trust: Trust,
}

impl Place {
    fn is(&self, id: EndpointId) -> bool {
        self.cache.as_ref().is_some_and(|cache| cache.id == id)
    }
}

#[derive(Debug)]
struct Cache {
    id: EndpointId,
    /// None once the endpoint has left.
    blocks: Mutex<Option<Lru>>,
}

/// Takes a key that is a hash already for what it is.
#[derive(Clone, Copy, Debug, Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 ^= value;
    }
}
