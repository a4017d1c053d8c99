//! The writer's side of the pool: events in, snapshots out.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::pool::life::{Drains, Vitals};
use crate::pool::served::Told;
use crate::pool::snapshot::{Members, Scraped, Slots};
use crate::pool::{
    Drain, Endpoint, EndpointId, EndpointSpec, FailureMode, Live, Models, Routes, Sample, Slot,
    Snapshot, Transition,
};

mod lives;

/// How long a freed slot stays unused, so that what was computed for the old endpoint is not taken for the new one.
const QUARANTINE: Duration = Duration::from_mins(1);

/// A sample is also fresh for this many of its endpoint's scrape intervals: one lost scrape is no lost signal.
const FRESH_INTERVALS: u32 = 4;

/// Everything that can change the pool. What is told of endpoints may come in any order: the latest counts.
#[derive(Clone, Debug)]
pub enum Event {
    /// The whole list of endpoints, as its source has it now. Those that stay keep slot, counts and samples.
    Endpoints(Vec<EndpointSpec>),
    /// What the pool says of faults; none when it says nothing.
    FailureMode(Option<FailureMode>),
    /// The whole table of priorities and model rewrites.
    Routes(Routes),
    /// An endpoint's metrics page was read.
    Scraped {
        /// Whose page; ignored when that endpoint is gone.
        id: EndpointId,
        /// What it said.
        sample: Sample,
        /// When it was asked for.
        at: Instant,
        /// The time to the next scrape of this endpoint.
        interval: Duration,
    },
    /// An endpoint listed its models.
    Listed {
        /// Whose list; ignored when that endpoint is gone.
        id: EndpointId,
        /// All that it serves.
        models: Models,
        /// When it was asked for.
        at: Instant,
    },
    /// All pods that are to drain, by UID, as their source has it now.
    Drains(HashMap<Box<str>, Drain>),
    /// An endpoint is to drain, or is not by order any more.
    Drain {
        /// Which; ignored when that endpoint is gone.
        id: EndpointId,
        /// None withdraws the order.
        drain: Option<Drain>,
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

/// How endpoints are judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judging {
    /// Largest share of the pool that is in quarantine at once for what is inferred, 0.0 ..= 1.0. Default 0.5.
    pub quarantined: f32,
    /// An endpoint of which nothing is learnt has had the time to warm up after so long. Default 30 s.
    pub warm_up: Duration,
}

impl Default for Judging {
    fn default() -> Self {
        Self { quarantined: 0.5, warm_up: Duration::from_secs(30) }
    }
}

/// The pool as its only writer holds it.
#[derive(Debug)]
pub struct State {
    snapshot: Snapshot,
    staleness: Duration,
    epoch: u64,
    /// Slots that were freed, oldest first. Bounded by the number of slots.
    quarantine: VecDeque<(Slot, Instant)>,
    /// The latest list of each endpoint that gave one.
    lists: HashMap<EndpointId, (Models, Instant)>,
    drains: Drains,
    /// How endpoints are judged.
    judging: Judging,
    /// Signs of life of each endpoint.
    vitals: HashMap<EndpointId, Vitals>,
    /// What nobody has taken yet; bounded by who takes them after every event.
    transitions: Vec<Transition>,
    /// Endpoints of the last list for which there was no slot.
    left_out: usize,
}

impl State {
    /// An empty pool that has not heard of its source. `staleness` is the least age at which a sample is stale.
    pub fn new(staleness: Duration) -> Self {
        Self {
            snapshot: Snapshot::default(),
            staleness,
            epoch: 0,
            quarantine: VecDeque::new(),
            lists: HashMap::new(),
            drains: Drains::default(),
            judging: Judging::default(),
            vitals: HashMap::new(),
            transitions: Vec::new(),
            left_out: 0,
        }
    }

    /// Judges endpoints so.
    #[must_use]
    pub fn judging(self, judging: Judging) -> Self {
        Self { judging, ..self }
    }

