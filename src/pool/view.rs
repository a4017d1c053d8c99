//! An endpoint as an operator sees it: what `lodesman top` and the web page show of it.
//!
//! Made when somebody asks, bounded by [`MOST_NAMES`] and by whoever asks; nothing of a request is in it.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::pool::cached::HitRate;
use crate::pool::life::{Life, Phase};
use crate::pool::{Endpoint, Reading, Slot, Snapshot};

/// Names of models, and of adapters, that are shown of an endpoint.
const MOST_NAMES: usize = 32;

/// An endpoint at some time. What is not known is absent.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct EndpointView {
    /// Unique in the pool.
    pub name: String,
    /// Namespace of its pod; `default` outside Kubernetes.
    pub namespace: String,
    /// Where requests go, `ip:port`.
    pub address: String,
    /// Where it stands: `new`, `warming`, `ready`, `draining`, `quarantined`; or `suspect` where it seems not to answer and
    /// the pool cannot do without it.
    pub state: String,
    /// Why it is not `ready`, in words.
    pub reason: Option<String>,
    /// For how long it has stood there.
    #[serde(default)]
    pub state_seconds: f64,
    /// What its metrics page is: `fresh`, `stale` (too old to be used) or `unknown` (never read).
    pub metrics: String,
    /// Age of that page in seconds.
    pub scrape_age_seconds: Option<f64>,
    /// Requests in its queue, by a page that is fresh, as the two after it.
    pub waiting: Option<f32>,
    /// Requests that it computes.
    pub running: Option<f32>,
    /// Used share of its KV cache, 0.0 ..= 1.0.
    pub kv_usage: Option<f32>,
    /// Requests that this picker has in flight there.
    pub requests: u32,
    /// Tokens of their prompts that are not computed yet.
    pub prompt_tokens: u64,
    /// Tokens that they are expected to generate yet.
    pub output_tokens: u64,
    /// Share of the prompts of late that it had in its cache, 0.0 ..= 1.0.
    pub hit_rate: Option<f32>,
    /// Who says so: `engine`, or `estimate` where the engine tells nothing.
    pub hit_rate_by: Option<String>,
    /// Tokens of prompts that it computes in a second while it does nothing else, as it was learnt.
    pub prompt_tokens_per_second: Option<f32>,
    /// Milliseconds of a step in which one sequence decodes, as it was learnt.
    pub step_ms: Option<f32>,
    /// LoRA adapters of its running and waiting requests.
    pub adapters: Vec<String>,
    /// How many adapters can be loaded at once.
    pub adapter_slots: Option<u32>,
    /// The base models that it listed.
    pub models: Vec<String>,
}

impl Snapshot {
    /// The first `most` endpoints as of `now`, in slot order.
    pub fn view(&self, most: usize, now: Instant) -> Vec<EndpointView> {
        self.endpoints().take(most).map(|endpoint| self.endpoint_view(endpoint, now)).collect()
    }

    fn endpoint_view(&self, endpoint: &Endpoint, now: Instant) -> EndpointView {
        let (slot, live) = (endpoint.id.slot, &endpoint.live);
        let (state, reason, state_seconds) = self.standing_of(endpoint, now);
        let (hit_rate, by) = live.cached().rate().map(hit_rate).unzip();
        let (prompt_tokens_per_second, step_ms) = live.outlook(now).speed.learnt();
        let (adapters, adapter_slots) = self.shown_adapters(slot);
        EndpointView {
            name: endpoint.spec.name.clone(),
            namespace: endpoint.spec.namespace.clone(),
            address: endpoint.spec.address.to_string(),
            state,
            reason,
            state_seconds,
            metrics: self.page_state(slot, now).to_owned(),
            scrape_age_seconds: self.scrape_age(slot, now).map(|age| age.as_secs_f64()),
            waiting: fresh(self.waiting(slot, now)),
            running: fresh(self.running(slot, now)),
            kv_usage: fresh(self.kv_usage(slot, now)),
            requests: live.requests(),
            prompt_tokens: live.prompt_tokens(),
            output_tokens: live.decode_tokens(),
            hit_rate,
            hit_rate_by: by.map(str::to_owned),
            prompt_tokens_per_second,
            step_ms,
            adapters,
            adapter_slots,
            models: self.served.listed(slot).map(|it| first(it.base.iter())).unwrap_or_default(),
        }
    }

    /// Its phase, why where it is not ready, and for how long. One that does not answer and is not quarantined, since the
    /// pool cannot do without it, is `suspect`.
    fn standing_of(&self, endpoint: &Endpoint, now: Instant) -> (String, Option<String>, f64) {
        let Some(Life { phase, reason, since }) = self.life(endpoint.id.slot) else {
            return (Phase::default().name().to_owned(), None, 0.0);
        };
        let seconds = now.saturating_duration_since(since).as_secs_f64();
        let words = reason.name().replace('_', " ");
        match phase {
            Phase::New | Phase::Warming | Phase::Ready if endpoint.live.suspect(now) => {
                ("suspect".to_owned(), Some("does not answer, or with errors".to_owned()), seconds)
            }
            Phase::Ready => (phase.name().to_owned(), None, seconds),
            Phase::New | Phase::Warming | Phase::Draining | Phase::Quarantined | Phase::Gone => {
                (phase.name().to_owned(), Some(words), seconds)
            }
        }
    }

