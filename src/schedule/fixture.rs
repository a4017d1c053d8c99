//! Pools for the tests of plugins.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::pool::{EndpointSpec, Event, Sample, Snapshot, State};
use crate::server::clock;

/// A pool of `count` endpoints 10.0.x.y:8000 that were never scraped.
pub(crate) fn snapshot(count: u16) -> Snapshot {
    state(count).snapshot()
}

/// The same with one sample for each endpoint that has one, read at `now`.
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

fn state(count: u16) -> State {
    let spec = |n: u16| EndpointSpec {
        name: format!("pod-{n}"),
        namespace: "default".to_owned(),
        address: ([10, 0, n.to_be_bytes()[0], n.to_be_bytes()[1]], 8000).into(),
        labels: BTreeMap::new(),
        uid: String::new(),
        other_ips: Vec::new(),
    };
    let mut state = State::new(Duration::from_secs(2));
    state.apply(Event::Endpoints((0..count).map(spec).collect()), clock::now());
    state
}
