//! What is known of a pool, as it is written down and read again: what a decision can be explained by elsewhere.
//!
//! Times are ages. Not in it are what endpoints have in their caches, and which adapters we ourselves have asked for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::pool::{
    Adapters, Drain, EndpointSpec, Event, FailureMode, Models, Names, Outlook, Phase, Reason,
    Routes, Sample, Slot, Snapshot, State, Targets,
};

/// A scrape interval is so much of the time that its sample is fresh.
const INTERVALS: u32 = 4;

/// A pool at some time.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Dump {
    /// Counts the snapshots before it.
    pub generation: u64,
    /// Whether the source of endpoints has given its first list.
    pub synced: bool,
    /// What the pool says of faults.
    pub failure_mode: Option<FailureMode>,
    /// Everyone in the pool.
    endpoints: Vec<EndpointDump>,
    /// Priorities by the names of objectives.
    pub objectives: BTreeMap<String, i32>,
    /// Priorities by the models that clients name.
    pub priorities: BTreeMap<String, i32>,
    /// Rewrites by the models that clients name; that of all others under no name.
    rewrites: BTreeMap<String, RewriteDump>,
}

/// Models to ask for instead, with their weights.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(in crate::pool) struct RewriteDump {
    object: String,
    targets: Vec<(String, u32)>,
}

/// An endpoint at some time.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(in crate::pool) struct EndpointDump {
    /// As its source describes it.
    #[serde(flatten)]
    pub spec: EndpointSpec,
    /// Where it stands.
    #[serde(default)]
    pub state: Phase,
    /// Why.
    #[serde(default)]
    pub state_reason: Reason,
    /// Since when.
    #[serde(default)]
    pub state_seconds: f64,
    /// It seems not to answer.
    pub suspect: bool,
    /// Requests that this process has in flight there.
    pub in_flight_requests: u32,
    /// Tokens of their prompts that are not computed yet.
    pub in_flight_prompt_tokens: u64,
    /// Tokens that they are expected to generate yet.
    pub in_flight_output_tokens: u64,
    /// Requests in its queue; absent when unknown or stale, as the two after it.
    pub waiting: Option<f32>,
    /// Requests that it computes.
    pub running: Option<f32>,
    /// Used share of its KV cache.
    pub kv_usage: Option<f32>,
    /// Age of its metrics page; absent before the first.
    pub scrape_age_seconds: Option<f64>,
    /// What the page said, however old.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub page: Option<PageDump>,
    /// The models that it listed; absent when it did not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub models: Option<ModelsDump>,
    /// What is to be expected of it, by our own requests.
    pub outlook: Outlook,
}

/// What a metrics page said.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(in crate::pool) struct PageDump {
    fresh_for_seconds: f64,
    waiting: Option<f32>,
    running: Option<f32>,
    kv_usage: Option<f32>,
    block_size: Option<u32>,
    blocks: Option<u32>,
    adapters: Option<AdaptersDump>,
    models: Option<Vec<String>>,
    attributes: BTreeMap<String, f32>,
}

/// Adapters on a metrics page.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(in crate::pool) struct AdaptersDump {
    running: Vec<String>,
    waiting: Vec<String>,
    slots: Option<u32>,
}

/// Models that an endpoint listed.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(in crate::pool) struct ModelsDump {
    base: Vec<String>,
    adapters: Vec<String>,
}

impl Snapshot {
    /// What is known, as of `now`.
    pub fn dump(&self, now: Instant) -> Dump {
        let rewrite = |(name, targets): (&str, &Targets)| (name.to_owned(), targets.dump());
        let routes = self.routes();
        let exact = routes.exact.iter().map(|(name, targets)| (&**name, targets));
        let any = routes.any.iter().map(|targets| ("", targets));
        Dump {
            generation: self.generation,
            synced: self.synced,
            failure_mode: self.failure_mode,
            endpoints: self
                .endpoints()
                .filter_map(|endpoint| self.endpoint_dump(endpoint.id.slot, now))
                .collect(),
            objectives: routes
                .objectives
                .iter()
                .map(|(name, at)| (name.to_string(), *at))
                .collect(),
            priorities: routes.models.iter().map(|(name, at)| (name.to_string(), *at)).collect(),
            rewrites: exact.chain(any).map(rewrite).collect(),
        }
    }

