//! One pass over the candidates: filters, weighted columns of scores, picker.
//!
//! Scores are clamped to 0.0 ..= 1.0 (NaN is 0.0), multiplied by their weight and summed. Every plugin call is
//! contained: one that panics is a [`Fault`] and is left out. Once the pass is late the remaining scorers are skipped
//! and the least loaded candidate is taken; filters always run, since they guard a boundary. Between filters and scorers those
//! are left out that warm up and have as many prompts as they can show for.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::pool::{Endpoint, Slot, Snapshot};
use crate::schedule::registry::Empty;
use crate::schedule::timing::timed;
use crate::schedule::{Filter, LeftOut, PickContext, Picker, Point, Scorer, Timing, Trace, least};

/// Filters, scorers and a picker under the names of the configuration.
#[derive(Debug)]
pub struct Profile {
    /// In the order in which they run.
    pub filters: Vec<FilterStep>,
    /// Each with its weight.
    pub scorers: Vec<ScorerStep>,
    /// Chooses by the sums.
    pub picker: PickerStep,
}

/// A filter of a profile.
#[derive(Debug)]
pub struct FilterStep {
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// Its type.
    pub type_name: &'static str,
    /// What it means when it leaves nothing.
    pub empty: Empty,
    /// The filter; the same where several profiles name it.
    pub filter: Arc<dyn Filter>,
}

/// A scorer of a profile.
#[derive(Debug)]
pub struct ScorerStep {
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// Its type.
    pub type_name: &'static str,
    /// What its scores are multiplied by; 1.0 unless configured.
    pub weight: f32,
    /// The scorer; the same where several profiles name it.
    pub scorer: Arc<dyn Scorer>,
}

/// The picker of a profile.
#[derive(Debug)]
pub struct PickerStep {
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// Its type.
    pub type_name: &'static str,
    /// The picker.
    pub picker: Box<dyn Picker>,
}

/// How a pass is bounded.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    /// Whether a filter that fails is left out (fail-open) or refuses the request (fail-close).
    pub leave_out_filters: bool,
    /// Whether the decision's deadline has passed; asked before each scorer.
    pub late: &'a dyn Fn() -> bool,
    /// Random, for ties.
    pub dice: u64,
}

/// Buffers of a pass, kept warm so that a pick allocates nothing.
#[derive(Debug, Default)]
pub struct Scratch {
    /// In: the endpoints to choose from. Out: those that the filters left.
    pub candidates: Vec<Slot>,
    /// The weighted sum for each candidate.
    pub total: Vec<f32>,
    /// Positions of the chosen candidates, best first.
    pub chosen: Vec<usize>,
    /// What is noted on the way; none while nobody asks.
    pub trace: Option<Box<Trace>>,
    /// How long plugins take; none while nobody asks.
    pub timing: Option<Box<Timing>>,
    column: Vec<f32>,
    before: Vec<Slot>,
}

impl Scratch {
    /// The chosen endpoints, best first.
    pub fn chosen(&self) -> impl Iterator<Item = Slot> {
        self.chosen.iter().filter_map(|&at| self.candidates.get(at).copied())
    }

    /// Lets a step before the filters remove candidates.
    pub(crate) fn narrow(&mut self, why: LeftOut, step: impl FnOnce(&mut Vec<Slot>)) {
        let Self { candidates, before, trace, .. } = self;
        if trace.is_some() {
            before.clone_from(candidates);
        }
        step(candidates);
        if let Some(trace) = trace {
            trace.left_out(before, candidates, why);
        }
    }

    /// Notes the choice that stands.
    pub(crate) fn note_choice(&mut self, by_policy: bool) {
        if let Some(trace) = &mut self.trace {
            trace.chose(&self.candidates, &self.chosen, by_policy);
        }
    }
}

/// What happened in a pass that chose.
#[derive(Debug, Default)]
pub struct Pass {
    /// Plugins that were left out, and why.
    pub faults: SmallVec<[Fault; 1]>,
    /// The picker's choice stands; false when the least loaded candidate was taken instead.
    pub by_policy: bool,
}

