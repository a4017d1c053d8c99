//! Pools and requests for the tests of plugins.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::pool::{EndpointSpec, Event, Sample, Slot, Snapshot, State};
use crate::request::{BytesPerToken, Parsed, Reading};
use crate::schedule::registry::Parameters;
use crate::schedule::{Filter, Headers, PickContext, Signals};
use crate::server::clock;

/// A request that says nothing, for a pool.
pub(crate) struct Asked<'a> {
    request: Parsed,
    headers: Headers,
    signals: Signals,
    snapshot: &'a Snapshot,
}

impl<'a> Asked<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot) -> Self {
        let (request, signals) = (Parsed::default(), Signals::default());
        Self { request, headers: Headers::default(), signals, snapshot }
    }

    /// Has a prompt of so many tokens.
    pub(crate) fn tokens(&mut self, tokens: u64) {
        self.request.prompt_tokens = tokens;
    }

    /// Has these headers, of which a plugin reads the wanted ones.
    pub(crate) fn headers(&mut self, wanted: &[&str], pairs: &[(&str, &'static str)]) {
        let wanted: Vec<_> = wanted.iter().map(|&name| Arc::from(name)).collect();
        for (name, value) in pairs {
            self.headers.take(&wanted, name.as_bytes(), &Bytes::from_static(value.as_bytes()));
        }
    }

    /// Has a prompt of so many tokens.
    pub(crate) fn prompt(&mut self, tokens: u64) {
        (self.request.prompt_tokens, self.request.reading) = (tokens, Reading::Read);
    }

    /// Has a prompt of so many bytes of text, with so many to a token.
    pub(crate) fn text(&mut self, bytes: u64, ratio: f64) {
        self.prompt(bytes.div_ceil(4));
        self.request.text_bytes = bytes;
        self.signals.bytes_per_token = BytesPerToken::new(ratio);
    }

    /// What a plugin sees of it.
    pub(crate) fn cx(&self, now: Instant) -> PickContext<'_> {
        let Self { request, headers, signals, snapshot } = self;
        PickContext { request, model: None, headers, snapshot, signals, now, dice: 0 }
    }
}

/// Positions of the endpoints that a filter keeps for a request that says nothing.
pub(crate) fn kept(filter: &dyn Filter, snapshot: &Snapshot) -> Vec<usize> {
    kept_for(filter, Asked::of(snapshot).cx(clock::now()))
}

/// Positions of the endpoints that a filter keeps of all.
pub(crate) fn kept_for(filter: &dyn Filter, cx: PickContext<'_>) -> Vec<usize> {
    let mut candidates = cx.snapshot.ready().to_vec();
    filter.filter(cx, &mut candidates);
    candidates.into_iter().map(Slot::index).collect()
}

/// A pool of `count` endpoints 10.0.x.y:8000 that were never scraped.
pub(crate) fn snapshot(count: u16) -> Snapshot {
    state(count).snapshot()
}

/// A pool of endpoints at these addresses.
pub(crate) fn at(addresses: &[&str]) -> Snapshot {
    pool(addresses.iter().map(|address| address.parse().expect("an address"))).snapshot()
}

/// A pool of endpoints 10.0.x.y:8000 with these labels.
pub(crate) fn labeled(labels: &[&[(&str, &str)]]) -> Snapshot {
    let mut specs = specs(addresses(u16::try_from(labels.len()).expect("few")));
    for (spec, labels) in specs.iter_mut().zip(labels) {
        let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        spec.labels = labels.iter().map(owned).collect();
    }
    of(specs).snapshot()
}

/// A pool of endpoints 10.0.x.y:8000 with one sample for each endpoint that has one, read at `now`.
pub(crate) fn sampled(samples: &[Option<Sample>], now: Instant) -> Snapshot {
    let mut state = state(u16::try_from(samples.len()).expect("few"));
    let ids: Vec<_> = state.snapshot().endpoints().map(|endpoint| endpoint.id).collect();
    for (id, sample) in ids.into_iter().zip(samples) {
        if let Some(sample) = sample.clone() {
            let interval = Duration::from_millis(50);
            state.apply(Event::Scraped { id, sample, at: now, interval }, now);
        }
    }
    state.snapshot()
}

/// The pool of [`snapshot`] to be changed.
pub(crate) fn state(count: u16) -> State {
    pool(addresses(count))
}

fn addresses(count: u16) -> impl Iterator<Item = SocketAddr> {
    (0..count).map(|n| ([10, 0, n.to_be_bytes()[0], n.to_be_bytes()[1]], 8000).into())
}

fn pool(addresses: impl Iterator<Item = SocketAddr>) -> State {
    of(specs(addresses))
}

fn specs(addresses: impl Iterator<Item = SocketAddr>) -> Vec<EndpointSpec> {
    let spec = |(n, address): (usize, SocketAddr)| EndpointSpec {
        name: format!("pod-{n}"),
        namespace: "default".to_owned(),
        address,
        labels: BTreeMap::new(),
        uid: String::new(),
        other_ips: Vec::new(),
    };
    addresses.enumerate().map(spec).collect()
}

fn of(specs: Vec<EndpointSpec>) -> State {
    let mut state = State::new(Duration::from_secs(2));
    state.apply(Event::Endpoints(specs), clock::now());
    state
}

/// The parameters without which a plugin cannot be; null for most.
pub(crate) fn required(plugin: &str) -> Parameters {
    match plugin {
        "endpoint-attribute-scorer" => serde_json::json!({
            "attributeKey": "WaitingQueueSize", "algorithm": {"type": "linear_lower_is_better"},
        }),
        "header-label-affinity-scorer" => {
            serde_json::json!({"headerName": "X-Tier", "labelKey": "tier"})
        }
        "by-label" => serde_json::json!({"label": "tier", "validValues": ["gold"]}),
        "utilization-filter" => serde_json::json!({
            "conditions": [{"metric": "waiting-queue", "maxValue": 4}],
        }),
        "endpoint-attribute-filter" => serde_json::json!({
            "attribute": "WaitingQueueSize",
            "algorithm": {"type": "threshold", "threshold": {"operator": "LessThan", "value": 4}},
        }),
        "session-id-producer" => serde_json::json!({"headerName": "x-session-id"}),
        _ => Parameters::Null,
    }
}
