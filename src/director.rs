//! The path of one request: from what the exchange read to a decision.
//!
//! Screens the pool by the gateway's subset, refuses what may be shed while nobody has room, runs the profile over what is
//! left, and keeps the decision inside its deadline by a ladder of rungs. A fault of ours (a plugin that panics, the
//! deadline missed) still ends in a pick; only a failed filter under fail-close refuses.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;
use smallvec::SmallVec;

use crate::metrics::Metrics;
use crate::pool::{Endpoint, FailureMode, Routes, Slot, Snapshot, Subset};
use crate::prefix::{Chain, Hashing};
use crate::request::Parsed;
use crate::schedule::capability::keep_servers;
use crate::schedule::readings::queues;
use crate::schedule::registry::Empty;
use crate::schedule::{
    Call, Chosen, Depth, Fault, Headers, LeftOut, Limits, Pass, PickContext, Profile, Refusal,
    Scratch, Signals, Timing, Trace, least, least_of,
};

use self::admission::Verdict;
use self::calibration::Calibration;
use self::record::Record;
use self::rules::Rules;

pub use self::brief::Brief;
pub use self::explain::Explanation;
pub use self::fullness::Fullness;
pub use self::log::{DecisionLog, Wanted};
pub use self::outcome::{Decision, Rejection, Rung};
pub use self::policy::Policy;
pub use self::record::{Tag, shown};
pub use self::report::{Prediction, Report};
pub use self::settings::{Clock, Settings};
pub use self::spans::Notes;

mod admission;
mod affinity;
mod brief;
mod calibration;
pub mod explain;
mod fullness;
mod log;
mod outcome;
mod place;
mod policy;
mod record;
mod report;
mod rules;
mod settings;
mod spans;

/// The time that a decision may take unless configured: far below Envoy's message timeout of 200 ms.
pub const DECISION_DEADLINE: Duration = Duration::from_millis(50);

/// The upper six bits of the dice of decisions in which plugins are timed: one of 64.
const TIMED: u64 = 0b11_1111;

/// What a decision needs to know of a request.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The body as it was read; the default when there was none to read.
    pub request: &'a Parsed,
    /// The prompt's block hashes by [`Director::hashing`]; empty when there is no prompt or nobody asks for it.
    pub chain: &'a Chain,
    /// Those of its headers that are in [`Director::headers`].
    pub headers: &'a Headers,
    /// The request has no body: any endpoint that the policy allows will do, the least loaded is taken.
    pub bodyless: bool,
    /// The model to ask the server for; none when the API names no model.
    pub model: Option<&'a str>,
    /// How urgent the request is: below 0 it is refused while the pool is saturated; 0 when nothing says.
    pub priority: i32,
    /// What the gateway allows.
    pub subset: &'a Subset,
}

/// Decides; shared by all exchanges.
#[derive(Debug)]
pub struct Director {
    pool: Arc<ArcSwap<Snapshot>>,
    rules: ArcSwap<Rules>,
    metrics: Arc<Metrics>,
    calibration: Arc<Calibration>,
    /// None where decisions are never kept.
    log: Option<Arc<DecisionLog>>,
}

/// What was chosen, before it has an effect.
#[derive(Debug)]
struct Choice<'a> {
    /// The one that ran.
    profile: &'a Profile,
    rung: Rung,
    faults: SmallVec<[Fault; 1]>,
    /// Whether the sums of the scores say why.
    scored: bool,
}

/// What a decision is made from, the same from its begin to its end.
#[derive(Clone, Copy)]
struct View<'a> {
    snapshot: &'a Snapshot,
    rules: &'a Rules,
    began: Instant,
    /// Random.
    dice: u64,
}

thread_local! {
    /// One decision at a time runs on a thread: there is no await between its begin and its end.
    static BUFFERS: RefCell<(Scratch, Signals)> = RefCell::default();
}

impl Director {
    /// A director over a pool that someone else keeps current.
    pub fn new(
        pool: Arc<ArcSwap<Snapshot>>,
        policy: Policy,
        metrics: Arc<Metrics>,
        settings: Settings,
    ) -> Self {
        let rules = Rules { policy: Arc::new(policy), settings, affinity: None };
        let rules = ArcSwap::from_pointee(rules);
        Self { pool, rules, metrics, calibration: Arc::default(), log: None }
    }

