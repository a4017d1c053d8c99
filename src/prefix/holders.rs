//! The endpoints that have one block.

use crate::pool::Slot;

/// A set of slots that is never empty. One slot, the usual case, takes no memory of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holders {
    /// One.
    One(Slot),
    /// Several, a bit each; as long as the highest slot needs.
    Many(Box<[u64]>),
}

impl Holders {
    /// Adds a slot.
    pub(super) fn insert(&mut self, slot: Slot) {
        let highest = match self {
            Self::One(one) if *one == slot => return,
            Self::One(one) => one.index().max(slot.index()),
            Self::Many(words) => slot.index().max(words.len() * 64 - 1),
        };
        let mut words: Box<[u64]> = (0..=highest / 64).map(|at| self.word(at)).collect();
        if let Some(word) = words.get_mut(slot.index() / 64) {
            *word |= bit(slot);
        }
        *self = Self::Many(words);
    }

    /// Removes a slot; true when none is left, and the set is to be dropped.
    pub(super) fn remove(&mut self, slot: Slot) -> bool {
        match self {
            Self::One(one) => *one == slot,
            Self::Many(words) => {
                if let Some(word) = words.get_mut(slot.index() / 64) {
                    *word &= !bit(slot);
                }
                words.iter().all(|word| *word == 0)
            }
        }
    }

    /// The bits of the slots `64 * at ..`.
    pub(super) fn word(&self, at: usize) -> u64 {
        match self {
            Self::One(slot) if slot.index() / 64 == at => bit(*slot),
            Self::One(_) => 0,
            Self::Many(words) => words.get(at).copied().unwrap_or(0),
        }
    }
}

/// The bit of a slot in its word.
pub(super) fn bit(slot: Slot) -> u64 {
    1 << (slot.index() % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::fixture;

    #[test]
    fn slots_are_members_from_insert_to_remove() {
        let snapshot = fixture::snapshot(200);
        let slot = |at: usize| snapshot.ready()[at];
        let mut holders = Holders::One(slot(3));
        holders.insert(slot(3));
        assert_eq!(holders, Holders::One(slot(3)));
        for at in [130, 64, 130] {
            holders.insert(slot(at));
        }
        assert_eq!([0, 1, 2, 3].map(|at| holders.word(at)), [8, 1, 4, 0]);
        assert!(!holders.remove(slot(64)) && !holders.remove(slot(3)) && !holders.remove(slot(7)));
        assert!(holders.remove(slot(130)));
        assert!(!Holders::One(slot(1)).remove(slot(2)) && Holders::One(slot(1)).remove(slot(1)));
    }
}