    fn endpoint_dump(&self, slot: Slot, now: Instant) -> Option<EndpointDump> {
        let endpoint = self.endpoint(slot)?;
        let fresh = |reading| match reading {
            crate::pool::Reading::Fresh(value) => Some(value),
            crate::pool::Reading::Stale | crate::pool::Reading::Unknown => None,
        };
        let life = self.life(slot)?;
        Some(EndpointDump {
            spec: endpoint.spec.clone(),
            state: life.phase,
            state_reason: life.reason,
            state_seconds: now.saturating_duration_since(life.since).as_secs_f64(),
            suspect: endpoint.live.suspect(now),
            in_flight_requests: endpoint.live.requests(),
            in_flight_prompt_tokens: endpoint.live.prompt_tokens(),
            in_flight_output_tokens: endpoint.live.decode_tokens(),
            waiting: fresh(self.waiting(slot, now)),
            running: fresh(self.running(slot, now)),
            kv_usage: fresh(self.kv_usage(slot, now)),
            scrape_age_seconds: self.scrape_age(slot, now).map(|age| age.as_secs_f64()),
            page: self.page_dump(slot),
            models: self.served.listed(slot).map(|models| ModelsDump {
                base: list(&models.base),
                adapters: list(&models.adapters),
            }),
            outlook: endpoint.live.outlook(now),
        })
    }

    fn page_dump(&self, slot: Slot) -> Option<PageDump> {
        let scraped = self.scraped.get(slot.index())?.as_ref()?;
        let Sample { waiting, running, kv_usage, block_size, blocks, adapters, models, attributes } =
            &scraped.sample;
        let adapters = adapters.as_deref().map(|adapters| AdaptersDump {
            running: list(&adapters.running),
            waiting: list(&adapters.waiting),
            slots: adapters.slots,
        });
        Some(PageDump {
            fresh_for_seconds: scraped
                .fresh_until
                .saturating_duration_since(scraped.at)
                .as_secs_f64(),
            waiting: *waiting,
            running: *running,
            kv_usage: *kv_usage,
            block_size: *block_size,
            blocks: *blocks,
            adapters,
            models: models.as_deref().map(list),
            attributes: attributes.iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        })
    }
}

impl Dump {
    /// The pool as it was, its time being `now`. What was in flight there never ends.
    pub fn restore(self, now: Instant) -> Snapshot {
        let mut state = State::new(Duration::ZERO);
        let specs = self.endpoints.iter().map(|endpoint| endpoint.spec.clone()).collect();
        if self.synced {
            state.apply(Event::Endpoints(specs), now);
        }
        let routes = Routes {
            objectives: self.objectives.into_iter().map(|(name, at)| (name.into(), at)).collect(),
            models: self.priorities.into_iter().map(|(name, at)| (name.into(), at)).collect(),
            any: self.rewrites.get("").and_then(RewriteDump::restore),
            exact: self
                .rewrites
                .iter()
                .filter(|(name, _)| !name.is_empty())
                .filter_map(|(name, rewrite)| Some((name.as_str().into(), rewrite.restore()?)))
                .collect(),
        };
        state.apply(Event::Routes(routes), now);
        state.apply(Event::FailureMode(self.failure_mode), now);
        let placed: Vec<_> = state.snapshot().endpoints().cloned().collect();
        for endpoint in placed {
            let dump = self.endpoints.iter().find(|dump| dump.spec.same(&endpoint.spec));
            let Some(dump) = dump else { continue };
            endpoint.live.reach(dump.suspect);
            if dump.state == Phase::Draining {
                let drain = Drain { reason: dump.state_reason, ..Drain::ordered() };
                state.apply(Event::Drain { id: endpoint.id, drain: Some(drain) }, now);
            }
            let requests = dump.in_flight_requests;
            let tokens = (dump.in_flight_prompt_tokens, dump.in_flight_output_tokens);
            endpoint.live.resume((requests, tokens.0, tokens.1), dump.outlook, now);
            if let Some((page, age)) = dump.page.clone().zip(dump.scrape_age_seconds) {
                let (sample, fresh_for) = page.restore();
                let at = now.checked_sub(seconds(age)).unwrap_or(now);
                let interval = fresh_for / INTERVALS;
                state.apply(Event::Scraped { id: endpoint.id, sample, at, interval }, now);
            }
            if let Some(models) = &dump.models {
                let models =
                    Models { base: names(&models.base), adapters: names(&models.adapters) };
                state.apply(Event::Listed { id: endpoint.id, models, at: now }, now);
            }
        }
        state.snapshot()
    }
}

