//! Why a decision is as it is, for people and programs.
//!
//! An [`Explanation`] is a record in words: the pool as the decision saw it, whom each step removed and why, what each
//! scorer said, and how ties were broken. It is made when it is read, of a decision in the log as of one without an
//! effect ([`Director::explain`]). Names of endpoints, models and plugins are in it, numbers, and lengths of headers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};

use crate::director::record::{Chosen, Input, Record};
use crate::director::{Ask, Director, Rules, View};
use crate::metrics::Metrics;
use crate::pool::{Phase, Reason, Slot};
use crate::schedule::profile::sound;
use crate::schedule::trace::{FilterTrace, PassTrace, ScorerTrace};
use crate::schedule::{Depth, Fault, Scratch, Signals, Trace};

/// A decision explained.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Explanation {
    /// The decision's id, 16 hexadecimal digits; absent when it had no effect.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub decision: Option<String>,
    /// The request's id; absent when the decision had no effect.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request_id: Option<String>,
    /// How long ago it was made.
    pub seconds_ago: f64,
    /// How long it took.
    pub took_us: f64,
    /// Which snapshot of the pool it read.
    pub generation: u64,
    /// What mattered of the request.
    pub request: Request,
    /// What came out.
    pub outcome: Outcome,
    /// Everyone in the pool, with what was known of them.
    pub endpoints: Vec<EndpointTold>,
    /// How full they were; absent when nobody asked, as for a request of priority 0 or more.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub saturation: Option<Saturation>,
    /// The name of the profile; absent when the decision ended before, or when it has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub profile: Option<String>,
    /// The passes that ran, in their order.
    pub passes: Vec<PassTold>,
}

/// What mattered of a request.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Request {
    /// The model that the server is asked for; at most 256 bytes of its name.
    pub model: Option<String>,
    /// Below 0 it may be shed.
    pub priority: i32,
    /// It has no body: the least loaded was taken.
    pub bodyless: bool,
    /// Estimated length of its prompt.
    pub prompt_tokens: u64,
    /// Headers that plugins read, with the length of their values in bytes.
    pub headers: BTreeMap<String, usize>,
}

/// What came out of a decision.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Outcome {
    /// The names of the chosen, best first; empty when the request was refused.
    pub endpoints: Vec<String>,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub refused: Option<String>,
    /// How much knowledge the choice rests on: `policy` or `load_only`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rung: Option<String>,
    /// Plugins that were left out.
    pub faults: Vec<FaultTold>,
}

/// A plugin that was left out.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct FaultTold {
    /// Its name in the configuration.
    pub plugin: String,
    /// `panic`, `deadline` or `no_choice`.
    pub cause: String,
}

/// An endpoint as the decision saw it, before its own charge.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct EndpointTold {
    /// Its name in the pool.
    pub name: String,
    /// Where requests go.
    pub address: SocketAddr,
    /// Where it stood.
    #[serde(default)]
    pub state: Phase,
    /// Why.
    #[serde(default)]
    pub state_reason: Reason,
    /// `fresh`, `stale` (too old to be used) or `unknown` (never read).
    pub metrics: String,
    /// The age of its metrics page; absent before the first.
    pub age_ms: Option<f32>,
    /// Requests in its queue; absent when stale or unknown, as the two after it.
    pub waiting: Option<f32>,
    /// Requests that it computes.
    pub running: Option<f32>,
    /// Used share of its KV cache.
    pub kv_usage: Option<f32>,
    /// What this process had in flight there.
    pub in_flight: InFlightTold,
    /// Tokens of the prompt that it is taken to have in its cache.
    pub prefix_hit_tokens: u32,
    /// Why it never came to the filters, or not from them to the scorers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub left_out: Option<Removal>,
}

/// What this process has in flight on an endpoint.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct InFlightTold {
    /// Requests.
    pub requests: u32,
    /// Their prompts that are not computed yet.
    pub prompt_tokens: u32,
    /// What they are expected to generate yet.
    pub output_tokens: u32,
}

/// Why an endpoint is out.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Removal {
    /// `draining`, `subset`, `not_answering`, `model` or `warming`.
    pub by: String,
    /// The same in words.
    pub reason: String,
}

/// How full the candidates were.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Saturation {
    /// Who says so.
    pub detector: String,
    /// 1.0 when nobody has room.
    pub value: f32,
}

