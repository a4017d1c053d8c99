//! The lives of all endpoints as a snapshot has them.

use crate::pool::{Life, Phase, Slot};

/// A life for each slot; none where it is free.
#[derive(Clone, Debug, Default)]
pub(in crate::pool) struct Lives {
    by_slot: Vec<Option<Life>>,
    /// How many are new or warming.
    warming: usize,
    /// How many are ready.
    ready: usize,
}

impl Lives {
    pub(in crate::pool) fn of(&self, slot: Slot) -> Option<Life> {
        self.by_slot.get(slot.index()).copied().flatten()
    }

    /// Whether some have no history and others have.
    pub(in crate::pool) fn ramp(&self) -> bool {
        self.warming > 0 && self.ready > 0
    }

    /// Sets the life in a slot; the one that was there.
    pub(in crate::pool) fn set(&mut self, slot: Slot, life: Option<Life>) -> Option<Life> {
        if self.by_slot.len() <= slot.index() {
            self.by_slot.resize(slot.index() + 1, None);
        }
        let place = self.by_slot.get_mut(slot.index())?;
        let before = std::mem::replace(place, life);
        let one = |life: Option<Life>, phases: &[Phase]| {
            usize::from(life.is_some_and(|life| phases.contains(&life.phase)))
        };
        let (cold, ready) = ([Phase::New, Phase::Warming], [Phase::Ready]);
        self.warming = self.warming + one(life, &cold) - one(before, &cold);
        self.ready = self.ready + one(life, &ready) - one(before, &ready);
        before
    }
}
