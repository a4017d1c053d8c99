//! A decision in a line, with its reason in words.

use std::fmt::Write;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::director::record::{Chosen, Input, Record};
use crate::schedule::Fault;
use crate::schedule::profile::sound;
use crate::schedule::trace::PassTrace;

/// A decision in short; [`Explanation`](super::Explanation) has the rest.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Brief {
    /// Its id, 16 hexadecimal digits.
    pub id: String,
    /// The request's id.
    pub request_id: String,
    /// How long ago it was made.
    pub seconds_ago: f64,
    /// How long it took.
    pub took_us: f64,
    /// The model that the server is asked for; at most 256 bytes of its name.
    pub model: Option<String>,
    /// Estimated length of its prompt.
    pub prompt_tokens: u64,
    /// Tokens of it that the chosen endpoint is taken to have in its cache.
    pub cached_tokens: u32,
    /// The name of the chosen endpoint; absent when the request was refused.
    pub endpoint: Option<String>,
    /// Why this endpoint, or why none.
    pub why: String,
}

impl Record {
    /// The decision in a line, as of `now`.
    pub(super) fn brief(&self, now: Instant) -> Brief {
        let pass = self.trace.passes.last();
        let chosen = pass.and_then(|pass| {
            let at = *pass.chosen.first()?;
            let slot = *pass.candidates.get(at)?;
            Some((pass, at, self.inputs.iter().find(|input| input.slot == slot)?))
        });
        let (endpoint, cached_tokens, mut why) = match (&self.outcome, chosen) {
            (Ok(_), Some((pass, at, input))) => {
                let endpoint = self.roster.endpoint(input.slot);
                let name = endpoint.map(|endpoint| endpoint.spec.name.clone());
                (name, input.hit_tokens, because(pass, at, input))
            }
            (Ok(_), None) => (None, 0, String::new()),
            (Err(rejection), _) => (None, 0, rejection.reason().to_owned()),
        };
        for fault in self.faults() {
            add(&mut why, format_args!("without {}: {}", fault.plugin(), fault.cause()));
        }
        Brief {
            id: self.id.map(|id| format!("{id:016x}")).unwrap_or_default(),
            request_id: self.request_id.as_deref().unwrap_or_default().to_owned(),
            seconds_ago: now.saturating_duration_since(self.began).as_secs_f64(),
            took_us: self.took.as_secs_f64() * 1e6,
            model: self.request.model.as_deref().map(str::to_owned),
            prompt_tokens: self.request.prompt_tokens,
            cached_tokens,
            endpoint,
            why,
        }
    }

    fn faults(&self) -> impl Iterator<Item = &Fault> {
        let left_out = self.outcome.as_ref().ok().into_iter();
        let fatal = self.outcome.as_ref().err().and_then(|rejection| rejection.fault());
        left_out.flat_map(|Chosen { faults, .. }| faults).chain(fatal)
    }
}

/// How the candidate at `at` came to be chosen, and what was known of it.
fn because(pass: &PassTrace, at: usize, input: &Input) -> String {
    let mut why = rank(pass, at);
    if input.hit_tokens > 0 {
        add(&mut why, format_args!("{} tokens cached", input.hit_tokens));
    }
    if input.waiting > 0.0 {
        add(&mut why, format_args!("{:.0} waiting", input.waiting));
    }
    if input.requests > 0 {
        add(&mut why, format_args!("{} of ours", input.requests));
    }
    if !input.fresh {
        add(&mut why, format_args!("its metrics are not fresh"));
    }
    why
}

/// What set the candidate apart from the others.
fn rank(pass: &PassTrace, at: usize) -> String {
    let (count, equals) = (pass.candidates.len(), pass.equals());
    if count == 1 {
        return match pass.begin.len() {
            0 | 1 => "the only one".to_owned(),
            began => format!("the only one left of {began}"),
        };
    }
    if !pass.by_policy {
        return format!("least loaded of {count}");
    }
    if equals > 1 {
        return format!("drawn among {equals} equal, of {count}");
    }
    let total = |at: usize| pass.totals.get(at).copied().unwrap_or_default();
    let others = (0..count).filter(|other| *other != at);
    let next = others.max_by(|a, b| total(*a).total_cmp(&total(*b)));
    let Some(next) = next.filter(|next| total(*next) < total(at)) else {
        let picker = pass.picker.as_deref().unwrap_or("chance");
        return format!("drawn by {picker}, of {count}");
    };
    let lead = format!("best of {count} by {:.2}", total(at) - total(next));
    match decisive(pass, at, next) {
        Some(scorer) if pass.scorers.len() > 1 => format!("{lead}, mostly by {scorer}"),
        Some(_) | None => lead,
    }
}

/// The scorer that sets one candidate apart from another the most.
fn decisive(pass: &PassTrace, at: usize, next: usize) -> Option<&str> {
    let gains = pass.scorers.iter().filter_map(|scorer| {
        let score = |at: usize| scorer.scores.get(at).copied().map(sound);
        Some((scorer, scorer.weight * (score(at)? - score(next)?)))
    });
    gains.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(scorer, _)| &*scorer.name)
}

/// Adds a clause; that a string takes everything is no news.
fn add(why: &mut String, clause: std::fmt::Arguments<'_>) {
    let separator = if why.is_empty() { "" } else { "; " };
    write!(why, "{separator}{clause}").ok();
}
