//! What comes of requests, as it is counted.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::time::Duration;

use crate::replay::pod::Totals;
use crate::replay::{Arrival, Outcome, Served, Workload};
use crate::sim::engine::{Event, JobId, Spread};

/// Tokens of the blocks of [`Arrival::chain`].
pub(super) const BLOCK_TOKENS: usize = 64;

/// Follows the requests of a workload. Bounded by it.
#[derive(Debug)]
pub(super) struct Tally<'a> {
    arrivals: &'a [Arrival],
    /// By position in the workload.
    open: Vec<Option<Open>>,
    count: usize,
    served: Vec<Option<Served>>,
    placed: Vec<u64>,
    /// Blocks that some pod has computed.
    computed: HashSet<u64, BuildHasherDefault<Spread>>,
    recomputed_tokens: u64,
    left_out: u64,
    refused: u64,
}

/// A request that was placed and has not ended.
#[derive(Clone, Copy, Debug)]
struct Open {
    pod: usize,
    ttft: Duration,
    cached_tokens: usize,
}

impl<'a> Tally<'a> {
    pub(super) fn new(workload: &'a Workload, pods: usize) -> Self {
        let arrivals = &*workload.arrivals;
        Self {
            arrivals,
            open: vec![None; arrivals.len()],
            count: 0,
            served: vec![None; arrivals.len()],
            placed: vec![0; pods],
            computed: HashSet::default(),
            recomputed_tokens: 0,
            left_out: 0,
            refused: 0,
        }
    }

    /// Requests that were placed and have not ended.
    pub(super) fn open(&self) -> usize {
        self.count
    }

    /// A request goes to a pod.
    pub(super) fn placed(&mut self, job: JobId, pod: usize) {
        let open = Open { pod, ttft: Duration::ZERO, cached_tokens: 0 };
        if let Some(place) = self.open.get_mut(position(job)) {
            self.count += usize::from(place.replace(open).is_none());
        }
        if let Some(placed) = self.placed.get_mut(pod) {
            *placed += u64::from(counts(self.arrivals, job));
        }
    }

    /// A request is larger than a cache.
    pub(super) fn left_out(&mut self, job: JobId) {
        self.left_out += u64::from(counts(self.arrivals, job));
    }

    /// A request goes nowhere.
    pub(super) fn refused(&mut self, job: JobId) {
        self.refused += u64::from(counts(self.arrivals, job));
    }

    /// Takes the requests off a pod that failed; in the order of their arrival.
    pub(super) fn lose(&mut self, pod: usize) -> Vec<JobId> {
        let on_it = |open: &mut Open| open.pod == pod;
        let taken = |(at, place): (usize, &mut Option<Open>)| {
            place.take_if(on_it).map(|_| JobId(at as u64))
        };
        let lost: Vec<_> = self.open.iter_mut().enumerate().filter_map(taken).collect();
        self.count -= lost.len();
        lost
    }

    /// Something happens to a request.
    pub(super) fn happened(&mut self, event: &Event, now: Duration) {
        let at = position(event.id());
        let (Some(arrival), Some(place)) = (self.arrivals.get(at), self.open.get_mut(at)) else {
            return;
        };
        let Some(open) = place else { return };
        match *event {
            Event::FirstToken { cached_tokens, .. } => {
                open.ttft = now.saturating_sub(arrival.at);
                open.cached_tokens = cached_tokens;
                self.computed(arrival, cached_tokens);
            }
            Event::Finished { .. } => {
                let Open { ttft, cached_tokens, .. } = *open;
                let served = Served {
                    ttft,
                    end_to_end: now.saturating_sub(arrival.at),
                    output_tokens: arrival.output_tokens,
                    prompt_tokens: arrival.prompt_tokens,
                    cached_tokens,
                    shared_tokens: arrival.shared_tokens,
                };
                *place = None;
                self.count -= 1;
                if let Some(place) = self.served.get_mut(at).filter(|_| arrival.counts) {
                    *place = Some(served);
                }
            }
            Event::Token { .. } | Event::Preempted { .. } => {}
        }
    }

    /// The prompt is computed but for its hits.
    fn computed(&mut self, arrival: &Arrival, cached_tokens: usize) {
        let blocks = arrival.chain.hashes().iter().take(arrival.prompt_tokens / BLOCK_TOKENS);
        let blocks = blocks.enumerate().skip(cached_tokens / BLOCK_TOKENS);
        for (at, hash) in blocks {
            let before = !self.computed.insert(*hash);
            let tokens = (at + 1) * BLOCK_TOKENS - cached_tokens.max(at * BLOCK_TOKENS);
            if before && arrival.counts {
                self.recomputed_tokens += tokens as u64;
            }
        }
    }

    /// What came of all, with what the pods did since requests count.
    pub(super) fn outcome(self, totals: Totals) -> Outcome {
        Outcome {
            served: self.served.into_iter().flatten().collect(),
            placed: self.placed,
            adapter_loads: totals.adapter_loads,
            recomputed_tokens: self.recomputed_tokens + totals.recomputed_tokens,
            left_out: self.left_out,
            refused: self.refused,
            needed: Vec::new(),
        }
    }
}

fn counts(arrivals: &[Arrival], job: JobId) -> bool {
    arrivals.get(position(job)).is_some_and(|arrival| arrival.counts)
}

/// Where in the workload a request is.
pub(super) fn position(JobId(at): JobId) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}
