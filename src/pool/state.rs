//! The writer's side of the pool: events in, snapshots out.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::pool::snapshot::{Members, Scraped};
use crate::pool::{Endpoint, EndpointId, EndpointSpec, Live, Sample, Slot, Snapshot};

/// How long a freed slot stays unused, so that what was computed for the old endpoint is not taken for the new one.
const QUARANTINE: Duration = Duration::from_mins(1);

/// A sample is also fresh for this many of its endpoint's scrape intervals: one lost scrape is no lost signal.
const FRESH_INTERVALS: u32 = 4;

/// Everything that can change the pool.
#[derive(Debug)]
pub enum Event {
    /// The whole list of endpoints, as its source has it now. Those that stay keep slot, counts and samples.
    Endpoints(Vec<EndpointSpec>),
    /// An endpoint's metrics page was read.
    Scraped {
        /// Whose page; ignored when that endpoint is gone.
        id: EndpointId,
        /// What it said.
        sample: Sample,
        /// The time to the next scrape of this endpoint.
        interval: Duration,
    },
}

/// What an event changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Nothing that a reader sees.
    Nothing,
    /// Values of endpoints: worth publishing soon.
    Load,
    /// Who is in the pool: to be published at once.
    Members,
}

/// The pool as its only writer holds it.
#[derive(Debug)]
pub struct State {
    snapshot: Snapshot,
    staleness: Duration,
    epoch: u64,
    /// Slots that were freed, oldest first. Bounded by the number of slots.
    quarantine: VecDeque<(Slot, Instant)>,
}

impl State {
    /// An empty pool that has not heard of its source. `staleness` is the least age at which a sample is stale.
    pub fn new(staleness: Duration) -> Self {
        Self { snapshot: Snapshot::default(), staleness, epoch: 0, quarantine: VecDeque::new() }
    }

    /// Takes an event in.
    pub fn apply(&mut self, event: Event, now: Instant) -> Change {
        match event {
            Event::Endpoints(specs) => self.endpoints(specs, now),
            Event::Scraped { id, sample, interval } => self.scraped(id, sample, interval, now),
        }
    }

    /// The pool as it is now, under a new generation.
    pub fn snapshot(&mut self) -> Snapshot {
        self.snapshot.generation += 1;
        self.snapshot.clone()
    }

    fn scraped(
        &mut self,
        id: EndpointId,
        sample: Sample,
        interval: Duration,
        now: Instant,
    ) -> Change {
        if self.snapshot.by_id(id).is_none() {
            return Change::Nothing;
        }
        let fresh_for = self.staleness.max(interval * FRESH_INTERVALS);
        if let Some(scraped) = self.snapshot.scraped.get_mut(id.slot.index()) {
            *scraped = Some(Scraped { sample, at: now, fresh_for });
        }
        Change::Load
    }

    fn endpoints(&mut self, specs: Vec<EndpointSpec>, now: Instant) -> Change {
        let first = !std::mem::replace(&mut self.snapshot.synced, true);
        let mut specs = unique(specs);
        let mut members = Members::clone(&self.snapshot.members);
        let mut changed = first;
        for slot in 0..members.by_slot.len() {
            changed |= self.keep_or_remove(&mut members, slot, &mut specs, now);
        }
        for spec in specs {
            changed |= self.add(&mut members, spec, now);
        }
        if !changed {
            return Change::Nothing;
        }
        self.publish(members);
        Change::Members
    }

    /// Removes the slot's endpoint unless `specs` still has it; takes it out of `specs` if so.
    fn keep_or_remove(
        &mut self,
        members: &mut Members,
        index: usize,
        specs: &mut Vec<EndpointSpec>,
        now: Instant,
    ) -> bool {
        let Some(place) = members.by_slot.get_mut(index) else { return false };
        let Some(endpoint) = place.clone() else { return false };
        let same = |spec: &EndpointSpec| {
            (&spec.name, &spec.namespace, spec.address)
                == (&endpoint.spec.name, &endpoint.spec.namespace, endpoint.spec.address)
        };
        if let Some(at) = specs.iter().position(same) {
            let spec = specs.swap_remove(at);
            let relabelled = spec != endpoint.spec;
            if relabelled {
                *place =
                    Some(Arc::new(Endpoint::new(endpoint.id, spec, Arc::clone(&endpoint.live))));
            }
            return relabelled;
        }
        *place = None;
        self.quarantine.push_back((endpoint.id.slot, now));
        true
    }

    fn add(&mut self, members: &mut Members, spec: EndpointSpec, now: Instant) -> bool {
        let Some(slot) = self.free_slot(members, now) else { return false };
        self.epoch += 1;
        let id = EndpointId { slot, epoch: self.epoch };
        if let Some(place) = members.by_slot.get_mut(slot.index()) {
            *place = Some(Arc::new(Endpoint::new(id, spec, Arc::new(Live::default()))));
        }
        true
    }

    /// A slot out of quarantine, else a new one; none beyond 65,535 endpoints, which are then left out.
    fn free_slot(&mut self, members: &mut Members, now: Instant) -> Option<Slot> {
        if let Some(&(slot, freed)) = self.quarantine.front()
            && now.saturating_duration_since(freed) >= QUARANTINE
        {
            self.quarantine.pop_front();
            return Some(slot);
        }
        let slot = Slot(u16::try_from(members.by_slot.len()).ok()?);
        members.by_slot.push(None);
        Some(slot)
    }

    fn publish(&mut self, mut members: Members) {
        members.ready.clear();
        members.by_address.clear();
        for endpoint in members.by_slot.iter().flatten() {
            members.ready.push(endpoint.id.slot);
            members.by_address.insert(endpoint.spec.address, endpoint.id.slot);
        }
        let samples = std::mem::take(&mut self.snapshot.scraped);
        let stays = |slot: usize| {
            let before = self.snapshot.members.by_slot.get(slot)?.as_ref()?;
            let after = members.by_slot.get(slot)?.as_ref()?;
            (before.id == after.id).then(|| samples.get(slot).copied().flatten())?
        };
        self.snapshot.scraped = (0..members.by_slot.len()).map(stays).collect();
        self.snapshot.members = Arc::new(members);
    }
}

/// Leaves out specs whose address another one before them has: two endpoints at one address are one.
fn unique(mut specs: Vec<EndpointSpec>) -> Vec<EndpointSpec> {
    let mut seen = HashSet::new();
    specs.retain(|spec| seen.insert(spec.address));
    specs
}

#[cfg(test)]
mod tests;