    /// Keeps what there is to say of each decision that [`decide_noted`](Self::decide_noted) makes.
    #[must_use]
    pub fn with_log(mut self, log: Arc<DecisionLog>) -> Self {
        self.log = Some(log);
        self
    }

    /// Whether decisions are kept now.
    pub fn keeps_log(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.wanted())
    }

    /// Hashes a prompt for [`Ask::chain`]; none when nobody asks for it.
    pub fn hashing(&self) -> Option<Hashing> {
        Some(self.rules.load().affinity.as_ref()?.hashing())
    }

    /// The request headers that plugins read, in lower case: [`Ask::headers`] holds no others.
    pub fn headers(&self) -> Arc<[Arc<str>]> {
        Arc::clone(self.rules.load().policy.headers())
    }

    /// Whose request it is by the headers that agents send; none where they do not say or nobody asks.
    pub fn agent<'a>(&self, headers: &'a Headers) -> Option<&'a str> {
        self.rules.load().policy.facts.agent(headers)
    }

    /// Calls `set` with each header, name and value, that plugins want on an answer of this endpoint; one may come twice.
    pub fn answer_headers(&self, endpoint: &Endpoint, mut set: impl FnMut(&str, Bytes)) {
        let rules = self.rules.load();
        let headers =
            rules.policy.profiles.iter().flat_map(|(_, profile)| profile.answer_headers(endpoint));
        headers.for_each(|(name, value)| set(name, value));
    }

    /// Another endpoint than the chosen one has computed a prompt.
    pub fn served(&self, endpoint: &Endpoint, chain: &Chain) {
        if let Some(affinity) = &self.rules.load().affinity {
            affinity.placed(&self.pool.load(), endpoint, chain);
        }
    }

    /// Where metrics go.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// What is said of requests before they are placed, as of now.
    pub fn routes(&self) -> Arc<Routes> {
        Arc::clone(self.pool.load().routes())
    }

    /// Whether a fault may be answered by letting the gateway go on without us.
    pub fn failure_mode(&self) -> FailureMode {
        self.rules.load().settings.mode(&self.pool.load())
    }

    /// Whether it is known that there is no endpoint.
    pub fn vacant(&self) -> bool {
        let snapshot = self.pool.load();
        snapshot.synced() && snapshot.ready().is_empty()
    }

    /// The endpoint at an address, as of now.
    pub fn endpoint_at(&self, address: std::net::SocketAddr) -> Option<Arc<Endpoint>> {
        let snapshot = self.pool.load();
        snapshot.endpoint(snapshot.by_address(address)?).cloned()
    }

    /// Chooses endpoints for a request and charges the first of them; `dice` is random.
    ///
    /// # Errors
    /// When the request is refused.
    pub fn decide(&self, ask: Ask<'_>, dice: u64) -> Result<Decision, Rejection> {
        self.decide_noted(None, ask, dice, &mut None)
    }

    /// The same, kept under these names in the log of decisions if there is one; what was noted of it is put into `notes`,
    /// if they say that it is traced.
    ///
    /// # Errors
    /// When the request is refused.
    #[inline(never)] // the gate counts its instructions by this name
    pub fn decide_noted(
        &self,
        tag: Option<Tag<'_>>,
        ask: Ask<'_>,
        dice: u64,
        notes: &mut Option<Notes>,
    ) -> Result<Decision, Rejection> {
        let (snapshot, rules) = (self.pool.load(), self.rules.load());
        let clock = &rules.settings.clock;
        let view = View { snapshot: &snapshot, rules: &rules, began: clock.now(), dice };
        let log = self.log.as_ref().filter(|log| log.wanted());
        let tag = tag.filter(|tag| tag.traced || log.is_some());
        let traced = tag.is_some_and(|tag| tag.traced);
        let decision = BUFFERS.with_borrow_mut(|buffers| {
            buffers.0.trace = tag.map(|_| Box::new(Trace::new(Depth::Numbers)));
            buffers.0.timing = view.timing(traced);
            let choice = self.choose(ask, view, buffers);
            let calls = buffers.0.timing.take().map(|timing| timing.calls).unwrap_or_default();
            if view.measured() {
                self.timed(&calls);
            }
            if let (Some(tag), Some(trace)) = (tag, buffers.0.trace.take()) {
                let (took, seen) = (view.age(), (&buffers.1, trace, calls));
                let record = Record::of(Some(tag), (ask, view), seen, &choice, took);
                let kept = keep(record, log);
                *notes = traced.then_some(kept);
            }
            self.place(ask, view, buffers, choice?)
        });
        self.metrics.decision_duration.observe(view.age().as_secs_f64());
        if let Err(Rejection::Internal(fault)) = &decision {
            self.metrics.degraded("refused", fault.cause());
        }
        decision
    }

    /// Chooses, without an effect: what was chosen stands in the scratch.
    fn choose<'a>(
        &self,
        ask: Ask<'_>,
        view: View<'a>,
        (scratch, signals): &mut (Scratch, Signals),
    ) -> Result<Choice<'a>, Rejection> {
        let View { snapshot, rules: Rules { policy, .. }, began, .. } = view;
        signals.prefix.clear();
        signals.bytes_per_token = ask.model.map(|it| self.calibration.of(it)).unwrap_or_default();
        scratch.candidates.clear();
        scratch.candidates.extend_from_slice(snapshot.ready());
        if let Some(trace) = &mut scratch.trace {
            let all: Vec<_> = snapshot.endpoints().map(|endpoint| endpoint.id.slot).collect();
            trace.left_out(&all, snapshot.ready(), LeftOut::Draining);
        }
        scratch.narrow(LeftOut::Subset, |candidates| ask.subset.candidates(snapshot, candidates));
        scratch.narrow(LeftOut::Silent, |candidates| shun(snapshot, candidates, began));
        match (scratch.candidates.is_empty(), snapshot.synced()) {
            (true, false) => return Err(Rejection::NotSynced),
            (true, true) if snapshot.ready().is_empty() => return Err(Rejection::NoEndpoints),
            (true, true) => return Err(Rejection::NoneAllowed),
            (false, _) => {}
        }
        policy.facts.sense((ask.request, ask.chain), ask.headers, signals);
        let cx = context(ask, view, signals);
        let Chosen { name, profile, fault } =
            policy.profiles.choose(cx).ok_or(Rejection::NoProfile)?;
        if let Some(trace) = &mut scratch.trace {
            trace.profile = Some(name.into());
        }
        scratch.narrow(LeftOut::Model, |candidates| keep_servers(cx, candidates));
        let verdict = policy.admission.as_ref().map(|admission| {
            let Scratch { candidates, trace, .. } = &mut *scratch;
            admission.judge(ask.priority, cx, candidates, trace.as_deref_mut())
        });
        if verdict == Some(Verdict::Shed) {
            return Err(Rejection::Shed);
        }
        let mut choice = if ask.bodyless {
            least_loaded(&view.rules.settings, profile, cx, scratch)
        } else {
            by_policy(ask, view, profile, (scratch, signals))
        }?;
        if let Some(Verdict::AdmittedBy(fault)) = verdict {
            choice.faults.push(fault);
        }
        choice.faults.extend(fault);
        Ok(choice)
    }

    fn timed(&self, calls: &[Call]) {
        for Call { point, type_name, name, took, .. } in calls {
            self.metrics.plugins.took(point.name(), type_name, name, *took);
        }
    }

    fn count(&self, rung: Rung, faults: &[Fault]) {
        self.metrics.rung.set(rung.depth());
        for fault in faults {
            self.metrics.degraded(rung.name(), fault.cause());
        }
        if faults.is_empty() && rung == Rung::LoadOnly {
            self.metrics.degraded(rung.name(), "no_signals");
        }
    }
}

