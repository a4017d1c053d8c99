//! What a decision notes of itself when it is asked to.
//!
//! A [`Trace`] in the [`Scratch`](crate::schedule::Scratch) of a decision is filled as the decision goes on: whom each
//! step removed, each scorer's column, the sums that the picker saw. Without one nothing is noted and nothing allocated.
//! It holds numbers and the words of plugins, nothing of a request.

use std::sync::Arc;

use crate::pool::Slot;
use crate::schedule::PickContext;
use crate::schedule::profile::{FilterStep, PickerStep, ScorerStep, contained};

/// The notes of one decision. Bounded by candidates times plugins.
#[derive(Debug, Default)]
pub struct Trace {
    depth: Depth,
    /// Who was ready and never came to a filter, or was left out after the filters as one that warms up.
    pub left_out: Vec<(Slot, LeftOut)>,
    /// How full the candidates were, by the detector of this name; none when it was not asked.
    pub saturation: Option<(Arc<str>, f32)>,
    /// The name of the profile that runs; none when the decision ended before.
    pub profile: Option<Box<str>>,
    /// In the order in which they ran; none when the decision ended before.
    pub passes: Vec<PassTrace>,
}

/// How much is noted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// Numbers, and the words of each filter on the first that it removed: cheap enough for every decision.
    #[default]
    Numbers,
    /// All words and the parts of scores: for a decision that somebody asks about.
    Words,
}

/// Why an endpoint that is ready does not come to the filters, or not to the scorers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// The gateway's subset does not name it.
    Subset,
    /// It drains, and others do not.
    Draining,
    /// It seems not to answer, and others do.
    Silent,
    /// It is known not to serve the model, and another is known to.
    Model,
    /// It warms up and has as much as it can show for, and others are left by the filters.
    Warming,
}

/// The notes of one pass of a profile.
#[derive(Debug, Default)]
pub struct PassTrace {
    /// Whom it began with.
    pub begin: Vec<Slot>,
    /// The filters that ran.
    pub filters: Vec<FilterTrace>,
    /// Whom the filters left; as long as each scorer's column.
    pub candidates: Vec<Slot>,
    /// The scorers that were asked.
    pub scorers: Vec<ScorerTrace>,
    /// The weighted sums that the picker saw; empty when it was not asked.
    pub totals: Vec<f32>,
    /// The name of the picker.
    pub picker: Option<Arc<str>>,
    /// Positions in `candidates`, best first.
    pub chosen: Vec<usize>,
    /// Random, for ties.
    pub dice: u64,
    /// Whether the picker's choice stands; else the least loaded was taken.
    pub by_policy: bool,
}

/// What a filter did.
#[derive(Debug)]
pub struct FilterTrace {
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// Whom it removed, with its words if it has any and [`Depth`] wants them.
    pub removed: Vec<(Slot, Option<Box<str>>)>,
    /// It panicked.
    pub failed: bool,
}

/// What a scorer said.
#[derive(Debug)]
pub struct ScorerTrace {
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// What its scores are multiplied by.
    pub weight: f32,
    /// As it wrote them, before they are clamped; empty when it panicked.
    pub scores: Vec<f32>,
    /// What the scores are made of.
    pub parts: Vec<Part>,
}

/// One of the numbers that a scorer's scores are made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// What it is, its unit last: `prefill_ms`.
    pub name: &'static str,
    /// One for each candidate; what is not known is NaN.
    pub values: Vec<f32>,
}

impl Trace {
    /// No notes yet.
    pub fn new(depth: Depth) -> Self {
        Self { depth, ..Self::default() }
    }

    /// A step before the filters removed whoever is in `before` and not in `after`.
    pub(crate) fn left_out(&mut self, before: &[Slot], after: &[Slot], why: LeftOut) {
        self.left_out.extend(removed(before, after).map(|slot| (slot, why)));
    }

    pub(in crate::schedule) fn began(&mut self, candidates: &[Slot], dice: u64) {
        let begin = candidates.to_vec();
        self.passes.push(PassTrace { begin, dice, by_policy: true, ..PassTrace::default() });
    }

    pub(in crate::schedule) fn filtered(
        &mut self,
        cx: PickContext<'_>,
        step: &FilterStep,
        (before, after): (&[Slot], &[Slot]),
        failed: bool,
    ) {
        let wanted = if self.depth == Depth::Words { usize::MAX } else { 1 };
        let Some(pass) = self.passes.last_mut() else { return };
        let words = |(at, slot): (usize, Slot)| {
            let mut reason = None;
            let _silent = at < wanted && contained(|| reason = step.filter.reason(cx, slot));
            (slot, reason.map(String::into_boxed_str))
        };
        let removed = removed(before, after).enumerate().map(words).collect();
        pass.filters.push(FilterTrace { name: Arc::clone(&step.name), removed, failed });
    }

    /// None is what a scorer wrote that panicked.
    pub(in crate::schedule) fn scored(
        &mut self,
        cx: PickContext<'_>,
        step: &ScorerStep,
        candidates: &[Slot],
        scores: Option<&[f32]>,
    ) {
        let wanted = self.depth == Depth::Words && scores.is_some();
        let Some(pass) = self.passes.last_mut() else { return };
        let mut parts = Vec::new();
        let _silent = wanted && contained(|| parts = step.scorer.parts(cx, candidates));
        parts.retain(|part| part.values.len() == candidates.len());
        let scores = scores.unwrap_or_default().to_vec();
        let (name, weight) = (Arc::clone(&step.name), step.weight);
        pass.scorers.push(ScorerTrace { name, weight, scores, parts });
    }

    pub(in crate::schedule) fn summed(&mut self, picker: &PickerStep, totals: &[f32]) {
        let Some(pass) = self.passes.last_mut() else { return };
        pass.totals = totals.to_vec();
        pass.picker = Some(Arc::clone(&picker.name));
    }

    /// The last pass chose these of its candidates.
    pub(crate) fn chose(&mut self, candidates: &[Slot], chosen: &[usize], by_policy: bool) {
        let Some(pass) = self.passes.last_mut() else { return };
        (pass.candidates, pass.chosen) = (candidates.to_vec(), chosen.to_vec());
        pass.by_policy = by_policy;
    }
}

impl PassTrace {
    /// How many candidates have the same sum as the best of the chosen, itself included; 0 when nothing was summed.
    pub fn equals(&self) -> usize {
        let best = self.chosen.first().and_then(|&at| self.totals.get(at));
        let same = |total: &&f32| best.is_some_and(|best| total.to_bits() == best.to_bits());
        self.totals.iter().filter(same).count()
    }
}

impl LeftOut {
    /// Why, for a person.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Subset => "the gateway's subset does not name it",
            Self::Draining => "it drains, and others do not",
            Self::Silent => "it seems not to answer, and others do",
            Self::Model => "it does not serve the model, and another does",
            Self::Warming => "it warms up and has as many prompts as it can show for",
        }
    }

    /// A word for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Subset => "subset",
            Self::Draining => "draining",
            Self::Silent => "not_answering",
            Self::Model => "model",
            Self::Warming => "warming",
        }
    }
}

/// Who is in `before` and not in `after`, both in the same order.
fn removed<'a>(before: &'a [Slot], after: &'a [Slot]) -> impl Iterator<Item = Slot> + 'a {
    let mut kept = after.iter().peekable();
    before.iter().copied().filter(move |slot| kept.next_if(|kept| *kept == slot).is_none())
}
