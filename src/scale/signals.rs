//! What the history says of the demand.

use std::time::{Duration, Instant};

use crate::pool::{Endpoint, Tally};
use crate::scale::board::Aims;
use crate::scale::estimate::{Goal, Load, Replica, Request};
use crate::scale::history::{FULL_QUEUE, History, LONGEST_WINDOW, Look, Row, Standing};
use crate::scale::trend::Trend;

/// The least part of the KV cache from which it is told how many sequences fit in.
const TELLING: f64 = 0.05;

/// The least time from which it is told how many requests come a second, where the window is not shorter.
const TELLING_TIME: Duration = Duration::from_secs(10);

/// The least requests in flight by which it is told what part of the traffic is ours.
const SHARED: f64 = 1.0;

/// What is asked of the history.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// The time over which values are means, up to [`LONGEST_WINDOW`].
    pub window: Duration,
    /// Which endpoints count.
    pub counts: &'a dyn Fn(&Endpoint) -> bool,
    /// What is asked of replicas.
    pub aims: Aims,
}

/// The demand on some endpoints. Sums are over all that count, means over those that are ready.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Signals {
    /// Endpoints that take requests.
    pub ready: u32,
    /// Endpoints that end what they have.
    pub draining: u32,
    /// Ready ones whose metrics page cannot be had: what this process has in flight stands for them.
    pub unmeasured: u32,
    /// Requests held because there is no endpoint, as of the newest look.
    pub held: u32,
    /// Requests that wait in the engines, and those held.
    pub queue: f64,
    /// Requests being computed.
    pub running: f64,
    /// The mean of the used share of the KV cache, and of what the waiting requests would take. May exceed 1.0.
    pub kv_pressure: f64,
    /// The mean of how full endpoints are; 1.0 is full. May exceed that.
    pub saturation: f64,
    /// The same as a sum, with the requests that are held as if they were in one queue.
    pub filled: f64,
    /// Tokens a second, of prompts that were computed and of answers, by what passed here.
    pub tokens: f64,
    /// Requests a second, those of others estimated by the part of the load that is not ours.
    pub requests: f64,
    /// Mean seconds that a stream waited for its first token, but for those that its own prompt took; none without streams.
    pub queue_time: Option<f64>,
    /// Requests a second that one replica can bear.
    pub knee: f64,
    /// Replicas that the load needs.
    pub recommended: u32,
    /// Until the ready replicas are at their knee, if the load goes on as it does: 0.0 when they are, infinite when it does
    /// not grow.
    pub seconds_to_saturation: f64,
}

/// Sums over the looks of a window.
#[derive(Default)]
struct Sums {
    looks: f64,
    seconds: f64,
    held: f64,
    queue: f64,
    running: f64,
    pressure: Mean,
    saturation: Mean,
    own: f64,
    foreign: f64,
    refused: u64,
    passed: Tally,
}

#[derive(Default)]
struct Mean {
    sum: f64,
    count: f64,
}

impl History {
    /// What it says.
    pub fn signals(&self, wanted: Wanted<'_>, now: Instant) -> Signals {
        let Some(newest) = self.newest() else { return Signals::default() };
        let counted = |look: &Look| count(look, wanted.counts);
        let sums = self.within(wanted.window).fold(Sums::default(), |sums, look| {
            look.rows
                .iter()
                .filter(|row| (wanted.counts)(&row.endpoint))
                .fold(sums.look(look), Sums::row)
        });
        let (ready, draining, unmeasured) = counted(newest);
        let replica = self.replica(newest, wanted, now);
        let request = self.request(wanted);
        let knee = replica.knee(&request);
        let (trend, share) = (self.trend(wanted), sums.share());
        let rate = match trend.slope {
            slope if slope > 0.0 => sums.rate(wanted.window).max(trend.rate),
            _ => sums.rate(wanted.window),
        };
        let growth = trend.slope.max(0.0) * share;
        let foreseen = rate * share + growth * wanted.aims.lead.as_secs_f64();
        let (queue, running) = ((sums.queue + sums.held) / sums.looks, sums.running / sums.looks);
        let load = Load { rate: foreseen, request, present: queue + running };
        Signals {
            ready,
            draining,
            unmeasured,
            held: newest.unplaced.held,
            queue,
            running,
            kv_pressure: sums.pressure.value(),
            saturation: sums.saturation.value(),
            filled: (sums.saturation.sum + sums.held / FULL_QUEUE) / sums.looks,
            tokens: sums.per_second(sums.passed.prompt_tokens + sums.passed.generated),
            requests: sums.rate(wanted.window) * share,
            queue_time: (sums.passed.begun > 0)
                .then(|| sums.passed.waited / sums.passed.begun as f64),
            knee,
            recommended: replica.needed(&load, wanted.aims.goal),
            seconds_to_saturation: until(f64::from(ready) * knee, rate * share, growth),
        }
    }