/// Why a plugin was left out of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The named plugin panicked.
    Panicked(Arc<str>),
    /// The deadline passed before the named scorer.
    Late(Arc<str>),
    /// The named picker chose nothing although there were candidates.
    ChoseNothing(Arc<str>),
}

/// Why a pass chose nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The filters left no candidate.
    NoneLeft(Empty),
    /// A filter failed and is not to be left out.
    FilterFailed(Fault),
}

impl Profile {
    /// The names of its plugins, in the order in which they run.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let filters = self.filters.iter().map(|step| &*step.name);
        let scorers = self.scorers.iter().map(|step| &*step.name);
        filters.chain(scorers).chain([&*self.picker.name])
    }

    /// The headers that its plugins read.
    pub fn headers(&self) -> impl Iterator<Item = &str> {
        let filters = self.filters.iter().flat_map(|step| step.filter.headers());
        filters.chain(self.scorers.iter().flat_map(|step| step.scorer.headers()))
    }

    /// Chooses among `scratch.candidates`.
    ///
    /// # Errors
    /// When no candidate is left, or when a filter failed under fail-close.
    pub fn pick(
        &self,
        cx: PickContext<'_>,
        limits: Limits<'_>,
        scratch: &mut Scratch,
    ) -> Result<Pass, Refusal> {
        let mut pass = self.filter(cx, limits, scratch, |_| true)?;
        self.score(cx, limits, scratch, &mut pass);
        scratch.chosen.clear();
        if pass.by_policy && !self.choose(limits, scratch, &mut pass) {
            pass.by_policy = false;
        }
        if !pass.by_policy {
            scratch.chosen.clear();
            let load = |slot| cx.snapshot.in_flight(slot);
            scratch.chosen.extend(least(&scratch.candidates, limits.dice, load));
        }
        scratch.note_choice(pass.by_policy);
        Ok(pass)
    }

    /// Narrows `scratch.candidates` by the filters that guard a capability: they hold for a request that needs no more of
    /// the policy.
    ///
    /// # Errors
    /// When no candidate is left, or when a filter failed under fail-close.
    pub fn guard(
        &self,
        cx: PickContext<'_>,
        limits: Limits<'_>,
        scratch: &mut Scratch,
    ) -> Result<Pass, Refusal> {
        self.filter(cx, limits, scratch, |step| step.empty == Empty::Capability)
    }

    /// Tells the plugins where the request goes, and which candidates the filters had left; one that panics is none the
    /// wiser.
    pub fn placed(&self, cx: PickContext<'_>, candidates: &[Slot], endpoint: &Endpoint) {
        for step in &self.filters {
            contained(|| step.filter.placed(cx, candidates, endpoint));
        }
        for step in &self.scorers {
            contained(|| step.scorer.placed(cx, candidates, endpoint));
        }
    }

    /// The headers, names and values, that its plugins want on an answer of this endpoint.
    pub fn answer_headers(&self, endpoint: &Endpoint) -> impl Iterator<Item = (&str, Bytes)> {
        let filters = self.filters.iter().filter_map(|step| step.filter.answer_header(endpoint));
        filters.chain(self.scorers.iter().filter_map(|step| step.scorer.answer_header(endpoint)))
    }

    fn filter(
        &self,
        cx: PickContext<'_>,
        limits: Limits<'_>,
        scratch: &mut Scratch,
        runs: impl Fn(&FilterStep) -> bool,
    ) -> Result<Pass, Refusal> {
        let mut pass = Pass { by_policy: true, ..Pass::default() };
        if let Some(trace) = &mut scratch.trace {
            trace.began(&scratch.candidates, limits.dice);
        }
        for step in self.filters.iter().filter(|step| runs(step)) {
            scratch.before.clone_from(&scratch.candidates);
            let Scratch { candidates, timing, .. } = &mut *scratch;
            let called = (Point::Filter, step.type_name, &step.name);
            let done = timed(timing, called, || contained(|| step.filter.filter(cx, candidates)));
            if !done {
                scratch.candidates.clone_from(&scratch.before);
            }
            if let Some(trace) = &mut scratch.trace {
                trace.filtered(cx, step, (&scratch.before, &scratch.candidates), !done);
            }
            let fault = (!done).then(|| Fault::Panicked(Arc::clone(&step.name)));
            match fault {
                Some(fault) if !limits.leave_out_filters => {
                    return Err(Refusal::FilterFailed(fault));
                }
                fault => pass.faults.extend(fault),
            }
            if scratch.candidates.is_empty() {
                return Err(Refusal::NoneLeft(step.empty));
            }
        }
        if scratch.candidates.is_empty() {
            return Err(Refusal::NoneLeft(Empty::Capability));
        }
        if cx.snapshot.ramps() {
            scratch.narrow(LeftOut::Warming, |candidates| ramp(cx.snapshot, candidates));
        }
        Ok(pass)
    }

    fn score(
        &self,
        cx: PickContext<'_>,
        limits: Limits<'_>,
        scratch: &mut Scratch,
        pass: &mut Pass,
    ) {
        let Scratch { candidates, total, column, trace, timing, .. } = scratch;
        total.clear();
        total.resize(candidates.len(), 0.0);
        for step in &self.scorers {
            if (limits.late)() {
                pass.faults.push(Fault::Late(Arc::clone(&step.name)));
                pass.by_policy = false;
                return;
            }
            column.clear();
            column.resize(candidates.len(), 0.0);
            let called = (Point::Scorer, step.type_name, &step.name);
            let score = || contained(|| step.scorer.score(cx, candidates, column));
            let done = timed(timing, called, score);
            if let Some(trace) = trace {
                trace.scored(cx, step, candidates, done.then_some(column));
            }
            if !done {
                pass.faults.push(Fault::Panicked(Arc::clone(&step.name)));
                continue;
            }
            total
                .iter_mut()
                .zip(&*column)
                .for_each(|(sum, score)| *sum += step.weight * sound(*score));
        }
        if let Some(trace) = trace {
            trace.summed(&self.picker, total);
        }
        if (limits.late)() {
            pass.faults.push(Fault::Late(Arc::clone(&self.picker.name)));
            pass.by_policy = false;
        }
    }

    /// Lets the picker choose; false when it failed to.
    fn choose(&self, limits: Limits<'_>, scratch: &mut Scratch, pass: &mut Pass) -> bool {
        let Scratch { candidates, total, chosen, timing, .. } = scratch;
        let called = (Point::Picker, self.picker.type_name, &self.picker.name);
        let pick = || contained(|| self.picker.picker.pick(total, limits.dice, chosen));
        if !timed(timing, called, pick) {
            pass.faults.push(Fault::Panicked(Arc::clone(&self.picker.name)));
            return false;
        }
        chosen.retain(|&at| at < candidates.len());
        if chosen.is_empty() {
            pass.faults.push(Fault::ChoseNothing(Arc::clone(&self.picker.name)));
        }
        !chosen.is_empty()
    }
}

