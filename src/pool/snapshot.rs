//! The frozen view of the pool that one decision reads.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::pool::activity::Standing;
use crate::pool::life::{Lives, Page};
use crate::pool::served::Served;
use crate::pool::{
    Adapters, Drain, Endpoint, EndpointId, EndpointSpec, FailureMode, Life, Phase, Reading, Routes,
    Sample, Slot,
};

/// A consistent view of the pool; replaced as a whole, never changed.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub(in crate::pool) generation: u64,
    pub(in crate::pool) synced: bool,
    pub(in crate::pool) failure_mode: Option<FailureMode>,
    pub(in crate::pool) routes: Arc<Routes>,
    /// Cold: shared by snapshots until membership changes.
    pub(in crate::pool) members: Arc<Members>,
    /// Hot: the last sample of each slot.
    pub(in crate::pool) scraped: Box<[Option<Scraped>]>,
    /// Cold: shared by snapshots until a server's list of models changes.
    pub(in crate::pool) served: Arc<Served>,
    /// Whether any server tells of adapters.
    pub(in crate::pool) adapting: bool,
    /// Cold: shared by snapshots until one changes.
    pub(in crate::pool) lives: Arc<Lives>,
}

/// The endpoint of each slot; none where it is free.
pub(in crate::pool) type Slots = Vec<Option<Arc<Endpoint>>>;

/// Who is in the pool.
#[derive(Debug, Default)]
pub(in crate::pool) struct Members {
    pub(in crate::pool) by_slot: Slots,
    ready: Vec<Slot>,
    by_address: HashMap<SocketAddr, Slot>,
    by_ip: HashMap<IpAddr, SmallVec<[Slot; 1]>>,
}

/// The endpoints of a snapshot without what was read from them.
#[derive(Clone, Debug, Default)]
pub struct Roster(Arc<Members>);

impl Roster {
    /// The endpoint of a slot; none when the slot was free.
    pub fn endpoint(&self, slot: Slot) -> Option<&Arc<Endpoint>> {
        self.0.by_slot.get(slot.index())?.as_ref()
    }
}

/// A sample, when it was read and how long it may be used.
#[derive(Clone, Debug)]
pub(in crate::pool) struct Scraped {
    pub(in crate::pool) sample: Sample,
    /// Requests that this process had in flight there when the page came.
    pub(in crate::pool) own: u32,
    /// When the page was asked for: what happened later may not be on it.
    pub(in crate::pool) at: Instant,
    /// Until when it may be used: to compare two instants takes a tenth of what it takes to subtract them.
    pub(in crate::pool) fresh_until: Instant,
    /// The least of that, whatever is configured: it bridges the scrapes that may be lost.
    pub(in crate::pool) bridged: Duration,
}

impl Snapshot {
    /// Counts the snapshots published before this one.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether the source of endpoints has given its first list.
    pub fn synced(&self) -> bool {
        self.synced
    }

    /// What the pool says of faults; none when it says nothing.
    pub fn failure_mode(&self) -> Option<FailureMode> {
        self.failure_mode
    }

    /// What objects say of requests.
    pub fn routes(&self) -> &Arc<Routes> {
        &self.routes
    }

    /// The endpoints that may be chosen, in slot order: those that do not drain, or of a pool that drains as a whole those
    /// whose servers still answer.
    pub fn ready(&self) -> &[Slot] {
        &self.members.ready
    }

    /// How many endpoints do not drain.
    pub fn in_service(&self) -> usize {
        let drains = |slot| self.life(slot).is_some_and(|life| life.phase == Phase::Draining);
        self.endpoints().filter(|endpoint| !drains(endpoint.id.slot)).count()
    }

    /// All endpoints, in slot order.
    pub fn endpoints(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.members.by_slot.iter().flatten()
    }

    /// The endpoint of a slot; none when the slot is free.
    pub fn endpoint(&self, slot: Slot) -> Option<&Arc<Endpoint>> {
        self.members.by_slot.get(slot.index())?.as_ref()
    }

    /// Who is in the pool, to be kept: cheap, and shared until membership changes.
    pub fn roster(&self) -> Roster {
        Roster(Arc::clone(&self.members))
    }

    /// Where an endpoint stands; none when the slot is free.
    pub fn life(&self, slot: Slot) -> Option<Life> {
        self.lives.of(slot)
    }

