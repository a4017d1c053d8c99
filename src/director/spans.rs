//! A decision as spans, under the names of the reference.

use std::sync::Arc;
use std::time::Instant;

use crate::director::record::Record;
use crate::schedule::profile::sound;
use crate::schedule::trace::{PassTrace, ScorerTrace};
use crate::schedule::{Call, Point};
use crate::spans::{Ids, Kind, Span, Value};

/// Candidates whose sums are told, the best ones.
const TOP: usize = 5;

/// What was noted of a decision, of which spans can be made.
#[derive(Clone, Debug)]
pub struct Notes(pub(super) Arc<Record>);

/// Where the spans of a decision go.
struct Spans<'a> {
    record: &'a Record,
    ids: &'a mut Ids,
    made: Vec<Span>,
}

impl Notes {
    /// About what they take of memory.
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// The spans of the decision below `parent`; the first is that of all of it.
    pub fn spans(&self, parent: u64, ids: &mut Ids) -> Vec<Span> {
        let (record, id) = (&*self.0, ids.draw());
        let mut spans = Spans { record, ids, made: vec![record.orchestration((id, parent))] };
        if let Some(pass) = record.trace.passes.last() {
            spans.profile(pass, id);
        }
        spans.made
    }
}

impl Record {
    fn orchestration(&self, ids: (u64, u64)) -> Span {
        let (outcome, asked) = (self.outcome(), &self.request);
        let candidates = self.trace.passes.last().map_or(0, |pass| pass.begin.len());
        let time = (self.began, self.began + self.took);
        let mut span = Span::new("gateway.request_orchestration", Kind::Server, ids, time)
            .with_known("target_model", asked.model.as_deref())
            .with("request_prio", asked.priority)
            .with_known("gen_ai.request.id", self.request_id.as_deref())
            .with_known("llm_d.epp.decision.endpoint", outcome.endpoints.into_iter().next())
            .with_known("llm_d.epp.decision.rung", outcome.rung)
            .with("llm_d.epp.decision.candidates", candidates);
        span.error = outcome.refused;
        span
    }
}

impl Spans<'_> {
    fn profile(&mut self, pass: &PassTrace, parent: u64) {
        let (record, calls) = (self.record, &self.record.calls);
        let Some(time) = around(calls.iter()) else { return };
        let profile = self.part("run_scheduler_profile", parent, time);
        let name = record.trace.profile.as_deref();
        let parent = profile.id;
        self.made.push(profile.with_known("llm_d.epp.scheduling.profile.name", name));
        self.filters(pass, parent);
        self.scorers(pass, parent);
        self.picker(pass, parent);
    }

    fn filters(&mut self, pass: &PassTrace, parent: u64) {
        let Some(time) = around(self.record.calls_of(Point::Filter)) else { return };
        let filters = self.part("filter_endpoints", parent, time);
        let filters = filters
            .with("llm_d.epp.filter.candidate_endpoints", pass.begin.len())
            .with("llm_d.epp.filter.filtered_endpoints", pass.candidates.len());
        self.made.push(filters);
    }

    fn scorers(&mut self, pass: &PassTrace, parent: u64) {
        let record = self.record;
        let Some(time) = around(record.calls_of(Point::Scorer)) else { return };
        let scoring = self.part("llm_d.epp.scoring", parent, time);
        let parent = scoring.id;
        let scoring = scoring
            .with("llm_d.epp.scorer.count", pass.scorers.len())
            .with("llm_d.epp.scoring.candidate_endpoints", pass.candidates.len());
        self.made.push(scoring);
        for (call, scorer) in record.calls_of(Point::Scorer).zip(&pass.scorers) {
            let name = format!("llm_d.epp.scorer.{}", call.type_name);
            let span = Span::new(name, Kind::Internal, (self.ids.draw(), parent), window(call));
            self.made.push(scored(span, call, scorer, pass.candidates.len()));
        }
    }

    fn picker(&mut self, pass: &PassTrace, parent: u64) {
        let record = self.record;
        let Some(time) = around(record.calls_of(Point::Picker)) else { return };
        let mut best: Vec<_> = pass.candidates.iter().zip(pass.totals.iter().copied()).collect();
        best.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        best.truncate(TOP);
        let picker = self
            .part("pick_endpoints", parent, time)
            .with("llm_d.epp.picker.candidate_endpoints", pass.candidates.len())
            .with(
                "llm_d.epp.picker.top_endpoints",
                best.iter().map(|(slot, _)| record.name(**slot)).collect::<Value>(),
            )
            .with(
                "llm_d.epp.picker.top_scores",
                best.iter().map(|(_, total)| *total).collect::<Value>(),
            );
        self.made.push(picker);
    }

    fn part(&mut self, name: &'static str, parent: u64, time: (Instant, Instant)) -> Span {
        Span::new(name, Kind::Internal, (self.ids.draw(), parent), time)
    }
}

fn scored(span: Span, call: &Call, scorer: &ScorerTrace, candidates: usize) -> Span {
    let each = || scorer.scores.iter().copied().map(sound);
    let mean = |sum: f32| sum / scorer.scores.len() as f32;
    let mut span = span
        .with("llm_d.epp.scorer.type", call.type_name)
        .with("llm_d.epp.scorer.name", &*scorer.name)
        .with("llm_d.epp.scorer.weight", scorer.weight)
        .with("llm_d.epp.scorer.candidate_endpoints", candidates)
        .with("llm_d.epp.scorer.endpoints_scored", scorer.scores.len())
        .with_known("llm_d.epp.scorer.score.max", each().reduce(f32::max))
        .with_known("llm_d.epp.scorer.score.avg", each().reduce(|a, b| a + b).map(mean));
    if scorer.scores.is_empty() {
        span.error = Some("panic".to_owned());
    }
    span
}

fn window(call: &Call) -> (Instant, Instant) {
    (call.began, call.began + call.took)
}

/// From the begin of the first to the end of the last; none where there are none.
fn around<'a>(mut calls: impl Iterator<Item = &'a Call>) -> Option<(Instant, Instant)> {
    let (began, ended) = window(calls.next()?);
    Some((began, calls.last().map_or(ended, |last| window(last).1)))
}