/// Keeps what was noted in the log, if there is one.
fn keep(record: Record, log: Option<&Arc<DecisionLog>>) -> Notes {
    let record = Arc::new(record);
    if let Some(log) = log {
        log.keep(Arc::clone(&record));
    }
    Notes(record)
}

impl View<'_> {
    /// The time since the decision began.
    fn age(&self) -> Duration {
        self.rules.settings.clock.now().saturating_duration_since(self.began)
    }

    /// Whether what its plugins take is counted.
    fn measured(&self) -> bool {
        self.dice >> 58 == TIMED
    }

    /// What times plugins; none in most decisions.
    fn timing(&self, traced: bool) -> Option<Box<Timing>> {
        let clock = &self.rules.settings.clock;
        let timing = |clock: Clock| Box::new(Timing::new(move || clock.now()));
        (traced || self.measured()).then(|| timing(clock.clone()))
    }
}

fn by_policy<'a>(
    ask: Ask<'_>,
    view: View<'_>,
    profile: &'a Profile,
    (scratch, signals): (&mut Scratch, &mut Signals),
) -> Result<Choice<'a>, Rejection> {
    let View { snapshot, rules: Rules { settings, affinity, .. }, began, dice } = view;
    let informed = scratch.candidates.iter().any(|&slot| snapshot.fresh(slot, began));
    // Where servers cannot be seen to be full, what they have cached must not draw requests to them.
    let seen = affinity.as_ref().filter(|_| informed);
    let blind = seen
        .and_then(|affinity| affinity.sense(ask.chain, &scratch.candidates, &mut signals.prefix));
    scale(ask, signals);
    let cx = context(ask, view, signals);
    let late = || view.age() > settings.deadline;
    let limits = Limits { leave_out_filters: settings.opens(snapshot), late: &late, dice };
    let pass = profile.pick(cx, limits, scratch).map_err(refused)?;
    let Pass { mut faults, mut by_policy } = pass;
    faults.extend(blind);
    let scored = by_policy && !profile.scorers.is_empty();
    if !informed && scratch.chosen.len() == 1 && tied(&scratch.total) {
        scratch.chosen.clear();
        let load = |slot| snapshot.in_flight(slot);
        scratch.chosen.extend(least(&scratch.candidates, dice, load));
        by_policy = false;
        scratch.note_choice(by_policy);
    }
    let rung = if by_policy && informed { Rung::Policy } else { Rung::LoadOnly };
    Ok(Choice { profile, rung, faults, scored })
}