    /// The value of an endpoint's label; none when it has no such label.
    pub fn label(&self, slot: Slot, key: &str) -> Option<&str> {
        self.endpoint(slot)?.spec.labels.get(key).map(String::as_str)
    }

    /// The endpoint of this name and no later one of the same slot.
    pub fn by_id(&self, id: EndpointId) -> Option<&Arc<Endpoint>> {
        self.endpoint(id.slot).filter(|endpoint| endpoint.id == id)
    }

    /// The endpoint at an address, which may be another one of its host than requests go to.
    pub fn by_address(&self, address: SocketAddr) -> Option<Slot> {
        self.members.by_address.get(&address).copied()
    }

    /// All endpoints of a host, one for each of its ports, by any of its addresses.
    pub fn by_ip(&self, ip: IpAddr) -> impl Iterator<Item = Slot> {
        self.members.by_ip.get(&ip).into_iter().flatten().copied()
    }

    /// Requests that this process has in flight on an endpoint.
    pub fn in_flight(&self, slot: Slot) -> u32 {
        self.endpoint(slot).map_or(0, |endpoint| endpoint.live.requests())
    }

    /// Requests waiting in the server's queue.
    pub fn waiting(&self, slot: Slot, now: Instant) -> Reading {
        self.reading(slot, now, |sample| sample.waiting)
    }

    /// Requests being computed.
    pub fn running(&self, slot: Slot, now: Instant) -> Reading {
        self.reading(slot, now, |sample| sample.running)
    }

    /// Requests on an endpoint that are not of this process: those that wait and those that are computed; none where the
    /// page is stale or does not say. One, and an eighth of our own, are not believed: requests end while a page is made.
    pub fn foreign(&self, slot: Slot, now: Instant) -> Option<(f32, f32)> {
        let Scraped { sample, own, .. } = self.scraped(slot).filter(|it| it.usable(now))?;
        let (waiting, running) = (sample.waiting?, sample.running?);
        let others = (waiting + running - 1.125 * *own as f32 - 1.0).max(0.0);
        let waiting = waiting.min(others);
        Some((waiting, others - waiting))
    }

    /// Used share of the KV cache, 0.0 ..= 1.0.
    pub fn kv_usage(&self, slot: Slot, now: Instant) -> Reading {
        self.reading(slot, now, |sample| sample.kv_usage)
    }

    /// A number of an endpoint's page by its name: an attribute of the configuration, or what every engine may tell by the
    /// reference's name for it, such as `WaitingQueueSize`.
    pub fn attribute(&self, slot: Slot, key: &str, now: Instant) -> Reading {
        self.reading(slot, now, |sample| sample.attribute(key))
    }

    /// Tokens in a block of an endpoint's KV cache; none while its page does not say.
    pub fn block_size(&self, slot: Slot) -> Option<u32> {
        self.scraped(slot)?.sample.block_size
    }

    /// Tokens that an endpoint's KV cache holds, over all engines behind it; none while its page does not say.
    pub fn kv_capacity_tokens(&self, slot: Slot) -> Option<u64> {
        let Sample { block_size, blocks, .. } = &self.scraped(slot)?.sample;
        block_size.zip(*blocks).map(|(size, blocks)| u64::from(size) * u64::from(blocks))
    }

    /// Whether an endpoint serves a model, adapters included; none where it is not known what it serves.
    pub fn serves(&self, slot: Slot, model: &str) -> Option<bool> {
        self.servers(model)(slot)
    }

    /// The same for many endpoints: the model is looked up once.
    pub fn servers(&self, model: &str) -> impl Fn(Slot) -> Option<bool> {
        self.served.servers(model)
    }

    /// Whether a request for `model` may be one for an adapter: it is listed as one, or it is no base model that is
    /// known and some server has adapters.
    pub fn adapts(&self, model: &str) -> bool {
        self.served.base(model).map_or(self.adapting, |base| !base)
    }

    /// The adapters on an endpoint's page; none where that is stale or tells of none.
    pub fn adapters(&self, slot: Slot, now: Instant) -> Option<&Adapters> {
        let scraped = self.scraped(slot).filter(|scraped| scraped.usable(now))?;
        scraped.sample.adapters.as_deref()
    }