    fn page_state(&self, slot: Slot, now: Instant) -> &'static str {
        match (self.fresh(slot, now), self.scrape_age(slot, now)) {
            (true, _) => "fresh",
            (false, Some(_)) => "stale",
            (false, None) => "unknown",
        }
    }

    /// Those of running requests first, each once, and the number of slots.
    fn shown_adapters(&self, slot: Slot) -> (Vec<String>, Option<u32>) {
        let scraped = self.scraped.get(slot.index()).and_then(Option::as_ref);
        let Some(page) = scraped.and_then(|it| it.sample.adapters.as_deref()) else {
            return (Vec::new(), None);
        };
        let waiting = page.waiting.iter().filter(|name| !page.running.contains(name));
        (first(page.running.iter().chain(waiting)), page.slots)
    }
}

fn hit_rate(rate: HitRate) -> (f32, &'static str) {
    match rate {
        HitRate::Told(rate) => (rate, "engine"),
        HitRate::Believed(rate) => (rate, "estimate"),
    }
}

fn fresh(reading: Reading) -> Option<f32> {
    match reading {
        Reading::Fresh(value) => Some(value),
        Reading::Stale | Reading::Unknown => None,
    }
}

fn first<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    names.take(MOST_NAMES).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::pool::{Adapters, EndpointSpec, Event, InFlight, Models, Sample, State};
    use crate::server::clock;

    fn spec(n: u8) -> EndpointSpec {
        EndpointSpec {
            name: format!("pod-{n}"),
            namespace: "default".to_owned(),
            address: ([10, 0, 0, n], 8000).into(),
            labels: BTreeMap::new(),
            uid: String::new(),
            other_ips: Vec::new(),
        }
    }

    /// Two endpoints, of which the first was read `at`.
    fn read(state: &mut State, at: Instant) -> Snapshot {
        state.apply(Event::Endpoints(vec![spec(1), spec(2)]), at);
        let id = state.snapshot().endpoints().next().unwrap().id;
        let many: Vec<String> = (0..100).map(|n| format!("lora-{n}")).collect();
        let adapters = Adapters {
            running: ["sql"].into_iter().collect(),
            waiting: ["sql"].into_iter().chain(many.iter().map(String::as_str)).collect(),
            slots: Some(4),
        };
        let (waiting, kv_usage) = (Some(3.0), Some(0.5));
        let adapters = Some(Arc::new(adapters));
        let sample = Sample { waiting, kv_usage, adapters, ..Sample::default() };
        state.apply(Event::Scraped { id, sample, at, interval: Duration::from_secs(1) }, at);
        let models = Models { base: ["llama"].into_iter().collect(), ..Models::default() };
        state.apply(Event::Listed { id, models, at }, at);
        state.watch(at);
        state.snapshot()
    }

    #[test]
    fn what_is_known_is_shown_and_what_is_not_is_absent() {
        let (mut state, now) = (State::new(Duration::from_secs(2)), clock::now());
        let snapshot = read(&mut state, now);
        let live = &snapshot.endpoint(Slot(0)).unwrap().live;
        let _request = InFlight::begin(live, 100).decoding(10);
        live.cached().told(30, 100);
        let views = snapshot.view(9, now);
        let [first, second] = &views[..] else { panic!("{views:?}") };
        assert_eq!((first.state.as_str(), first.metrics.as_str()), ("warming", "fresh"));
        assert_eq!(first.reason.as_deref(), Some("heard"));
        assert_eq!((second.state.as_str(), second.reason.as_deref()), ("new", Some("listed")));
        assert_eq!((first.waiting, first.running, first.kv_usage), (Some(3.0), None, Some(0.5)));
        assert_eq!((first.requests, first.prompt_tokens, first.output_tokens), (1, 100, 10));
        assert_eq!((first.hit_rate, first.hit_rate_by.as_deref()), (Some(0.3), Some("engine")));
        assert_eq!((first.adapters[0].as_str(), first.adapters.len()), ("sql", MOST_NAMES));
        assert_eq!(
            (first.adapter_slots, first.models.as_slice()),
            (Some(4), &["llama".to_owned()][..])
        );
        assert_eq!(first.prompt_tokens_per_second, None, "nothing is learnt yet");
        assert_eq!((second.metrics.as_str(), second.waiting), ("unknown", None));
        assert_eq!((second.hit_rate, second.scrape_age_seconds), (None, None));
        assert_eq!(snapshot.view(1, now).len(), 1, "no more than are asked for");
    }

    #[test]
    fn an_old_page_is_stale_and_a_server_that_is_not_there_is_suspect() {
        let (mut state, at) = (State::new(Duration::from_secs(2)), clock::now());
        let snapshot = read(&mut state, at);
        snapshot.endpoint(Slot(0)).unwrap().live.reach(true);
        let later = snapshot.view(1, at + Duration::from_mins(1)).remove(0);
        assert_eq!((later.metrics.as_str(), later.waiting), ("stale", None));
        assert_eq!(later.scrape_age_seconds, Some(60.0));
        assert_eq!(later.state, "suspect");
        assert!(later.reason.is_some());
    }
}