/// One pass of a profile.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PassTold {
    /// How many it began with.
    pub began_with: usize,
    /// The filters in their order.
    pub filters: Vec<FilterTold>,
    /// The scorers in their order.
    pub scorers: Vec<ScorerTold>,
    /// Whom the filters left, the highest sum first.
    pub candidates: Vec<CandidateTold>,
    /// The picker; absent when it was not asked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub picker: Option<String>,
    /// `policy`, or `least_loaded` where the picker's choice does not stand.
    pub chosen_by: String,
    /// How many have the same sum as the best of the chosen.
    pub equals: usize,
    /// What equals were drawn by, hexadecimal.
    pub dice: String,
}

/// What a filter did.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct FilterTold {
    /// Its name in the configuration.
    pub name: String,
    /// It panicked.
    pub failed: bool,
    /// Whom it removed, with its words if it has any. Of a decision in the log the first has them alone.
    pub removed: Vec<RemovedTold>,
}

/// An endpoint that a filter removed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RemovedTold {
    /// Its name.
    pub endpoint: String,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// A scorer of a pass.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ScorerTold {
    /// Its name in the configuration.
    pub name: String,
    /// What its scores are multiplied by.
    pub weight: f32,
    /// It panicked and counts for nothing.
    pub failed: bool,
}

/// A candidate of a pass.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct CandidateTold {
    /// Its name.
    pub endpoint: String,
    /// Its place among the chosen, from 0; absent when it was not chosen.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub chosen: Option<usize>,
    /// What each scorer said, in the order of the scorers.
    pub scores: Vec<ScoreTold>,
    /// The sum that the picker saw; absent when it was not asked.
    pub sum: Option<f32>,
}

/// A score.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ScoreTold {
    /// As the scorer wrote it; absent when it is no number.
    pub raw: Option<f32>,
    /// What it adds to the sum: within 0.0 ..= 1.0, times the weight.
    pub weighted: f32,
    /// What it is made of.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub parts: BTreeMap<String, Option<f32>>,
}

impl Director {
    /// A director over the same pool, policy and knowledge of prompts as this one has now; what is counted of its requests
    /// goes to `metrics`, and it keeps no log.
    #[must_use]
    pub fn aside(&self, metrics: Arc<Metrics>) -> Self {
        let rules = self.rules.load();
        let affinity = rules.affinity.as_ref().map(|affinity| Arc::new(affinity.aside(&metrics)));
        let rules = ArcSwap::from_pointee(Rules { affinity, ..Rules::clone(&rules) });
        let (pool, calibration) = (Arc::clone(&self.pool), Arc::clone(&self.calibration));
        Self { pool, rules, metrics, calibration, log: None }
    }

    /// Chooses endpoints and says why, without an effect: nothing is charged, counted or remembered.
    pub fn explain(&self, ask: Ask<'_>, dice: u64) -> Explanation {
        let (snapshot, rules) = (self.pool.load(), self.rules.load());
        let clock = &rules.settings.clock;
        let view = View { snapshot: &snapshot, rules: &rules, began: clock.now(), dice };
        let mut buffers = (Scratch::default(), Signals::default());
        buffers.0.trace = Some(Box::new(Trace::new(Depth::Words)));
        let choice = self.choose(ask, view, &mut buffers);
        let (scratch, signals) = buffers;
        let trace = scratch.trace.unwrap_or_default();
        let notes = (&signals, trace, Vec::new());
        let record = Record::of(None, (ask, view), notes, &choice, view.age());
        record.told(clock.now())
    }
}

impl Record {
    /// The decision in words, as of `now`.
    pub(super) fn told(&self, now: Instant) -> Explanation {
        let trace = &self.trace;
        let saturation = trace.saturation.as_ref();
        Explanation {
            decision: self.id.map(|id| format!("{id:016x}")),
            request_id: self.request_id.as_deref().map(str::to_owned),
            seconds_ago: now.saturating_duration_since(self.began).as_secs_f64(),
            took_us: self.took.as_secs_f64() * 1e6,
            generation: self.generation,
            request: Request {
                model: self.request.model.as_deref().map(str::to_owned),
                priority: self.request.priority,
                bodyless: self.request.bodyless,
                prompt_tokens: self.request.prompt_tokens,
                headers: self
                    .request
                    .headers
                    .iter()
                    .map(|(n, len)| (n.to_string(), *len))
                    .collect(),
            },
            outcome: self.outcome(),
            endpoints: self.inputs.iter().filter_map(|input| self.endpoint(input)).collect(),
            saturation: saturation
                .map(|(name, value)| Saturation { detector: name.to_string(), value: *value }),
            profile: trace.profile.as_deref().filter(|name| !name.is_empty()).map(str::to_owned),
            passes: trace.passes.iter().map(|pass| self.pass(pass)).collect(),
        }
    }