/// For requests without a body: the shortest queue, ours included, of those that the policy allows.
fn least_loaded<'a>(
    settings: &Settings,
    profile: &'a Profile,
    cx: PickContext<'_>,
    scratch: &mut Scratch,
) -> Result<Choice<'a>, Rejection> {
    let PickContext { snapshot, now, dice, .. } = cx;
    let limits = Limits { leave_out_filters: settings.opens(snapshot), late: &|| false, dice };
    let Pass { faults, .. } = profile.guard(cx, limits, scratch).map_err(refused)?;
    let Scratch { candidates, total, chosen, .. } = scratch;
    total.clear();
    total.resize(candidates.len(), 0.0);
    queues(cx, candidates, total);
    let in_flight = candidates.iter().map(|&slot| snapshot.in_flight(slot) as f32);
    total.iter_mut().zip(in_flight).for_each(|(load, in_flight)| *load += in_flight);
    chosen.clear();
    chosen.extend(least_of(total.iter().copied(), dice));
    let informed = candidates.iter().any(|&slot| snapshot.fresh(slot, now));
    scratch.note_choice(false);
    let rung = if informed { Rung::Policy } else { Rung::LoadOnly };
    Ok(Choice { profile, rung, faults, scored: false })
}

fn context<'a>(ask: Ask<'a>, view: View<'a>, signals: &'a Signals) -> PickContext<'a> {
    let (Ask { request, model, headers, .. }, View { snapshot, began: now, dice, .. }) =
        (ask, view);
    PickContext { request, model, headers, snapshot, signals, now, dice }
}

/// Counts the tokens of the prompt's blocks as those of the prompt are counted.
fn scale(ask: Ask<'_>, signals: &mut Signals) {
    let (counted, tokens) =
        (ask.request.prompt_tokens, ask.request.tokens(signals.bytes_per_token));
    if counted > 0 {
        signals.prefix.scale(tokens as f64 / counted as f64);
    }
}

fn refused(refusal: Refusal) -> Rejection {
    match refusal {
        Refusal::NoneLeft(Empty::Capability) => Rejection::NoEndpoints,
        Refusal::NoneLeft(Empty::Load) => Rejection::Saturated,
        Refusal::FilterFailed(fault) => Rejection::Internal(fault),
    }
}

/// Leaves out endpoints that seem not to answer, where others are left.
fn shun(snapshot: &Snapshot, candidates: &mut Vec<Slot>, now: Instant) {
    let answers = |slot: &Slot| !snapshot.endpoint(*slot).is_some_and(|it| it.live.suspect(now));
    if candidates.iter().any(answers) {
        candidates.retain(answers);
    }
}

/// Whether the policy told nothing apart.
fn tied(total: &[f32]) -> bool {
    total.windows(2).all(|pair| matches!(pair, [a, b] if a.to_bits() == b.to_bits()))
}

#[cfg(test)]
mod tests;
