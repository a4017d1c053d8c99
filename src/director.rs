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
use crate::pool::{
    Endpoint, FailureMode, InFlight, Prompt, Routes, Slot, Snapshot, Standing, Subset,
};
use crate::prefix::{Chain, Hashing};
use crate::request::Parsed;
use crate::schedule::capability::keep_servers;
use crate::schedule::profile::contained;
use crate::schedule::readings::queues;
use crate::schedule::registry::Empty;
use crate::schedule::{
    Fault, Headers, Limits, Pass, PickContext, Profile, Refusal, Relay, Scratch, Signals, least,
    least_of,
};

use self::admission::Verdict;
use self::calibration::Calibration;
use self::rules::Rules;

pub use self::policy::Policy;
pub use self::report::{Prediction, Report};
pub use self::settings::{Clock, Settings};

mod admission;
mod affinity;
mod calibration;
mod policy;
mod report;
mod rules;
mod settings;

/// The time that a decision may take unless configured: far below Envoy's message timeout of 200 ms.
pub const DECISION_DEADLINE: Duration = Duration::from_millis(50);

/// The output tokens that a request is taken to generate, if its client does not allow fewer: the mean of the
/// conversations that Azure published in 2023 is 211.
const EXPECTED_OUTPUT: u64 = 211;

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

/// Where a request goes.
#[derive(Debug)]
pub struct Decision {
    /// The chosen endpoints, best first; never empty.
    pub endpoints: SmallVec<[Arc<Endpoint>; 1]>,
    /// The charge on the first of them.
    pub in_flight: InFlight,
    /// What was foretold of the request, to be handed back with [`Director::reported`].
    pub prediction: Prediction,
    /// How the choice was made.
    pub rung: Rung,
    /// What was left out on the way.
    pub faults: SmallVec<[Fault; 1]>,
    /// What stands between the gateway and the endpoints; none mostly.
    pub relay: Option<Relay>,
    /// The sum of the scores of every candidate; empty unless asked for, and when no scorer ran.
    pub scores: Vec<(Arc<Endpoint>, f32)>,
}

/// How much knowledge a choice rests on, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// The configured policy with fresh signals; what endpoints have in their caches is an estimate.
    Policy,
    /// Only what this process has in flight: signals are lost, or the deadline was missed.
    LoadOnly,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The source of endpoints has not answered yet.
    NotSynced,
    /// No endpoint is ready, or none that the gateway allows or that can serve the request.
    NoEndpoints,
    /// Endpoints could serve the request but have no room.
    Saturated,
    /// The same, of a request that is shed for others before its policy is asked.
    Shed,
    /// It asks for a profile that is not there.
    NoProfile,
    /// A filter failed and the pool fails closed.
    Internal(Fault),
}

/// Decides; shared by all exchanges.
#[derive(Debug)]
pub struct Director {
    pool: Arc<ArcSwap<Snapshot>>,
    rules: ArcSwap<Rules>,
    metrics: Arc<Metrics>,
    calibration: Calibration,
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
        let (rules, calibration) = (ArcSwap::from_pointee(rules), Calibration::default());
        Self { pool, rules, metrics, calibration }
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

    /// A request was answered well, and its engine said what it took: what was believed is corrected.
    ///
    /// Reads no clock. A fault of ours costs what could be learnt.
    pub fn reported(&self, report: Report<'_>) {
        if !contained(|| self.learn(&report)) {
            self.metrics.degraded("report", "panic");
        }
    }

