//! The LoRA adapters that one engine keeps on its accelerator.

use super::AdapterId;

/// A fixed number of adapter slots, least recently begun first.
#[derive(Clone, Debug)]
pub(super) struct AdapterSlots {
    limit: usize,
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    adapter: AdapterId,
    /// Running requests that use it; only a slot without any may be given to another adapter.
    running: usize,
}

impl AdapterSlots {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, slots: Vec::new() }
    }

    /// Whether a request of this adapter may run beside those that run now.
    pub(super) fn admits(&self, adapter: AdapterId) -> bool {
        self.slots.len() < self.limit
            || self.slots.iter().any(|slot| slot.adapter == adapter || slot.running == 0)
    }

    /// Counts a running request; true when its adapter had to be loaded for it.
    pub(super) fn begin(&mut self, adapter: AdapterId) -> bool {
        let resident = self.slots.iter().position(|slot| slot.adapter == adapter);
        let mut slot = Slot { adapter, running: 0 };
        if let Some(at) = resident {
            slot = self.slots.remove(at);
        } else if self.slots.len() >= self.limit
            && let Some(at) = self.slots.iter().position(|slot| slot.running == 0)
        {
            self.slots.remove(at);
        }
        slot.running += 1;
        self.slots.push(slot);
        resident.is_none()
    }

    /// Counts a request of this adapter that no longer runs.
    pub(super) fn end(&mut self, adapter: AdapterId) {
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.adapter == adapter) {
            slot.running -= 1;
        }
    }

    /// Adapters with running requests.
    pub(super) fn running(&self) -> impl Iterator<Item = AdapterId> {
        self.slots.iter().filter(|slot| slot.running > 0).map(|slot| slot.adapter)
    }

    /// Adapters that need no loading.
    pub(super) fn resident(&self) -> impl Iterator<Item = AdapterId> {
        self.slots.iter().map(|slot| slot.adapter)
    }
}
