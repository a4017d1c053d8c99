//! The event loop of one run.
//!
//! At one instant steps end first, then pods come back and go, then pages are read, then requests arrive, one after
//! another; each is placed by who knows nothing of those after it. At last every engine that is idle and has work begins
//! a step, so that all that arrive at one instant may be in one step.

use std::sync::Arc;
use std::time::Duration;

use crate::replay::agenda::{Agenda, Due};
use crate::replay::contender::{Asked, Chooser};
use crate::replay::pod::{Pod, Totals};
use crate::replay::tally::{Tally, position};
use crate::replay::{Arrival, Contender, Failure, Fleet, Outcome, Workload};
use crate::sim::engine::{Engine, Job, JobId};

/// Runs a workload on a fleet, from cold caches to the last answer.
///
/// # Errors
/// When the contender's configuration is bad.
pub fn run(
    workload: &Workload,
    fleet: &Fleet,
    contender: &Contender,
    seed: u64,
) -> Result<Outcome, Failure> {
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut agenda = Agenda::default();
    for pod in 0..fleet.engines.len() {
        agenda.add(fleet.scrape_interval.mul_f64(dice.f64()), Due::Scrape { pod });
    }
    for outage in &fleet.outages {
        agenda.add(outage.from, Due::OutageBegins { pod: outage.pod });
        agenda.add(outage.to, Due::OutageEnds { pod: outage.pod });
    }
    let run = Run {
        fleet,
        chooser: contender.chooser(workload, fleet, dice)?,
        pods: fleet.engines.iter().cloned().map(|spec| Pod::new(Engine::new(spec))).collect(),
        tally: Tally::new(workload, fleet.engines.len()),
        arrivals: &workload.arrivals,
        next: 0,
        agenda,
        again: Vec::new(),
        woken: Vec::new(),
        uncounted: None,
        now: Duration::ZERO,
    };
    Ok(run.outcome())
}

/// A run at an instant.
#[derive(Debug)]
struct Run<'a> {
    fleet: &'a Fleet,
    chooser: Box<dyn Chooser>,
    pods: Vec<Pod>,
    tally: Tally<'a>,
    arrivals: &'a [Arrival],
    /// Position of the next arrival.
    next: usize,
    agenda: Agenda,
    /// Requests that were lost at this instant.
    again: Vec<JobId>,
    /// Pods that may begin a step at this instant.
    woken: Vec<usize>,
    /// What the pods did before requests counted; none until the first that counts.
    uncounted: Option<Totals>,
    now: Duration,
}

impl Run<'_> {
    fn outcome(mut self) -> Outcome {
        while let Some(now) = self.next_instant() {
            self.now = now;
            while let Some(due) = self.agenda.take(now) {
                self.due(due);
            }
            self.arrive();
            self.begin_steps();
        }
        let Totals { adapter_loads, recomputed_tokens } = self.totals();
        let uncounted = self.uncounted.unwrap_or_default();
        let outcome = self.tally.outcome(Totals {
            adapter_loads: adapter_loads - uncounted.adapter_loads,
            recomputed_tokens: recomputed_tokens - uncounted.recomputed_tokens,
        });
        Outcome { needed: self.chooser.needed(), ..outcome }
    }

    /// When something happens next; none when all are answered.
    fn next_instant(&self) -> Option<Duration> {
        let arrival = self.arrivals.get(self.next).map(|arrival| arrival.at.max(self.now));
        if arrival.is_none() && self.tally.open() == 0 {
            return None;
        }
        arrival.into_iter().chain(self.agenda.next()).min()
    }

    fn due(&mut self, due: Due) {
        match due {
            Due::StepEnds { pod, life } => self.end_step(pod, life),
            Due::OutageEnds { pod } => self.recover(pod),
            Due::OutageBegins { pod } => self.fail(pod),
            Due::Scrape { pod } => {
                if let Some(it) = self.pods.get(pod).filter(|pod| pod.up()) {
                    self.chooser.scraped(pod, &it.engine, self.now);
                }
                let interval = self.fleet.scrape_interval.max(Duration::from_millis(1));
                self.agenda.add(self.now + interval, Due::Scrape { pod });
            }
        }
    }

    fn end_step(&mut self, at: usize, life: u32) {
        let Some(pod) = self.pods.get_mut(at).filter(|pod| pod.life == life) else { return };
        let events = pod.end_step();
        for event in &events {
            self.tally.happened(event, self.now);
            self.chooser.happened(event, at, self.now);
        }
        pod.reuse(events);
        self.woken.push(at);
    }

    fn fail(&mut self, at: usize) {
        let Some(pod) = self.pods.get_mut(at) else { return };
        pod.fail();
        for job in self.tally.lose(at) {
            self.chooser.lost(job, at);
            self.again.push(job);
        }
        self.chooser.changed(at, &self.pods, self.now);
    }

    fn recover(&mut self, at: usize) {
        let Some(pod) = self.pods.get_mut(at) else { return };
        pod.recover();
        self.chooser.changed(at, &self.pods, self.now);
    }

    /// Places the requests of this instant, first those that were lost.
    fn arrive(&mut self) {
        for lost in std::mem::take(&mut self.again) {
            self.place(lost);
        }
        while self.arrivals.get(self.next).is_some_and(|arrival| arrival.at <= self.now) {
            self.place(JobId(self.next as u64));
            self.next += 1;
        }
    }

    fn place(&mut self, job: JobId) {
        let Some(arrival) = self.arrivals.get(position(job)) else { return };
        if arrival.counts && self.uncounted.is_none() {
            self.uncounted = Some(self.totals());
        }
        if !self.fits(arrival) {
            return self.tally.left_out(job);
        }
        let asked = Asked { job, arrival, pods: &self.pods, now: self.now };
        let chosen = self.chooser.choose(asked).filter(|&at| self.submit(at, job, arrival));
        match chosen {
            Some(at) => self.tally.placed(job, at),
            None => self.tally.refused(job),
        }
    }

    /// Whether every engine can take the request: all policies are asked about the same ones.
    fn fits(&self, arrival: &Arrival) -> bool {
        let Arrival { prompt_tokens, output_tokens, adapter, .. } = *arrival;
        self.fleet.engines.iter().all(|spec| {
            spec.fits(prompt_tokens, output_tokens) && (adapter.is_none() || spec.adapter_slots > 0)
        })
    }

    fn submit(&mut self, at: usize, id: JobId, arrival: &Arrival) -> bool {
        let Some(pod) = self.pods.get_mut(at).filter(|pod| pod.up()) else { return false };
        self.woken.push(at);
        pod.engine.submit(job(id, arrival)).is_ok()
    }

    fn begin_steps(&mut self) {
        for at in self.woken.drain(..) {
            let Some(pod) = self.pods.get_mut(at) else { continue };
            if let Some(end) = pod.begin_step(self.now) {
                self.agenda.add(end, Due::StepEnds { pod: at, life: pod.life });
            }
        }
    }

    fn totals(&self) -> Totals {
        self.pods.iter().map(Pod::totals).sum()
    }
}

/// What an engine is asked to do for a request.
pub(super) fn job(id: JobId, arrival: &Arrival) -> Job {
    Job {
        id,
        prompt_tokens: arrival.prompt_tokens,
        blocks: Arc::clone(&arrival.blocks),
        output_tokens: arrival.output_tokens,
        adapter: arrival.adapter,
    }
}