    fn learn(&self, report: &Report<'_>) {
        let prompt = report.prediction.prompt;
        if let Some(model) = report.model.filter(|_| prompt.text) {
            let tokens = report.usage.prompt;
            if let Some(ratio) = self.calibration.learn(model, prompt.text_bytes, tokens) {
                self.metrics.calibrated(model, ratio.ratio());
            }
        }
        if let Some(affinity) = &self.rules.load().affinity {
            affinity.calibrated(self.calibration.of_all());
            affinity.learn(&self.pool.load(), report);
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
        let (snapshot, rules) = (self.pool.load(), self.rules.load());
        let clock = &rules.settings.clock;
        let began = clock.now();
        let view = View { snapshot: &snapshot, rules: &rules, began, dice };
        let decision = BUFFERS.with_borrow_mut(|buffers| self.place(ask, view, buffers));
        let took = clock.now().saturating_duration_since(began);
        self.metrics.decision_duration.observe(took.as_secs_f64());
        decision
    }

    fn place(
        &self,
        ask: Ask<'_>,
        view: View<'_>,
        (scratch, signals): &mut (Scratch, Signals),
    ) -> Result<Decision, Rejection> {
        let View { snapshot, rules, began, .. } = view;
        let policy = &rules.policy;
        let candidates = &mut scratch.candidates;
        ask.subset.candidates(snapshot, candidates);
        shun(snapshot, candidates, began);
        match (candidates.is_empty(), snapshot.synced()) {
            (true, false) => return Err(Rejection::NotSynced),
            (true, true) => return Err(Rejection::NoEndpoints),
            (false, _) => {}
        }
        signals.prefix.clear();
        signals.bytes_per_token = ask.model.map(|it| self.calibration.of(it)).unwrap_or_default();
        policy.facts.sense((ask.request, ask.chain), ask.headers, signals);
        let cx = context(ask, view, signals);
        let profile = policy.profiles.choose(cx).ok_or(Rejection::NoProfile)?;
        keep_servers(cx, candidates);
        let admission = policy.admission.as_ref();
        let verdict = admission.map(|admission| admission.judge(ask.priority, cx, candidates));
        if verdict == Some(Verdict::Shed) {
            return Err(Rejection::Shed);
        }
        let mut decision = if ask.bodyless {
            self.least_loaded(&rules.settings, profile, cx, scratch)
        } else {
            self.by_policy(ask, view, profile, (scratch, signals))
        }?;
        decision.relay = policy.profiles.relay();
        if let Some(Verdict::AdmittedBy(fault)) = verdict {
            self.metrics.degraded(decision.rung.name(), fault.cause());
            decision.faults.push(fault);
        }
        Ok(decision)
    }

    fn by_policy(
        &self,
        ask: Ask<'_>,
        view: View<'_>,
        profile: &Profile,
        (scratch, signals): (&mut Scratch, &mut Signals),
    ) -> Result<Decision, Rejection> {
        let View { snapshot, rules: Rules { settings, affinity, .. }, began, dice } = view;
        let informed = scratch.candidates.iter().any(|&slot| snapshot.fresh(slot, began));
        // Where servers cannot be seen to be full, what they have cached must not draw requests to them.
        let seen = affinity.as_ref().filter(|_| informed);
        let blind = seen.and_then(|affinity| {
            affinity.sense(ask.chain, &scratch.candidates, &mut signals.prefix)
        });
        scale(ask, signals);
        let cx = context(ask, view, signals);
        let late = || settings.clock.now().saturating_duration_since(began) > settings.deadline;
        let limits = Limits { leave_out_filters: settings.opens(snapshot), late: &late, dice };
        let pass = profile.pick(cx, limits, scratch);
        let mut pass = pass.map_err(|refusal| self.refused(refusal))?;
        pass.faults.extend(blind);
        if !informed && scratch.chosen.len() == 1 && tied(&scratch.total) {
            scratch.chosen.clear();
            let load = |slot| snapshot.in_flight(slot);
            scratch.chosen.extend(least(&scratch.candidates, dice, load));
        }
        let rung = if pass.by_policy && informed { Rung::Policy } else { Rung::LoadOnly };
        let chosen = scratch.chosen().next();
        let cached = chosen.map_or(0, |slot| signals.prefix.tokens(slot));
        let mut prediction = Prediction::new(ask.request, cx.prompt_tokens(), cached);
        let tokens = prediction.prompt_tokens.saturating_sub(cached);
        let mut decision =
            decision(snapshot, scratch, tokens, rung).ok_or(Rejection::NoEndpoints)?;
        if let Some(slot) = chosen {
            decision.in_flight = charged(decision.in_flight, cx, slot);
        }
        if let (Some(affinity), Some(endpoint)) = (affinity, decision.endpoints.first()) {
            let known = (ask.chain, &signals.prefix);
            pass.faults.extend(affinity.chosen(snapshot, endpoint, known, &mut prediction));
        }
        decision.prediction = prediction;
        self.count(rung, &pass.faults);
        if let Some(endpoint) = decision.endpoints.first() {
            profile.placed(cx, &scratch.candidates, endpoint);
        }
        decision.faults = pass.faults;
        if settings.scores && pass.by_policy && !profile.scorers.is_empty() {
            decision.scores = scores(snapshot, scratch);
        }
        Ok(decision)
    }

    /// For requests without a body: the shortest queue, ours included, of those that the policy allows.
    fn least_loaded(
        &self,
        settings: &Settings,
        profile: &Profile,
        cx: PickContext<'_>,
        scratch: &mut Scratch,
    ) -> Result<Decision, Rejection> {
        let PickContext { snapshot, now, dice, .. } = cx;
        let limits = Limits { leave_out_filters: settings.opens(snapshot), late: &|| false, dice };
        let pass = profile.guard(cx, limits, scratch);
        let Pass { faults, .. } = pass.map_err(|refusal| self.refused(refusal))?;
        let Scratch { candidates, total, chosen, .. } = scratch;
        total.clear();
        total.resize(candidates.len(), 0.0);
        queues(cx, candidates, total);
        let in_flight = candidates.iter().map(|&slot| snapshot.in_flight(slot) as f32);
        total.iter_mut().zip(in_flight).for_each(|(load, in_flight)| *load += in_flight);
        chosen.clear();
        chosen.extend(least_of(total.iter().copied(), dice));
        let informed = candidates.iter().any(|&slot| snapshot.fresh(slot, now));
        let rung = if informed { Rung::Policy } else { Rung::LoadOnly };
        self.count(rung, &faults);
        let decision = decision(snapshot, scratch, 0, rung).ok_or(Rejection::NoEndpoints)?;
        Ok(Decision { faults, ..decision })
    }

    fn refused(&self, refusal: Refusal) -> Rejection {
        match refusal {
            Refusal::NoneLeft(Empty::Capability) => Rejection::NoEndpoints,
            Refusal::NoneLeft(Empty::Load) => Rejection::Saturated,
            Refusal::FilterFailed(fault) => {
                self.metrics.degraded("refused", fault.cause());
                Rejection::Internal(fault)
            }
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

impl Rung {
    /// A word for logs and metric labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::LoadOnly => "load_only",
        }
    }

    /// 0 for the best, exact knowledge of caches; more for less knowledge.
    fn depth(self) -> i64 {
        match self {
            Self::Policy => 1,
            Self::LoadOnly => 2,
        }
    }
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

fn decision(
    snapshot: &Snapshot,
    scratch: &Scratch,
    prompt_tokens: u64,
    rung: Rung,
) -> Option<Decision> {
    let endpoints: SmallVec<[_; 1]> =
        scratch.chosen().filter_map(|slot| snapshot.endpoint(slot).cloned()).collect();
    let in_flight = InFlight::begin(&endpoints.first()?.live, prompt_tokens);
    let (prediction, faults, scores) = (Prediction::default(), SmallVec::new(), Vec::new());
    Some(Decision { endpoints, in_flight, prediction, rung, faults, relay: None, scores })
}

/// The charge with all that the request is going to take on the endpoint of `slot`.
fn charged(in_flight: InFlight, cx: PickContext<'_>, slot: Slot) -> InFlight {
    let PickContext { request, snapshot, now, .. } = cx;
    let adapter = cx.model.filter(|model| snapshot.adapts(model));
    let resident = |adapter| snapshot.standing(slot, adapter, now) == Some(Standing::Resident);
    let usual = || request.output_cap.map_or(EXPECTED_OUTPUT, |cap| cap.min(EXPECTED_OUTPUT));
    let expected = cx.signals.output_tokens.unwrap_or_else(usual);
    let prompt = Prompt {
        tokens: Prompt::uncached(cx.prompt_tokens(), cx.signals.prefix.tokens(slot)),
        at: now,
        streams: request.stream,
        loads: adapter.is_some_and(|adapter| !resident(adapter)),
    };
    let in_flight = in_flight.decoding(expected).computing(prompt);
    match adapter {
        Some(adapter) => in_flight.adapting(adapter, now),
        None => in_flight,
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

fn scores(snapshot: &Snapshot, scratch: &Scratch) -> Vec<(Arc<Endpoint>, f32)> {
    let scored = scratch.candidates.iter().zip(&scratch.total);
    scored
        .filter_map(|(&slot, &total)| Some((Arc::clone(snapshot.endpoint(slot)?), total)))
        .collect()
}

#[cfg(test)]
mod tests;