impl std::fmt::Debug for Limits<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Limits")
            .field("leave_out_filters", &self.leave_out_filters)
            .finish_non_exhaustive()
    }
}

impl Fault {
    /// The plugin at fault.
    pub fn plugin(&self) -> &str {
        match self {
            Self::Panicked(name) | Self::Late(name) | Self::ChoseNothing(name) => name,
        }
    }

    /// A word for logs and metric labels.
    pub fn cause(&self) -> &'static str {
        match self {
            Self::Panicked(_) => "panic",
            Self::Late(_) => "deadline",
            Self::ChoseNothing(_) => "no_choice",
        }
    }
}

/// Leaves out endpoints without a history that have as much as they can show for, where others are left.
fn ramp(snapshot: &Snapshot, candidates: &mut Vec<Slot>) {
    let room = |slot: &Slot| snapshot.has_room(*slot);
    if candidates.iter().any(room) {
        candidates.retain(room);
    }
}

/// A score as it counts.
pub(crate) fn sound(score: f32) -> f32 {
    if score.is_nan() { 0.0 } else { score.clamp(0.0, 1.0) }
}

/// Runs `plugin`; false when it panicked. The buffers that it wrote to are overwritten or restored by the caller.
pub(crate) fn contained(plugin: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(plugin)).is_ok()
}

#[cfg(test)]
mod tests;