    /// Takes an event in.
    pub fn apply(&mut self, event: Event, now: Instant) -> Change {
        match event {
            Event::Endpoints(specs) => self.endpoints(specs, now),
            Event::FailureMode(mode) => changed(&mut self.snapshot.failure_mode, mode),
            Event::Routes(routes) => changed(&mut self.snapshot.routes, Arc::new(routes)),
            Event::Scraped { id, sample, at, interval } => {
                let bridged = interval * FRESH_INTERVALS;
                let fresh_for = self.staleness.max(bridged);
                let fresh_until = at.checked_add(fresh_for).unwrap_or(at);
                let own = self.snapshot.by_id(id).map_or(0, |endpoint| endpoint.live.requests());
                self.scraped(id, Scraped { sample, own, at, fresh_until, bridged })
            }
            Event::Listed { id, models, at } => self.lists(id, models, at),
            Event::Drains(told) => self.drains_told(told, now),
            Event::Drain { id, drain } => self.drain_ordered(id, drain, now),
        }
    }

    /// How many endpoints of the last list there was no room for.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// The pool as it is now, under a new generation.
    pub fn snapshot(&mut self) -> Snapshot {
        let adapting = |scraped: &Scraped| scraped.sample.adapters.is_some();
        self.snapshot.generation += 1;
        self.snapshot.adapting = self.snapshot.scraped.iter().flatten().any(adapting);
        self.snapshot.clone()
    }

    fn scraped(&mut self, id: EndpointId, new: Scraped) -> Change {
        let Some(endpoint) = self.snapshot.by_id(id) else { return Change::Nothing };
        if let Some(adapters) = &new.sample.adapters {
            endpoint.live.adapters.lock().shown(adapters, new.at);
        }
        let Some(place) = self.snapshot.scraped.get_mut(id.slot.index()) else {
            return Change::Nothing;
        };
        if place.as_ref().is_some_and(|old| old.at >= new.at) {
            return Change::Nothing;
        }
        let old = place.replace(new).and_then(|old| old.sample.models);
        let named = place.as_ref().and_then(|new| new.sample.models.as_ref());
        let changed = old.as_ref() != named;
        if changed {
            self.tell(id);
        }
        Change::Load
    }

    fn lists(&mut self, id: EndpointId, models: Models, at: Instant) -> Change {
        let known = self.lists.get(&id);
        if self.snapshot.by_id(id).is_none() || known.is_some_and(|(_, known)| *known >= at) {
            return Change::Nothing;
        }
        let same = known.is_some_and(|(known, _)| *known == models);
        self.lists.insert(id, (models, at));
        if same {
            return Change::Nothing;
        }
        self.tell(id);
        Change::Load
    }

    /// An endpoint serves what it lists; before it does, what its series name.
    fn tell(&mut self, id: EndpointId) {
        let named = || {
            let scraped = self.snapshot.scraped.get(id.slot.index())?.as_ref()?;
            let base = scraped.sample.models.as_deref()?.clone();
            Some(Models { base, ..Models::default() })
        };
        let listed = self.lists.get(&id).map(|(models, _)| (Told::All, models.clone()));
        let told = listed.or_else(|| Some((Told::Some, named()?)));
        let told = told.as_ref().map(|(told, models)| (*told, models));
        Arc::make_mut(&mut self.snapshot.served).tell(id.slot, told);
    }

    fn endpoints(&mut self, specs: Vec<EndpointSpec>, now: Instant) -> Change {
        let first = !std::mem::replace(&mut self.snapshot.synced, true);
        let mut listed = Listed::new(specs);
        let mut by_slot = self.snapshot.members.by_slot.clone();
        let mut changed = first;
        self.left_out = 0;
        for place in &mut by_slot {
            changed |= self.keep_or_remove(place, &mut listed, now);
        }
        for spec in listed.specs.into_iter().flatten() {
            changed |= self.add(&mut by_slot, spec, now);
        }
        if !changed {
            return Change::Nothing;
        }
        self.publish(by_slot, now);
        self.watch(now).max(Change::Members)
    }