    /// Whether there is work for the endpoints that count, or was within the window: requests in flight, held, or more than
    /// `activation` that came.
    pub fn active(&self, wanted: Wanted<'_>, activation: f64, now: Instant) -> bool {
        let present = |row: &Row| row.waiting + row.running + row.own > 0.0;
        let busy = self.newest().is_some_and(|look| {
            look.rows.iter().filter(|row| (wanted.counts)(&row.endpoint)).any(present)
        });
        let held = self.newest().is_some_and(|look| look.unplaced.held > 0);
        busy || held || self.came(wanted, now) > activation
    }

    /// Requests that came within the window, placed on endpoints that count or without one.
    fn came(&self, wanted: Wanted<'_>, now: Instant) -> f64 {
        let placed = self
            .within(wanted.window)
            .flat_map(|look| &look.rows)
            .filter(|row| (wanted.counts)(&row.endpoint))
            .map(|row| row.passed.placed)
            .sum::<u64>();
        (placed + self.lacked_within(wanted.window, now)) as f64
    }

    /// Requests a second over all that is remembered.
    fn trend(&self, wanted: Wanted<'_>) -> Trend {
        let Some(first) = self.within(LONGEST_WINDOW).next().map(|look| look.at) else {
            return Trend::default();
        };
        let looks = self.within(LONGEST_WINDOW).skip(1);
        let counts = looks.map(|look| {
            let length = look.length.as_secs_f64();
            let rows = look.rows.iter().filter(|row| (wanted.counts)(&row.endpoint));
            let placed = rows.map(|row| row.passed.placed).sum::<u64>() + look.refused;
            ((look.at - first).as_secs_f64() - length / 2.0, length, placed as f64)
        });
        Trend::of(&counts.collect::<Vec<_>>())
    }

    /// What a replica can do: as was learnt of those that count, else of any, else what is expected of one.
    fn replica(&self, newest: &Look, wanted: Wanted<'_>, now: Instant) -> Replica {
        let rows = || newest.rows.iter().filter(|row| (wanted.counts)(&row.endpoint));
        if rows().next().is_none()
            && let Some((replica, _)) = self.learnt
        {
            return replica;
        }
        let speeds = rows().map(|row| row.endpoint.live.outlook(now).speed);
        let replica = Replica::mean(speeds);
        let (running, used) = rows().fold((0.0, 0.0), |(running, used), row| {
            let usage = row.kv_usage.map_or(0.0, f64::from);
            (running + f64::from(row.running), used + usage)
        });
        let count = rows().count() as f64;
        if used / count > TELLING { replica.running(running / used) } else { replica }
    }

    /// What requests are like: over all that is remembered, else as they last were.
    fn request(&self, wanted: Wanted<'_>) -> Request {
        let rows = self.within(LONGEST_WINDOW).flat_map(|look| &look.rows);
        let rows = rows.filter(|row| (wanted.counts)(&row.endpoint));
        let passed = rows.fold(Tally::default(), |sum, row| sum.and(&row.passed));
        let usual = self.learnt.map_or(Request::USUAL, |(_, request)| request);
        request_of(&passed, usual)
    }

