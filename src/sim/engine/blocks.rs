//! The shared blocks of a cache, in a form that is cheap to clone.
//!
//! An engine is cloned to be run ahead a few steps. Its clone has the table in common with it and notes what it changes
//! aside; whoever has the table alone changes it in place.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasherDefault, Hasher},
    sync::Arc,
};

/// Blocks by the hash of their chain, and those that were released, oldest first.
///
/// What is aside grows with the changes that are made while a clone lives.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocks {
    common: Arc<Table>,
    aside: Aside,
}

/// A block that any request may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    /// Requests that use it.
    pub(super) references: u32,
    /// Stamp of the last release; means nothing while referenced.
    pub(super) stamp: u32,
}

/// The release of a block: its hash and a stamp. Void when the stamp is no longer that of the block, or the block is
/// referenced again.
pub(super) type Release = (u64, u32);

type ByHash<V> = HashMap<u64, V, BuildHasherDefault<Spread>>;

/// What clones have in common.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    shared: ByHash<Shared>,
    released: VecDeque<Release>,
}

/// What differs from the table.
#[derive(Clone, Debug, Default)]
pub(super) struct Aside {
    /// None for blocks that are gone.
    changed: ByHash<Option<Shared>>,
    /// Of the table's releases the oldest, which were taken.
    taken: usize,
    /// After those of the table.
    released: VecDeque<Release>,
}

impl Blocks {
    /// The block of this hash.
    pub(super) fn find(&self, hash: u64) -> Option<Shared> {
        self.aside.find(&self.common, hash)
    }

    /// For changes.
    pub(super) fn edit(&mut self) -> Edit<'_> {
        if Arc::get_mut(&mut self.common).is_none() {
            return Edit::Aside(&self.common, &mut self.aside);
        }
        let table = Arc::make_mut(&mut self.common);
        self.aside.settle(table);
        Edit::Table(table)
    }

    /// All blocks, in no order.
    #[cfg(test)]
    pub(super) fn all(&mut self) -> Vec<Shared> {
        let table = Arc::make_mut(&mut self.common);
        self.aside.settle(table);
        table.shared.values().copied().collect()
    }
}

/// Blocks to be changed.
#[derive(Debug)]
pub(super) enum Edit<'a> {
    /// In place.
    Table(&'a mut Table),
    /// Beside a table that others have too.
    Aside(&'a Table, &'a mut Aside),
}

impl Edit<'_> {
    /// Whether nobody has used a block since it was released.
    pub(super) fn is_idle(&self, (hash, stamp): Release) -> bool {
        let block = match self {
            Self::Table(table) => table.shared.get(&hash).copied(),
            Self::Aside(table, aside) => aside.find(table, hash),
        };
        block.is_some_and(|block| block.is_idle(stamp))
    }

    /// The block of this hash, to be changed.
    pub(super) fn find(&mut self, hash: u64) -> Option<&mut Shared> {
        match self {
            Self::Table(table) => table.shared.get_mut(&hash),
            Self::Aside(table, aside) => {
                let before = || table.shared.get(&hash).copied();
                aside.changed.entry(hash).or_insert_with(before).as_mut()
            }
        }
    }

    /// Adds a block that is not there.
    pub(super) fn insert(&mut self, hash: u64, block: Shared) {
        match self {
            Self::Table(table) => drop(table.shared.insert(hash, block)),
            Self::Aside(_, aside) => drop(aside.changed.insert(hash, Some(block))),
        }
    }

    /// Takes a block out.
    pub(super) fn remove(&mut self, hash: u64) {
        match self {
            Self::Table(table) => drop(table.shared.remove(&hash)),
            Self::Aside(_, aside) => drop(aside.changed.insert(hash, None)),
        }
    }

    /// Notes a release, and drops what is void beyond so many.
    pub(super) fn release(&mut self, release: Release, limit: usize) {
        match self {
            Self::Aside(_, aside) => aside.released.push_back(release),
            Self::Table(Table { shared, released }) => {
                released.push_back(release);
                let idle = |&(hash, stamp): &Release| {
                    shared.get(&hash).is_some_and(|block| block.is_idle(stamp))
                };
                if released.len() > limit {
                    released.retain(idle);
                }
            }
        }
    }

    /// Takes the oldest release.
    pub(super) fn oldest(&mut self) -> Option<Release> {
        match self {
            Self::Table(table) => table.released.pop_front(),
            Self::Aside(table, aside) => match table.released.get(aside.taken) {
                Some(release) => {
                    aside.taken += 1;
                    Some(*release)
                }
                None => aside.released.pop_front(),
            },
        }
    }
}

impl Shared {
    /// Whether nobody has used it since the release of this stamp.
    fn is_idle(self, stamp: u32) -> bool {
        self.references == 0 && self.stamp == stamp
    }
}

impl Aside {
    fn find(&self, table: &Table, hash: u64) -> Option<Shared> {
        if !self.changed.is_empty()
            && let Some(changed) = self.changed.get(&hash)
        {
            return *changed;
        }
        table.shared.get(&hash).copied()
    }

    /// Puts everything into the table, which is nobody else's any more.
    fn settle(&mut self, table: &mut Table) {
        let Self { changed, taken, released } = self;
        if changed.is_empty() && *taken == 0 && released.is_empty() {
            return;
        }
        for (hash, block) in changed.drain() {
            match block {
                Some(block) => drop(table.shared.insert(hash, block)),
                None => drop(table.shared.remove(&hash)),
            }
        }
        table.released.drain(..std::mem::take(taken));
        table.released.append(released);
    }
}

/// Spreads a block hash over a table: one multiplication (Fibonacci hashing) and a rotation that
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
