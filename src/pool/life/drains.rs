//! Which endpoints are to drain, by whom it was said, and how long it holds.

use std::collections::HashMap;
use std::time::Instant;

use crate::pool::{Endpoint, EndpointId, Reason};

/// A drain as it was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Why.
    pub reason: Reason,
    /// When it is over; none while it is not withdrawn.
    pub until: Option<Instant>,
    /// Whether its server still answers, so that it may be asked when all others drain too.
    pub serves: bool,
}

/// All drains that were said.
#[derive(Debug, Default)]
pub(in crate::pool) struct Drains {
    /// By the source of endpoints, of pods by UID; bounded by the pods that it lists.
    told: HashMap<Box<str>, Drain>,
    /// By order; of members alone.
    ordered: HashMap<EndpointId, Drain>,
}

impl Drains {
    /// The source tells all that it knows; true when that is something new.
    pub(in crate::pool) fn tell(&mut self, told: HashMap<Box<str>, Drain>) -> bool {
        let changed = self.told != told;
        self.told = told;
        changed
    }

    /// An endpoint of the pool is to drain, or not any more. Of several orders the last one counts.
    pub(in crate::pool) fn order(&mut self, id: EndpointId, drain: Option<Drain>) {
        match drain {
            Some(drain) => self.ordered.insert(id, drain),
            None => self.ordered.remove(&id),
        };
    }

    /// An endpoint left the pool.
    pub(in crate::pool) fn forget(&mut self, id: EndpointId) {
        self.ordered.remove(&id);
    }

    /// What the source says of a pod.
    pub(in crate::pool) fn of_pod(&self, uid: &str, now: Instant) -> Option<Drain> {
        self.told.get(uid).copied().filter(|drain| drain.holds(now))
    }

    /// The drain of an endpoint; what its source says comes before an order.
    pub(in crate::pool) fn of(&self, endpoint: &Endpoint, now: Instant) -> Option<Drain> {
        let ordered = || self.ordered.get(&endpoint.id).copied().filter(|drain| drain.holds(now));
        self.of_pod(&endpoint.spec.uid, now).or_else(ordered)
    }
}

impl Drain {
    /// One that an operator orders.
    pub fn ordered() -> Self {
        Self { reason: Reason::Ordered, until: None, serves: true }
    }

    fn holds(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}