    pub(super) fn outcome(&self) -> Outcome {
        let chosen = |pass: &PassTrace| {
            let slots = pass.chosen.iter().filter_map(|&at| pass.candidates.get(at).copied());
            slots.map(|slot| self.name(slot)).collect()
        };
        let fault = |fault: &Fault| FaultTold {
            plugin: fault.plugin().to_owned(),
            cause: fault.cause().to_owned(),
        };
        match &self.outcome {
            Ok(Chosen { rung, faults }) => Outcome {
                endpoints: self.trace.passes.last().map(chosen).unwrap_or_default(),
                refused: None,
                rung: Some(rung.name().to_owned()),
                faults: faults.iter().map(fault).collect(),
            },
            Err(rejection) => Outcome {
                endpoints: Vec::new(),
                refused: Some(rejection.reason().to_owned()),
                rung: None,
                faults: rejection.fault().map(fault).into_iter().collect(),
            },
        }
    }

    fn endpoint(&self, input: &Input) -> Option<EndpointTold> {
        let endpoint = self.roster.endpoint(input.slot)?;
        let left_out = self.trace.left_out.iter().find(|(slot, _)| *slot == input.slot);
        let metrics = match (input.fresh, input.age_ms.is_nan()) {
            (true, _) => "fresh",
            (false, false) => "stale",
            (false, true) => "unknown",
        };
        Some(EndpointTold {
            name: endpoint.spec.name.clone(),
            address: endpoint.spec.address,
            state: input.life.map(|life| life.phase).unwrap_or_default(),
            state_reason: input.life.map(|life| life.reason).unwrap_or_default(),
            metrics: metrics.to_owned(),
            age_ms: known(input.age_ms),
            waiting: known(input.waiting),
            running: known(input.running),
            kv_usage: known(input.kv_usage),
            in_flight: InFlightTold {
                requests: input.requests,
                prompt_tokens: input.prompt_tokens,
                output_tokens: input.output_tokens,
            },
            prefix_hit_tokens: input.hit_tokens,
            left_out: left_out.map(|(_, why)| Removal {
                by: why.name().to_owned(),
                reason: why.reason().to_owned(),
            }),
        })
    }

    fn pass(&self, pass: &PassTrace) -> PassTold {
        let filter = |filter: &FilterTrace| FilterTold {
            name: filter.name.to_string(),
            failed: filter.failed,
            removed: filter
                .removed
                .iter()
                .map(|(slot, reason)| RemovedTold {
                    endpoint: self.name(*slot),
                    reason: reason.as_deref().map(str::to_owned),
                })
                .collect(),
        };
        let scorer = |scorer: &ScorerTrace| ScorerTold {
            name: scorer.name.to_string(),
            weight: scorer.weight,
            failed: scorer.scores.is_empty(),
        };
        let candidate = |(at, &slot)| self.candidate(pass, at, slot);
        let mut candidates: Vec<_> = pass.candidates.iter().enumerate().map(candidate).collect();
        let sum = |candidate: &CandidateTold| candidate.sum.unwrap_or(f32::NEG_INFINITY);
        candidates.sort_by(|a, b| sum(b).total_cmp(&sum(a)));
        PassTold {
            began_with: pass.begin.len(),
            filters: pass.filters.iter().map(filter).collect(),
            scorers: pass.scorers.iter().map(scorer).collect(),
            candidates,
            picker: pass.picker.as_ref().map(ToString::to_string),
            chosen_by: if pass.by_policy { "policy" } else { "least_loaded" }.to_owned(),
            equals: pass.equals(),
            dice: format!("{:016x}", pass.dice),
        }
    }

    fn candidate(&self, pass: &PassTrace, at: usize, slot: Slot) -> CandidateTold {
        let score = |scorer: &ScorerTrace| {
            let raw = scorer.scores.get(at).copied();
            let part = |part: &crate::schedule::Part| {
                (part.name.to_owned(), part.values.get(at).copied().and_then(known))
            };
            ScoreTold {
                raw: raw.and_then(known),
                weighted: raw.map_or(0.0, |raw| scorer.weight * sound(raw)),
                parts: scorer.parts.iter().map(part).collect(),
            }
        };
        CandidateTold {
            endpoint: self.name(slot),
            chosen: pass.chosen.iter().position(|&chosen| chosen == at),
            scores: pass.scorers.iter().map(score).collect(),
            sum: pass.totals.get(at).copied(),
        }
    }

    /// Empty when there is no such endpoint, which cannot be.
    pub(super) fn name(&self, slot: Slot) -> String {
        self.roster.endpoint(slot).map(|endpoint| endpoint.spec.name.clone()).unwrap_or_default()
    }
}

/// A number as JSON can have it.
fn known(value: f32) -> Option<f32> {
    value.is_finite().then_some(value)
}
