//! What was seen of the pool in the last two minutes, a look each second.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::pool::{Endpoint, EndpointId, Phase, Reading, Slot, Snapshot, Tally};
use crate::scale::estimate::{Replica, Request};

/// What is remembered; a window cannot be longer.
pub const LONGEST_WINDOW: Duration = Duration::from_mins(2);

/// Endpoints over all looks that are remembered: 15 MiB at most. A larger pool than of a thousand endpoints has a shorter memory.
const MOST_ROWS: usize = 131_072;

/// Waiting requests of an endpoint that is full, as the reference's utilization detector has it.
pub(in crate::scale) const FULL_QUEUE: f64 = 5.0;

/// Used share of the KV cache of an endpoint that is full, as the reference's utilization detector has it.
const FULL_CACHE: f64 = 0.8;

/// The pool over time. Bounded by [`LONGEST_WINDOW`] and by its number of rows.
#[derive(Debug, Default)]
pub struct History {
    looks: VecDeque<Look>,
    rows: usize,
    /// The sums of the endpoints at the newest look.
    tallies: HashMap<EndpointId, Tally>,
    /// Requests without an endpoint, as they were counted at the newest look, and since.
    lacked: (u64, u64),
    /// When one was last seen.
    lacked_at: Option<Instant>,
    /// What was last learnt of any replica, and of requests.
    pub(in crate::scale) learnt: Option<(Replica, Request)>,
}

/// Requests that no endpoint has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unplaced {
    /// Held until there is one.
    pub held: u32,
    /// That ever found none, those that are held included.
    pub lacked: u64,
    /// That were ever refused for that.
    pub refused: u64,
}

/// The pool at one time.
#[derive(Debug)]
pub(in crate::scale) struct Look {
    pub(in crate::scale) at: Instant,
    /// Since the look before.
    pub(in crate::scale) length: Duration,
    pub(in crate::scale) unplaced: Unplaced,
    /// Requests that found no endpoint since the look before, and those that were refused for that.
    pub(in crate::scale) lacked: u64,
    pub(in crate::scale) refused: u64,
    pub(in crate::scale) rows: Box<[Row]>,
}

/// An endpoint at one time.
#[derive(Debug)]
pub(in crate::scale) struct Row {
    pub(in crate::scale) endpoint: Arc<Endpoint>,
    pub(in crate::scale) standing: Standing,
    /// Whether its page is fresh; else the rest is what this process has in flight.
    pub(in crate::scale) measured: bool,
    pub(in crate::scale) waiting: f32,
    pub(in crate::scale) running: f32,
    pub(in crate::scale) kv_usage: Option<f32>,
    /// Requests in flight of this process, and of others.
    pub(in crate::scale) own: f32,
    pub(in crate::scale) foreign: f32,
    /// What has passed since the look before.
    pub(in crate::scale) passed: Tally,
}

/// Whether an endpoint takes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scale) enum Standing {
    Ready,
    /// It ends the requests that it has.
    Draining,
    /// It is neither.
    Away,
}

impl History {
    /// Looks at the pool.
    pub fn look(&mut self, snapshot: &Snapshot, unplaced: Unplaced, now: Instant) {
        let length = self.looks.back().map_or(Duration::ZERO, |last| now - last.at);
        let rows = snapshot.endpoints().map(|endpoint| {
            let tally = endpoint.live.tally();
            let passed = self.tallies.get(&endpoint.id).map(|before| tally.since(before));
            let standing = Standing::of(snapshot, endpoint.id.slot);
            (Row::of(snapshot, endpoint, now).with(standing, passed.unwrap_or(tally)), tally)
        });
        let (rows, tallies): (Vec<_>, Vec<_>) = rows.unzip();
        self.tallies = rows.iter().map(|row: &Row| row.endpoint.id).zip(tallies).collect();
        self.lack(unplaced.lacked, now);
        let lacked = self.lacked.1 - self.lacked.0;
        self.lacked.0 = self.lacked.1;
        let before = self.newest().map_or(0, |look| look.unplaced.refused);
        let refused = unplaced.refused.saturating_sub(before);
        self.rows += rows.len();
        let rows = rows.into();
        self.looks.push_back(Look { at: now, length, unplaced, lacked, refused, rows });
        self.forget(now);
        self.learn(now);
    }

