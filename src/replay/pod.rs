//! An engine that has a place in time.

use std::time::Duration;

use crate::sim::engine::{Counters, Engine, Event};

/// An engine, when its present step ends, and what happens then.
#[derive(Debug)]
pub(super) struct Pod {
    /// Runs the jobs. Its state is that of the end of the present step.
    pub(super) engine: Engine,
    /// End of the present step; none between steps.
    pub(super) busy_until: Option<Duration>,
    /// Counts the outages.
    pub(super) life: u32,
    /// What happens at the end of the present step.
    events: Vec<Event>,
    /// Outages that have not ended.
    outages: u32,
    /// Totals of its former lives.
    before: Totals,
}

/// What is counted over all lives of a pod.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    /// Times an adapter was loaded.
    pub(super) adapter_loads: u64,
    /// Tokens computed again after a preemption.
    pub(super) recomputed_tokens: u64,
}

impl Pod {
    /// An idle pod with a cold cache.
    pub(super) fn new(engine: Engine) -> Self {
        Self {
            engine,
            busy_until: None,
            life: 0,
            events: Vec::new(),
            outages: 0,
            before: Totals::default(),
        }
    }

    /// Whether it takes requests.
    pub(super) fn up(&self) -> bool {
        self.outages == 0
    }

    /// Begins a step, if it is between steps and has work; returns when that ends.
    pub(super) fn begin_step(&mut self, now: Duration) -> Option<Duration> {
        if self.busy_until.is_some() {
            return None;
        }
        let length = self.engine.step(&mut self.events)?;
        self.busy_until = Some(now + length);
        self.busy_until
    }

    /// Ends the present step; what happened in it.
    pub(super) fn end_step(&mut self) -> Vec<Event> {
        self.busy_until = None;
        std::mem::take(&mut self.events)
    }

    /// Gives the room of [`end_step`](Self::end_step) back.
    pub(super) fn reuse(&mut self, mut events: Vec<Event>) {
        events.clear();
        self.events = events;
    }

    /// Loses all it has.
    pub(super) fn fail(&mut self) {
        self.before = self.totals();
        self.engine = Engine::new(self.engine.spec().clone());
        self.events.clear();
        self.busy_until = None;
        self.life += 1;
        self.outages += 1;
    }

    /// Ends an outage.
    pub(super) fn recover(&mut self) {
        self.outages = self.outages.saturating_sub(1);
    }

    /// Totals since the start of the run.
    pub(super) fn totals(&self) -> Totals {
        let Counters { adapter_loads, recomputed_tokens, .. } = *self.engine.counters();
        self.before + Totals { adapter_loads, recomputed_tokens }
    }
}

impl std::ops::Add for Totals {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            adapter_loads: self.adapter_loads + other.adapter_loads,
            recomputed_tokens: self.recomputed_tokens + other.recomputed_tokens,
        }
    }
}

impl std::iter::Sum for Totals {
    fn sum<I: Iterator<Item = Self>>(totals: I) -> Self {
        totals.fold(Self::default(), |sum, one| sum + one)
    }
}
