//! What is kept of a decision: compact numbers, made into words when somebody reads them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::director::{Ask, Choice, Rejection, Rung, View};
use crate::pool::{Life, Reading, Roster, Slot, Snapshot};
use crate::schedule::trace::PassTrace;
use crate::schedule::{Call, Fault, Point, Signals, Trace};

/// Bytes of a model's name that are kept; clients choose names.
const LONGEST_NAME: usize = 256;

/// What a decision is found by.
#[derive(Clone, Copy, Debug)]
pub struct Tag<'a> {
    /// Random, of this decision alone.
    pub id: u64,
    /// The request's own id; others may have the same.
    pub request_id: &'a [u8],
    /// Spans are to be made of it, so plugins are timed.
    pub traced: bool,
}

/// A decision and all that it was made from, but for the request itself.
#[derive(Debug)]
pub(super) struct Record {
    /// None of a decision without an effect.
    pub(super) id: Option<u64>,
    pub(super) request_id: Option<Box<str>>,
    pub(super) began: Instant,
    pub(super) took: Duration,
    pub(super) generation: u64,
    pub(super) roster: Roster,
    pub(super) request: Asked,
    /// Of everyone in the pool, in slot order.
    pub(super) inputs: Box<[Input]>,
    pub(super) trace: Box<Trace>,
    /// The calls of plugins, where they were timed.
    pub(super) calls: Vec<Call>,
    pub(super) outcome: Result<Chosen, Rejection>,
}

/// What mattered of the request.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) model: Option<Box<str>>,
    pub(super) priority: i32,
    pub(super) bodyless: bool,
    pub(super) prompt_tokens: u64,
    /// Names, and lengths of values: these may be secrets.
    pub(super) headers: Vec<(Arc<str>, usize)>,
}

/// How the choice came about.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) rung: Rung,
    pub(super) faults: SmallVec<[Fault; 1]>,
}

/// What was known of an endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input {
    pub(super) slot: Slot,
    pub(super) life: Option<Life>,
    pub(super) fresh: bool,
    /// How old its sample was; NaN before the first.
    pub(super) age_ms: f32,
    /// NaN when stale or unknown, as the two after it.
    pub(super) waiting: f32,
    pub(super) running: f32,
    pub(super) kv_usage: f32,
    pub(super) requests: u32,
    pub(super) prompt_tokens: u32,
    pub(super) output_tokens: u32,
    /// Tokens of the prompt that it has in its cache.
    pub(super) hit_tokens: u32,
}

impl Record {
    /// To be made before the decision has an effect, so that its own charge is not on it.
    pub(super) fn of(
        tag: Option<Tag<'_>>,
        (ask, view): (Ask<'_>, View<'_>),
        (signals, trace, calls): (&Signals, Box<Trace>, Vec<Call>),
        choice: &Result<Choice<'_>, Rejection>,
        took: Duration,
    ) -> Self {
        let View { snapshot, began, .. } = view;
        let request_id = |tag: Tag<'_>| String::from_utf8_lossy(tag.request_id).into();
        let input = |slot: Slot| Input::of(snapshot, slot, signals, began);
        let outcome = match choice {
            Ok(Choice { rung, faults, .. }) => Ok(Chosen { rung: *rung, faults: faults.clone() }),
            Err(rejection) => Err(rejection.clone()),
        };
        Self {
            id: tag.map(|tag| tag.id),
            request_id: tag.map(request_id),
            began,
            took,
            generation: snapshot.generation(),
            roster: snapshot.roster(),
            request: Asked::of(ask, signals),
            inputs: snapshot.endpoints().map(|endpoint| input(endpoint.id.slot)).collect(),
            trace,
            calls,
            outcome,
        }
    }

    /// The timed calls of one kind, in their order.
    pub(super) fn calls_of(&self, point: Point) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(move |call| call.point == point)
    }

    /// About what it takes of memory.
    pub(super) fn bytes(&self) -> usize {
        let pass = |pass: &PassTrace| {
            let removed: usize = pass.filters.iter().map(|filter| filter.removed.len()).sum();
            size_of::<PassTrace>()
                + size_of::<Slot>() * (pass.begin.len() + pass.candidates.len())
                + size_of::<f32>() * pass.totals.len() * (1 + pass.scorers.len())
                + REMOVED * removed
                + PLUGIN * (pass.filters.len() + pass.scorers.len())
        };
        let passes: usize = self.trace.passes.iter().map(pass).sum();
        let name = |name: &Option<Box<str>>| name.as_ref().map_or(0, |name| name.len());
        size_of::<Self>()
            + size_of::<Trace>()
            + size_of_val(&*self.inputs)
            + size_of_val(&*self.trace.left_out)
            + size_of_val(&*self.calls)
            + passes
            + name(&self.request_id)
            + name(&self.request.model)
    }
}

/// Bytes of the notes of one endpoint that a filter removed.
const REMOVED: usize = size_of::<(Slot, Option<Box<str>>)>();

/// Bytes of the notes of one plugin, its words among them.
const PLUGIN: usize = 128;

impl Asked {
    fn of(ask: Ask<'_>, signals: &Signals) -> Self {
        let Ask { request, headers, bodyless, model, priority, .. } = ask;
        Self {
            model: model.map(|name| shown(name).into()),
            priority,
            bodyless,
            prompt_tokens: request.tokens(signals.bytes_per_token),
            headers: headers.lengths().map(|(name, len)| (Arc::clone(name), len)).collect(),
        }
    }
}

impl Input {
    fn of(snapshot: &Snapshot, slot: Slot, signals: &Signals, now: Instant) -> Self {
        let value = |reading| match reading {
            Reading::Fresh(value) => value,
            Reading::Stale | Reading::Unknown => f32::NAN,
        };
        let live = snapshot.endpoint(slot).map(|endpoint| &endpoint.live);
        let age = snapshot.scrape_age(slot, now);
        Self {
            slot,
            life: snapshot.life(slot),
            fresh: snapshot.fresh(slot, now),
            age_ms: age.map_or(f32::NAN, |age| age.as_secs_f32() * 1e3),
            waiting: value(snapshot.waiting(slot, now)),
            running: value(snapshot.running(slot, now)),
            kv_usage: value(snapshot.kv_usage(slot, now)),
            requests: snapshot.in_flight(slot),
            prompt_tokens: short(live.map_or(0, |live| live.prompt_tokens())),
            output_tokens: short(live.map_or(0, |live| live.decode_tokens())),
            hit_tokens: short(signals.prefix.tokens(slot)),
        }
    }
}

/// As much of a model's name as is kept or told anywhere: 256 bytes at most.
pub fn shown(name: &str) -> &str {
    name.get(..name.floor_char_boundary(LONGEST_NAME)).unwrap_or(name)
}

fn short(tokens: u64) -> u32 {
    u32::try_from(tokens).unwrap_or(u32::MAX)
}