    /// So many requests have found no endpoint by now.
    pub fn lack(&mut self, total: u64, now: Instant) {
        if total > self.lacked.1 {
            (self.lacked.1, self.lacked_at) = (total, Some(now));
        }
    }

    /// The newest look.
    pub(in crate::scale) fn newest(&self) -> Option<&Look> {
        self.looks.back()
    }

    /// The looks of a window that ends with the newest, oldest first; the newest at least.
    pub(in crate::scale) fn within(&self, window: Duration) -> impl Iterator<Item = &Look> {
        let end = self.newest().map(|look| look.at);
        let recent =
            move |look: &&Look| end.is_some_and(|end| look.at == end || end - look.at < window);
        self.looks.iter().filter(recent)
    }

    /// Requests that found no endpoint within a window before `now`, those after the newest look included.
    pub(in crate::scale) fn lacked_within(&self, window: Duration, now: Instant) -> u64 {
        let since = self.lacked.1 - self.lacked.0;
        let fresh = self.lacked_at.is_some_and(|at| now.saturating_duration_since(at) < window);
        let recent = |look: &&Look| now.saturating_duration_since(look.at) < window;
        let looked = self.looks.iter().filter(recent).map(|look| look.lacked).sum::<u64>();
        if fresh { looked + since } else { looked }
    }

    fn forget(&mut self, now: Instant) {
        let old = |look: &Look| now.saturating_duration_since(look.at) >= LONGEST_WINDOW;
        while self.looks.len() > 1
            && (self.rows > MOST_ROWS || self.looks.front().is_some_and(old))
            && let Some(look) = self.looks.pop_front()
        {
            self.rows -= look.rows.len();
        }
    }
}

impl Standing {
    fn of(snapshot: &Snapshot, slot: Slot) -> Self {
        match snapshot.life(slot).map(|life| life.phase) {
            Some(Phase::Draining) => Self::Draining,
            _ if snapshot.ready().binary_search(&slot).is_ok() => Self::Ready,
            _ => Self::Away,
        }
    }
}

impl Row {
    fn of(snapshot: &Snapshot, endpoint: &Arc<Endpoint>, now: Instant) -> Self {
        let (slot, own) = (endpoint.id.slot, endpoint.live.requests() as f32);
        let fresh = |reading| match reading {
            Reading::Fresh(value) => Some(value),
            Reading::Stale | Reading::Unknown => None,
        };
        let (waiting, running) =
            (fresh(snapshot.waiting(slot, now)), fresh(snapshot.running(slot, now)));
        let foreign =
            snapshot.foreign(slot, now).map_or(0.0, |(waiting, running)| waiting + running);
        Self {
            endpoint: Arc::clone(endpoint),
            standing: Standing::Away,
            measured: waiting.is_some() || running.is_some(),
            waiting: waiting.unwrap_or_default(),
            running: running.unwrap_or_else(|| (own - waiting.unwrap_or_default()).max(0.0)),
            kv_usage: fresh(snapshot.kv_usage(slot, now)),
            own,
            foreign,
            passed: Tally::default(),
        }
    }

    fn with(self, standing: Standing, passed: Tally) -> Self {
        Self { standing, passed, ..self }
    }

    /// Used share of the KV cache if the waiting requests were let in, each as large as those that run.
    pub(in crate::scale) fn pressure(&self) -> Option<f64> {
        let (waiting, running) = (f64::from(self.waiting), f64::from(self.running));
        let more = if running >= 1.0 { waiting / running } else { 0.0 };
        Some(f64::from(self.kv_usage?) * (1.0 + more))
    }

    /// How full it is: 1.0 with a queue or a KV cache at which it is taken for full; no limit.
    pub(in crate::scale) fn saturation(&self) -> f64 {
        let cache = self.pressure().unwrap_or_default() / FULL_CACHE;
        (f64::from(self.waiting) / FULL_QUEUE).max(cache)
    }
}
