//! One step of an engine: what is computed in it, and what comes of that.

use std::time::Duration;

use super::{
    Engine, EngineSpec, Event, InStep,
    request::{Request, Start},
};

impl Engine {
    /// Runs one step that begins now, adds what happens at its end to `events`, and returns how
    /// long it lasts; nothing when there is no work.
    pub fn step(&mut self, events: &mut Vec<Event>) -> Option<Duration> {
        let loads = self.schedule(events);
        self.in_step = InStep { running: self.running.len(), used_blocks: self.kv.used() };
        if self.running.is_empty() {
            debug_assert!(self.waiting.is_empty(), "an engine at rest admits any job it took");
            return None;
        }
        let work = Work::planned(&self.running, loads);
        self.counters.steps += 1;
        self.counters.adapter_loads += loads as u64;
        self.counters.prefill_tokens += work.prefill_tokens as u64;
        self.complete(events);
        Some(work.duration(&self.spec))
    }

    /// Plans the step; returns how many adapters it loads.
    fn schedule(&mut self, events: &mut Vec<Event>) -> usize {
        let before = self.counters.preempted;
        let mut budget = self.spec.step_tokens.max(1);
        self.resume(Phase::Decode, &mut budget, events);
        self.resume(Phase::Prefill, &mut budget, events);
        if self.counters.preempted == before { self.admit(&mut budget) } else { 0 }
    }

    /// Plans the running requests that are in `phase`.
    fn resume(&mut self, phase: Phase, budget: &mut usize, events: &mut Vec<Event>) {
        let mut at = 0;
        while *budget > 0
            && let Some(request) = self.running.get(at)
        {
            let now = request.is_decoding() == (phase == Phase::Decode);
            let tokens = if now { request.remaining().min(*budget) } else { 0 };
            if tokens > 0 && !self.plan(at, tokens, events) {
                return;
            }
            *budget -= tokens;
            at += 1;
        }
    }

    /// Finds room for `tokens` of the running request `at`, at the cost of those admitted after
    /// it; false when it was itself the last one and had to go.
    fn plan(&mut self, at: usize, tokens: usize, events: &mut Vec<Event>) -> bool {
        while let Some(request) = self.running.get_mut(at) {
            let blocks = request.missing_blocks(tokens, self.spec.block_tokens());
            if self.kv.take(blocks) {
                request.private += blocks;
                request.planned = tokens;
                return true;
            }
            self.preempt_last(events);
        }
        false
    }

    fn preempt_last(&mut self, events: &mut Vec<Event>) {
        if let Some(mut request) = self.running.pop() {
            self.vacate(&request);
            request.reset();
            events.push(Event::Preempted { id: request.id });
            self.counters.preempted += 1;
            self.waiting.push_front(request);
        }
    }

    /// Admits waiting requests; returns how many adapters had to be loaded for them.
    fn admit(&mut self, budget: &mut usize) -> usize {
        let (mut at, mut loads) = (0, 0);
        while *budget > 0
            && self.running.len() < self.spec.sequences.max(1)
            && let Some(request) = self.waiting.get(at)
        {
            if request.adapter.is_some_and(|adapter| !self.adapters.admits(adapter)) {
                at += 1;
                continue;
            }
            let Some(request) = self.start(at, budget) else { break };
            loads += usize::from(request.adapter.is_some_and(|id| self.adapters.begin(id)));
            self.running.push(request);
        }
        loads
    }

    /// Takes the waiting request `at` out of the queue with as much of its prompt planned as the
    /// budget allows; leaves it there when the cache has no room for that.
    fn start(&mut self, at: usize, budget: &mut usize) -> Option<Request> {
        let block_tokens = self.spec.block_tokens();
        let request = self.waiting.get(at)?;
        let hits = self.kv.hits(request.hit_chain(block_tokens));
        let cached = hits.blocks * block_tokens;
        let tokens = (request.remaining() - cached).min(*budget);
        let private = (cached + tokens).div_ceil(block_tokens) - hits.blocks;
        if !self.kv.fits(hits.idle + private) {
            return None;
        }
        let mut request = self.waiting.remove(at)?;
        match request.start(hits.blocks, block_tokens) {
            Start::First { prompt_tokens, cached_tokens } => {
                self.counters.queried_tokens += prompt_tokens as u64;
                self.counters.cached_tokens += cached_tokens as u64;
            }
            Start::Again { lost_tokens } => self.counters.recomputed_tokens += lost_tokens as u64,
        }
        self.kv.hold(request.shared_chain());
        request.private = if self.kv.take(private) { private } else { 0 };
        request.planned = tokens;
        *budget -= tokens;
        Some(request)
    }

    /// Does what was planned.
    fn complete(&mut self, events: &mut Vec<Event>) {
        let block_tokens = self.spec.block_tokens();
        let Self { running, kv, adapters, counters, .. } = self;
        running.retain_mut(|request| {
            let Some(event) = request.advance(kv, block_tokens) else { return true };
            events.push(event);
            counters.generated_tokens += 1;
            if !request.is_finished() {
                return true;
            }
            events.push(Event::Finished { id: request.id });
            counters.finished += 1;
            kv.release(request.shared_chain(), request.private);
            if let Some(adapter) = request.adapter {
                adapters.end(adapter);
            }
            false
        });
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Decode,
    Prefill,
}

/// What makes a step long.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    prefill_tokens: usize,
    decoding: usize,
    loads: usize,
}

impl Work {
    fn planned(running: &[Request], loads: usize) -> Self {
        let mut work = Self { loads, ..Self::default() };
        for request in running {
            if request.is_decoding() {
                work.decoding += usize::from(request.planned > 0);
            } else {
                work.prefill_tokens += request.planned;
            }
        }
        work
    }

    /// The formula of the engine's documentation; zero where the constants make no duration.
    fn duration(self, spec: &EngineSpec) -> Duration {
        let prefill = spec.prefill_seconds(self.prefill_tokens);
        let decode = spec.decode_seconds(self.decoding);
        let loads = self.loads as f64 * spec.adapter_load.as_secs_f64();
        Duration::try_from_secs_f64((prefill + decode + loads) * spec.slowdown).unwrap_or_default()
    }
}