    /// Removes the endpoint of a slot unless it is still listed; takes it off the list if so.
    fn keep_or_remove(
        &mut self,
        place: &mut Option<Arc<Endpoint>>,
        listed: &mut Listed,
        now: Instant,
    ) -> bool {
        let Some(endpoint) = place else { return false };
        if let Some(spec) = listed.take(&endpoint.spec) {
            let described_anew = spec != endpoint.spec;
            if described_anew {
                let live = Arc::clone(&endpoint.live);
                *endpoint = Arc::new(Endpoint::new(endpoint.id, spec, live));
            }
            return described_anew;
        }
        let id = endpoint.id;
        self.removed(&Arc::clone(endpoint), now);
        *place = None;
        self.lists.remove(&id);
        Arc::make_mut(&mut self.snapshot.served).tell(id.slot, None);
        self.quarantine.push_back((id.slot, now));
        true
    }

    fn add(&mut self, by_slot: &mut Slots, spec: EndpointSpec, now: Instant) -> bool {
        if !self.welcome(&spec, now) {
            return false;
        }
        let Some(slot) = self.free_slot(by_slot, now) else {
            self.left_out += 1;
            return false;
        };
        self.epoch += 1;
        let id = EndpointId { slot, epoch: self.epoch };
        if let Some(place) = by_slot.get_mut(slot.index()) {
            *place = Some(Arc::new(Endpoint::new(id, spec, Arc::new(Live::default()))));
        }
        self.added(id, now);
        true
    }

    /// A slot out of quarantine, else a new one; where there is no new one, the one that is in quarantine the longest.
    /// None beyond 65,536 endpoints, which are then left out.
    fn free_slot(&mut self, by_slot: &mut Slots, now: Instant) -> Option<Slot> {
        let new = u16::try_from(by_slot.len()).ok().map(Slot);
        let over = |freed| now.saturating_duration_since(freed) >= QUARANTINE;
        if let Some(&(slot, freed)) = self.quarantine.front()
            && (new.is_none() || over(freed))
        {
            self.quarantine.pop_front();
            return Some(slot);
        }
        let slot = new?;
        by_slot.push(None);
        Some(slot)
    }

    /// Replaces who is in the pool, and so who may be chosen.
    fn publish(&mut self, by_slot: Slots, now: Instant) {
        let members = Members::new(by_slot, |endpoint| self.drains.of(endpoint, now));
        let mut samples = std::mem::take(&mut self.snapshot.scraped);
        let stays = |slot: usize| {
            let before = self.snapshot.members.by_slot.get(slot)?.as_ref()?;
            let after = members.by_slot.get(slot)?.as_ref()?;
            let sample = samples.get_mut(slot)?.take();
            sample.filter(|_| before.id == after.id)
        };
        self.snapshot.scraped = (0..members.by_slot.len()).map(stays).collect();
        self.snapshot.members = Arc::new(members);
    }
}

/// A source's list, of which the endpoints that are there already are taken off.
struct Listed {
    specs: Vec<Option<EndpointSpec>>,
    by_address: HashMap<SocketAddr, usize>,
}

impl Listed {
    /// The list without what has the address of one before it: two endpoints at one address are one.
    fn new(mut specs: Vec<EndpointSpec>) -> Self {
        let mut by_address = HashMap::with_capacity(specs.len());
        specs.retain(|spec| {
            let at = by_address.len();
            *by_address.entry(spec.address).or_insert(at) == at
        });
        Self { specs: specs.into_iter().map(Some).collect(), by_address }
    }

    /// The same server as `spec` is, as it is described now.
    fn take(&mut self, spec: &EndpointSpec) -> Option<EndpointSpec> {
        let at = *self.by_address.get(&spec.address)?;
        self.specs.get_mut(at)?.take_if(|listed| listed.same(spec))
    }
}

fn changed<T: PartialEq>(place: &mut T, value: T) -> Change {
    if *place == value {
        return Change::Nothing;
    }
    *place = value;
    Change::Load
}

#[cfg(test)]
mod tests;