    /// Keeps what is known of replicas and requests for the time when there are none.
    pub(in crate::scale) fn learn(&mut self, now: Instant) {
        let all = Wanted {
            window: LONGEST_WINDOW,
            counts: &|_| true,
            aims: Aims { goal: Goal { ttft: 1.0, utilization: 1.0 }, lead: Duration::ZERO },
        };
        let Some(newest) = self.newest().filter(|look| !look.rows.is_empty()) else { return };
        self.learnt = Some((self.replica(newest, all, now), self.request(all)));
    }
}

/// Ready, draining and unmeasured endpoints.
fn count(look: &Look, counts: &dyn Fn(&Endpoint) -> bool) -> (u32, u32, u32) {
    let rows = || look.rows.iter().filter(|row| counts(&row.endpoint));
    let number = |of: &dyn Fn(&Row) -> bool| {
        u32::try_from(rows().filter(|row| of(row)).count()).unwrap_or(u32::MAX)
    };
    (
        number(&|row| row.standing == Standing::Ready),
        number(&|row| row.standing == Standing::Draining),
        number(&|row| row.standing == Standing::Ready && !row.measured),
    )
}

fn request_of(passed: &Tally, usual: Request) -> Request {
    let mean = |sum: u64, count: u64, usual: f64| {
        if count > 0 { sum as f64 / count as f64 } else { usual }
    };
    let prompt_tokens = mean(passed.prompt_tokens, passed.placed, usual.prompt_tokens);
    let squares = passed.prompt_squares / passed.placed.max(1) as f64;
    let variation = match passed.placed {
        0 | 1 => usual.variation,
        _ => (squares / prompt_tokens.powi(2).max(1.0) - 1.0).max(0.0),
    };
    let output_tokens = mean(passed.ended_tokens, passed.ended, usual.output_tokens);
    Request { prompt_tokens, variation, output_tokens }
}

/// Seconds until a rate reaches a limit.
fn until(limit: f64, rate: f64, slope: f64) -> f64 {
    match limit - rate {
        left if left <= 0.0 && rate > 0.0 => 0.0,
        left if slope > 0.0 => left / slope,
        _ => f64::INFINITY,
    }
}

impl Sums {
    fn look(mut self, look: &Look) -> Self {
        self.looks += 1.0;
        self.seconds += look.length.as_secs_f64();
        self.held += f64::from(look.unplaced.held);
        self.refused += look.refused;
        self
    }

    fn row(mut self, row: &Row) -> Self {
        self.queue += f64::from(row.waiting);
        self.running += f64::from(row.running);
        self.own += f64::from(row.own);
        self.foreign += f64::from(row.foreign);
        self.passed = self.passed.and(&row.passed);
        if row.standing == Standing::Ready {
            self.saturation.add(row.saturation());
            row.pressure().into_iter().for_each(|pressure| self.pressure.add(pressure));
        }
        self
    }

    fn per_second(&self, count: u64) -> f64 {
        if self.seconds > 0.0 { count as f64 / self.seconds } else { 0.0 }
    }

    /// Requests a second that came here. The first seconds of a history tell little: they count as if there were ten.
    fn rate(&self, window: Duration) -> f64 {
        let least = TELLING_TIME.min(window).as_secs_f64();
        (self.passed.placed + self.refused) as f64 / self.seconds.max(least)
    }

    /// All traffic as a multiple of ours, 1.0 or more.
    fn share(&self) -> f64 {
        if self.own < SHARED { 1.0 } else { (self.own + self.foreign) / self.own }
    }
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1.0;
    }

    /// 0.0 of nothing.
    fn value(&self) -> f64 {
        if self.count > 0.0 { self.sum / self.count } else { 0.0 }
    }
}

impl std::fmt::Debug for Wanted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wanted").field("window", &self.window).finish_non_exhaustive()
    }
}
