//! Policies that know nothing of caches.

use std::time::Duration;

use crate::replay::contender::{Asked, Chooser, least};
use crate::sim::engine::{Event, JobId};

/// One pod after the other, over those that are up.
#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    next: usize,
}

impl Chooser for RoundRobin {
    fn choose(&mut self, asked: Asked<'_>) -> Option<usize> {
        let from_next = asked.up().find(|(at, _)| *at >= self.next);
        let (at, _) = from_next.or_else(|| asked.up().next())?;
        self.next = at + 1;
        Some(at)
    }
}

/// Any pod.
#[derive(Debug)]
pub(super) struct Random(pub(super) fastrand::Rng);

impl Chooser for Random {
    fn choose(&mut self, asked: Asked<'_>) -> Option<usize> {
        least(asked.up().map(|(at, _)| (at, ())), &mut self.0)
    }
}

/// The pod with the fewest requests that were placed on it and have not ended.
#[derive(Debug)]
pub(super) struct LeastRequest {
    open: Vec<usize>,
    dice: fastrand::Rng,
}

impl LeastRequest {
    pub(super) fn new(pods: usize, dice: fastrand::Rng) -> Self {
        Self { open: vec![0; pods], dice }
    }

    fn end(&mut self, pod: usize) {
        if let Some(open) = self.open.get_mut(pod) {
            *open -= 1;
        }
    }
}

impl Chooser for LeastRequest {
    fn choose(&mut self, asked: Asked<'_>) -> Option<usize> {
        let Self { open, dice } = self;
        let up = asked.up().filter_map(|(at, _)| Some((at, *open.get(at)?)));
        let chosen = least(up, dice)?;
        *open.get_mut(chosen)? += 1;
        Some(chosen)
    }

    fn happened(&mut self, event: &Event, pod: usize, _now: Duration) {
        if matches!(event, Event::Finished { .. }) {
            self.end(pod);
        }
    }

    fn lost(&mut self, _job: JobId, pod: usize) {
        self.end(pod);
    }
}
