//! The blocks of one endpoint in the order of their use.
//!
//! A list in one vector, linked by index, and a table that finds a block's node: 20 bytes a block and a table entry of
//! 5. Node 0 is the ring's anchor: what follows it is the newest block, what precedes it the oldest.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// The anchor.
const ANCHOR: u32 = 0;

/// Blocks by use. Has no bound of its own: the [`Index`](super::Index) evicts.
#[derive(Debug)]
pub(super) struct Lru {
    nodes: Vec<Node>,
    places: HashTable<u32>,
    /// The turn at which the block of each node came.
    since: Vec<u32>,
    /// Nodes that are not in use.
    free: Vec<u32>,
    turn: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    hash: u64,
    newer: u32,
    older: u32,
}

impl Lru {
    pub(super) fn new() -> Self {
        let anchor = Node { hash: 0, newer: ANCHOR, older: ANCHOR };
        Self {
            nodes: vec![anchor],
            places: HashTable::new(),
            since: vec![0],
            free: Vec::new(),
            turn: 0,
        }
    }

    /// Another prompt comes.
    pub(super) fn turn(&mut self) {
        self.turn = self.turn.wrapping_add(1);
    }

    /// Whether a block is there that none of the last so many prompts brought.
    pub(super) fn has_before(&self, hash: u64, prompts: u32) -> bool {
        let found = self.places.find(hash, |at| node(&self.nodes, *at).hash == hash);
        let since = found.and_then(|at| self.since.get(*at as usize));
        since.is_some_and(|since| self.turn.wrapping_sub(*since) >= prompts)
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether a block is there; its use does not count.
    pub(super) fn has(&self, hash: u64) -> bool {
        self.places.find(hash, |at| node(&self.nodes, *at).hash == hash).is_some()
    }

    /// Makes a block the newest; true when it was not there.
    pub(super) fn touch(&mut self, hash: u64) -> bool {
        let Self { nodes, places, since, free, turn } = self;
        let is = |at: &u32| node(nodes, *at).hash == hash;
        let rehash = |at: &u32| node(nodes, *at).hash;
        match places.entry(hash, is, rehash) {
            Entry::Occupied(place) => {
                let at = *place.get();
                self.unlink(at);
                self.link(at);
                false
            }
            Entry::Vacant(place) => {
                let at = free.pop().unwrap_or_else(|| u32::try_from(nodes.len()).unwrap_or(ANCHOR));
                if at == ANCHOR {
                    // Four billion blocks: the index evicts long before.
                    return false;
                }
                place.insert(at);
                let new = Node { hash, newer: ANCHOR, older: ANCHOR };
                let place = nodes.get_mut(at as usize).zip(since.get_mut(at as usize));
                if let Some((node, since)) = place {
                    (*node, *since) = (new, *turn);
                } else {
                    nodes.push(new);
                    since.push(*turn);
                }
                self.link(at);
                true
            }
        }
    }

    /// Takes the oldest block out; none when there is no block.
    pub(super) fn pop_oldest(&mut self) -> Option<u64> {
        let at = node(&self.nodes, ANCHOR).newer;
        if at == ANCHOR {
            return None;
        }
        self.unlink(at);
        let hash = node(&self.nodes, at).hash;
        if let Ok(place) = self.places.find_entry(hash, |place| *place == at) {
            place.remove();
        }
        self.free.push(at);
        Some(hash)
    }

    fn link(&mut self, at: u32) {
        let newest = node(&self.nodes, ANCHOR).older;
        self.set(at, |node| (node.newer, node.older) = (ANCHOR, newest));
        self.set(newest, |node| node.newer = at);
        self.set(ANCHOR, |node| node.older = at);
    }

    fn unlink(&mut self, at: u32) {
        let Node { newer, older, .. } = node(&self.nodes, at);
        self.set(newer, |node| node.older = older);
        self.set(older, |node| node.newer = newer);
    }

    fn set(&mut self, at: u32, change: impl FnOnce(&mut Node)) {
        if let Some(node) = self.nodes.get_mut(at as usize) {
            change(node);
        }
    }
}

/// Links point to nodes that exist; the anchor's copy stands in for the impossible.
fn node(nodes: &[Node], at: u32) -> Node {
    let nowhere = Node { hash: 0, newer: ANCHOR, older: ANCHOR };
    nodes.get(at as usize).copied().unwrap_or(nowhere)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_leave_in_the_order_of_their_last_use_and_their_room_is_used_again() {
        let mut lru = Lru::new();
        assert_eq!(lru.pop_oldest(), None);
        assert!([1, 2, 3].iter().all(|&hash| lru.touch(hash)));
        assert!(!lru.touch(1));
        assert_eq!((lru.pop_oldest(), lru.len()), (Some(2), 2));
        assert!(lru.touch(4));
        assert_eq!(lru.nodes.len(), 4, "the anchor and three");
        let rest: Vec<_> = std::iter::from_fn(|| lru.pop_oldest()).collect();
        assert_eq!(rest, [3, 1, 4]);
        assert!(lru.touch(3));
    }
}
