//! A pool and a director over it, as the benches need them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use lodesman::director::{Clock, DECISION_DEADLINE, Director, Policy, Settings};
use lodesman::metrics::Metrics;
use lodesman::pool::{EndpointSpec, Event, FailureMode, Sample, State};
use lodesman::prefix::{self, Index};
use lodesman::schedule::registry::PLUGINS;
use lodesman_e2e::wait::now;

/// So many endpoints, each just scraped, with different loads.
pub(crate) fn state(endpoints: u16) -> State {
    let spec = |n: u16| EndpointSpec {
        name: format!("pod-{n}"),
        namespace: "default".to_owned(),
        address: ([10, 0, n.to_be_bytes()[0], n.to_be_bytes()[1]], 8000).into(),
        labels: BTreeMap::new(),
        uid: String::new(),
        other_ips: Vec::new(),
    };
    let mut state = State::new(Duration::from_hours(1));
    state.apply(Event::Endpoints((0..endpoints).map(spec).collect()), now());
    let ids: Vec<_> = state.snapshot().endpoints().map(|endpoint| endpoint.id).collect();
    for (n, id) in ids.into_iter().enumerate() {
        let sample = Sample {
            waiting: Some((n % 3) as f32),
            running: Some((n % 7) as f32),
            kv_usage: Some(0.5),
            ..Sample::default()
        };
        let interval = Duration::from_secs(1);
        state.apply(Event::Scraped { id, sample, at: now(), interval }, now());
    }
    state
}

/// A director over [`state`] by a configuration, or by the default policy; `cut` changes how prompts are cut.
pub(crate) fn director(
    configuration: Option<&str>,
    endpoints: u16,
    cut: impl FnOnce(&mut prefix::Settings),
) -> (Director, Arc<Index>) {
    let resolved = lodesman::config::load(configuration, &[PLUGINS]).unwrap();
    let settings = Settings {
        forced_failure_mode: None,
        failure_mode: FailureMode::FailClose,
        deadline: DECISION_DEADLINE,
        scores: false,
        clock: Clock::new(now),
    };
    let mut blocks = resolved.prefix.unwrap_or_default();
    cut(&mut blocks);
    let index = Arc::new(Index::new(blocks, 1));
    let pool = Arc::new(ArcSwap::from_pointee(state(endpoints).snapshot()));
    let policy = Policy::new(resolved.profiles, Some(resolved.detector));
    let metrics = Metrics::new("ns", "pool", false).unwrap();
    let director = Director::new(pool, policy, metrics, settings).with_prefix(Arc::clone(&index));
    (director, index)
}
