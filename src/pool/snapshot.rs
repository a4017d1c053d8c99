//! The frozen view of the pool that one decision reads.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::pool::{Endpoint, EndpointId, Reading, Sample, Slot};

/// A consistent view of the pool; replaced as a whole, never changed.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub(in crate::pool) generation: u64,
    pub(in crate::pool) synced: bool,
    /// Cold: shared by snapshots until membership changes.
    pub(in crate::pool) members: Arc<Members>,
    /// Hot: the last sample of each slot.
    pub(in crate::pool) scraped: Box<[Option<Scraped>]>,
}

/// Who is in the pool.
#[derive(Clone, Debug, Default)]
pub(in crate::pool) struct Members {
    pub(in crate::pool) by_slot: Vec<Option<Arc<Endpoint>>>,
    pub(in crate::pool) ready: Vec<Slot>,
    pub(in crate::pool) by_address: HashMap<SocketAddr, Slot>,
}

/// A sample, when it was read and how long it may be used.
#[derive(Clone, Copy, Debug)]
pub(in crate::pool) struct Scraped {
    pub(in crate::pool) sample: Sample,
    pub(in crate::pool) at: Instant,
    pub(in crate::pool) fresh_for: Duration,
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

    /// The endpoints that may be chosen, in slot order.
    pub fn ready(&self) -> &[Slot] {
        &self.members.ready
    }

    /// All endpoints, in slot order.
    pub fn endpoints(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.members.by_slot.iter().flatten()
    }

    /// The endpoint of a slot; none when the slot is free.
    pub fn endpoint(&self, slot: Slot) -> Option<&Arc<Endpoint>> {
        self.members.by_slot.get(slot.index())?.as_ref()
    }

    /// The endpoint of this name and no later one of the same slot.
    pub fn by_id(&self, id: EndpointId) -> Option<&Arc<Endpoint>> {
        self.endpoint(id.slot).filter(|endpoint| endpoint.id == id)
    }

    /// The endpoint at an address.
    pub fn by_address(&self, address: SocketAddr) -> Option<Slot> {
        self.members.by_address.get(&address).copied()
    }

    /// All endpoints of a host, one for each of its ports.
    pub fn by_ip(&self, ip: IpAddr) -> impl Iterator<Item = Slot> {
        self.endpoints()
            .filter(move |endpoint| endpoint.spec.address.ip() == ip)
            .map(|endpoint| endpoint.id.slot)
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

    /// Used share of the KV cache, 0.0 ..= 1.0.
    pub fn kv_usage(&self, slot: Slot, now: Instant) -> Reading {
        self.reading(slot, now, |sample| sample.kv_usage)
    }

    /// How long ago an endpoint's page was last read; none before the first time.
    pub fn scrape_age(&self, slot: Slot, now: Instant) -> Option<Duration> {
        self.scraped(slot).map(|scraped| now.saturating_duration_since(scraped.at))
    }

    /// Whether an endpoint's last sample is recent enough to be used.
    pub fn fresh(&self, slot: Slot, now: Instant) -> bool {
        self.scraped(slot).is_some_and(|scraped| scraped.usable(now))
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

impl Scraped {
    fn usable(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) <= self.fresh_for
    }
}