impl PageDump {
    fn restore(self) -> (Sample, Duration) {
        let adapters = self.adapters.map(|adapters| {
            Arc::new(Adapters {
                running: names(&adapters.running),
                waiting: names(&adapters.waiting),
                slots: adapters.slots,
            })
        });
        let sample = Sample {
            waiting: self.waiting,
            running: self.running,
            kv_usage: self.kv_usage,
            block_size: self.block_size,
            blocks: self.blocks,
            adapters,
            models: self.models.as_deref().map(|models| Arc::new(names(models))),
            attributes: self
                .attributes
                .into_iter()
                .map(|(name, value)| (name.into(), value))
                .collect(),
        };
        (sample, seconds(self.fresh_for_seconds))
    }
}

impl RewriteDump {
    fn restore(&self) -> Option<Targets> {
        let targets = self.targets.iter().map(|(name, weight)| (name.as_str(), *weight));
        Targets::new(&self.object, targets)
    }
}

impl Targets {
    fn dump(&self) -> RewriteDump {
        let targets = self.weights().map(|(name, weight)| (name.to_owned(), weight)).collect();
        RewriteDump { object: self.object().to_string(), targets }
    }
}

fn list(names: &Names) -> Vec<String> {
    names.iter().map(str::to_owned).collect()
}

fn names(list: &[String]) -> Names {
    list.iter().map(String::as_str).collect()
}

/// A length that is no number, or that no clock can count, is none.
fn seconds(length: f64) -> Duration {
    Duration::try_from_secs_f64(length).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::clock;

    #[test]
    fn what_was_in_flight_is_there_again_and_no_number_is_too_large() {
        let now = clock::now();
        let mut state = State::new(Duration::ZERO);
        let spec = |n| EndpointSpec {
            name: format!("pod-{n}"),
            namespace: "default".to_owned(),
            address: ([10, 0, 0, n], 8000).into(),
            labels: BTreeMap::new(),
            uid: String::new(),
            other_ips: Vec::new(),
        };
        state.apply(Event::Endpoints(vec![spec(1), spec(2), spec(3)]), now);
        let mut dump = state.snapshot().dump(now);
        let charges = [(3, 300, 30, 2.0, 300.0), (0, 0, 0, 0.0, 0.0)];
        let huge = (u32::MAX, u64::MAX, u64::MAX, f32::MAX, f32::MAX);
        let charges = charges.into_iter().chain([huge]);
        for (endpoint, (requests, prompt, output, prompts, tokens)) in
            dump.endpoints.iter_mut().zip(charges)
        {
            endpoint.in_flight_requests = requests;
            endpoint.in_flight_prompt_tokens = prompt;
            endpoint.in_flight_output_tokens = output;
            endpoint.outlook.prompts = prompts;
            endpoint.outlook.prompt_tokens = tokens;
        }
        let again = dump.clone().restore(now).dump(now);
        assert_eq!(again.endpoints[..2], dump.endpoints[..2]);
        let huge = &again.endpoints[2];
        assert_eq!((huge.in_flight_requests, huge.outlook.prompts), (u32::MAX, 10_000.0));
    }
}
