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

    /// Makes the blocks of a prompt the newest, its first block the newest of all; tells of those that were not there.
    ///
    /// They mostly stand side by side from the last time, and then are moved together and found without the table: its
    /// entries lie all over memory, and of a prompt of 2,000 blocks they cost more than all else.
    pub(super) fn touch_all(&mut self, hashes: &[u64], mut came: impl FnMut(u64)) {
        let (mut rest, mut expected) = (hashes, ANCHOR);
        while let Some((&hash, before)) = rest.split_last() {
            if let Some((newest, length)) = self.run(expected, rest) {
                let beside = node(&self.nodes, newest).newer;
                self.unlink(expected, newest);
                self.link(expected, newest);
                rest = rest.get(..rest.len() - length).unwrap_or_default();
                expected = beside;
                continue;
            }
            let (new, beside) = self.renew(hash);
            (rest, expected) = (before, beside);
            if new {
                came(hash);
            }
        }
    }

    /// How many of the last blocks of a prompt stand side by side from `oldest` on, and where the newest of them is; none
    /// when another block is there.
    fn run(&self, oldest: u32, hashes: &[u64]) -> Option<(u32, usize)> {
        let (mut run, mut at) = (None, oldest);
        for (&hash, length) in hashes.iter().rev().zip(1..) {
            let Node { hash: there, newer, .. } = node(&self.nodes, at);
            if at == ANCHOR || there != hash {
                break;
            }
            (run, at) = (Some((at, length)), newer);
        }
        run
    }

    /// Makes a block the newest; true when it was not there.
    pub(super) fn touch(&mut self, hash: u64) -> bool {
        self.renew(hash).0
    }

    /// Makes a block the newest; whether it was not there, and which stood on its newer side, the anchor if none.
    fn renew(&mut self, hash: u64) -> (bool, u32) {
        let Self { nodes, places, since, free, turn } = self;
        let is = |at: &u32| node(nodes, *at).hash == hash;
        let rehash = |at: &u32| node(nodes, *at).hash;
        match places.entry(hash, is, rehash) {
            Entry::Occupied(place) => {
                let at = *place.get();
                let beside = node(nodes, at).newer;
                self.unlink(at, at);
                self.link(at, at);
                (false, beside)
            }
            Entry::Vacant(place) => {
                let at = free.pop().unwrap_or_else(|| u32::try_from(nodes.len()).unwrap_or(ANCHOR));
                if at == ANCHOR {
                    // Four billion blocks: the index evicts long before.
                    return (false, ANCHOR);
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
                self.link(at, at);
                (true, ANCHOR)
            }
        }
    }

    /// Takes the oldest block out; none when there is no block.
    pub(super) fn pop_oldest(&mut self) -> Option<u64> {
        let at = node(&self.nodes, ANCHOR).newer;
        if at == ANCHOR {
            return None;
        }
        self.unlink(at, at);
        let hash = node(&self.nodes, at).hash;
        if let Ok(place) = self.places.find_entry(hash, |place| *place == at) {
            place.remove();
        }
        self.free.push(at);
        Some(hash)
    }

    /// Puts the blocks from `oldest` to `newest`, which stand side by side, behind the newest of all.
    fn link(&mut self, oldest: u32, newest: u32) {
        let before = node(&self.nodes, ANCHOR).older;
        self.set(oldest, |node| node.older = before);
        self.set(newest, |node| node.newer = ANCHOR);
        self.set(before, |node| node.newer = oldest);
        self.set(ANCHOR, |node| node.older = newest);
    }

    /// Takes the blocks from `oldest` to `newest`, which stand side by side, out of their place.
    fn unlink(&mut self, oldest: u32, newest: u32) {
        let (older, newer) = (node(&self.nodes, oldest).older, node(&self.nodes, newest).newer);
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
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn prompts_are_touched_as_their_blocks_one_by_one(
            prompts in prop::collection::vec((0..4_u64, 1..30_u64, 0..3_usize), 1..40),
        ) {
            let (mut lru, mut plain) = (Lru::new(), Lru::new());
            for (family, length, evicted) in prompts {
                // prompts of a family share the first ten blocks of all
                let hash = |at| if at < 10 { at } else { family * 1_000 + at };
                let hashes: Vec<_> = (0..length).map(hash).collect();
                let (mut came, mut expected) = (Vec::new(), Vec::<u64>::new());
                lru.touch_all(&hashes, |hash| came.push(hash));
                expected.extend(hashes.iter().rev().filter(|hash| plain.touch(**hash)));
                prop_assert_eq!(came, expected);
                for _ in 0..evicted {
                    prop_assert_eq!(lru.pop_oldest(), plain.pop_oldest());
                }
            }
            let rest = |lru: &mut Lru| std::iter::from_fn(|| lru.pop_oldest()).collect::<Vec<_>>();
            prop_assert_eq!(rest(&mut lru), rest(&mut plain));
        }
    }
}