    /// How an adapter stands on an endpoint, by its page and by what we ourselves sent there; none when neither tells.
    pub fn standing(&self, slot: Slot, adapter: &str, now: Instant) -> Option<Standing> {
        let activity = self.endpoint(slot)?.live.adapters.lock();
        activity.standing(adapter, self.adapters(slot, now), now)
    }

    /// How long ago an endpoint's page was last read; none before the first time.
    pub fn scrape_age(&self, slot: Slot, now: Instant) -> Option<Duration> {
        self.scraped(slot).map(|scraped| scraped.age(now))
    }

    /// Whether an endpoint's last sample is recent enough to be used.
    pub fn fresh(&self, slot: Slot, now: Instant) -> bool {
        self.scraped(slot).is_some_and(|scraped| scraped.usable(now))
    }

    /// What an endpoint's page says of life; none where that is not fresh.
    pub(in crate::pool) fn signs(&self, slot: Slot, now: Instant) -> Option<Page> {
        let Scraped { sample, at, .. } = self.scraped(slot).filter(|it| it.usable(now))?;
        let counts = [sample.waiting, sample.running].into_iter().flatten();
        let busy = counts.map(|count| count > 0.0).reduce(|a, b| a || b);
        Some(Page { at: *at, busy, kv_usage: sample.kv_usage })
    }

    /// Whether endpoints without a history stand beside such as are ready: then they get what they can show for.
    pub fn ramps(&self) -> bool {
        self.lives.ramp()
    }

    /// Whether an endpoint may have a further prompt as one of those: it is no such one, or has room.
    pub fn has_room(&self, slot: Slot) -> bool {
        let warms = self.life(slot).is_some_and(|life| life.phase <= Phase::Warming);
        !warms || self.endpoint(slot).is_none_or(|endpoint| endpoint.live.has_room())
    }

    /// Whether an endpoint's page was asked for since then.
    pub(in crate::pool) fn read_since(&self, slot: Slot, then: Instant) -> bool {
        self.scraped(slot).is_some_and(|scraped| scraped.at >= then)
    }

    /// Whether it is fresh and no older than `age`; an age that one lost scrape exceeds is taken for the least that does
    /// not.
    pub fn fresh_within(&self, slot: Slot, age: Duration, now: Instant) -> bool {
        let young = |scraped: &Scraped| scraped.age(now) <= age.max(scraped.bridged);
        self.scraped(slot).is_some_and(|scraped| scraped.usable(now) && young(scraped))
    }

    fn reading(&self, slot: Slot, now: Instant, value: impl Fn(&Sample) -> Option<f32>) -> Reading {
        match self.scraped(slot).map(|scraped| (scraped.usable(now), value(&scraped.sample))) {
            Some((true, Some(value))) => Reading::Fresh(value),
            Some((false, Some(_))) => Reading::Stale,
            Some((_, None)) | None => Reading::Unknown,
        }
    }

    fn scraped(&self, slot: Slot) -> Option<&Scraped> {
        self.scraped.get(slot.index())?.as_ref()
    }
}

impl Members {
    /// Those that do not drain are ready; where all do, those whose servers still answer.
    pub(in crate::pool) fn new(by_slot: Slots, drain: impl Fn(&Endpoint) -> Option<Drain>) -> Self {
        let mut members = Self::default();
        let mut serving = Vec::new();
        for endpoint in by_slot.iter().flatten() {
            let EndpointSpec { address, other_ips, .. } = &endpoint.spec;
            let slot = endpoint.id.slot;
            match drain(endpoint) {
                None => members.ready.push(slot),
                Some(drain) if drain.serves => serving.push(slot),
                Some(_) => {}
            }
            // An endpoint's own address is never taken for another's.
            members.by_address.insert(*address, slot);
            members.by_ip.entry(address.ip()).or_default().push(slot);
            for &ip in other_ips {
                let other = SocketAddr::new(ip, address.port());
                members.by_address.entry(other).or_insert(slot);
                members.by_ip.entry(ip).or_default().push(slot);
            }
        }
        if members.ready.is_empty() {
            members.ready = serving;
        }
        Self { by_slot, ..members }
    }
}

impl Scraped {
    fn usable(&self, now: Instant) -> bool {
        now <= self.fresh_until
    }

    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.at)
    }
}
