//! What is lost with a pod: the order in which a ReplicaSet that shrinks should delete its pods.

use std::collections::BTreeMap;

use crate::pool::{Endpoint, EndpointId, Phase, Snapshot};

/// What a pod is worth, as `controller.kubernetes.io/pod-deletion-cost` has it: the pod of least worth is deleted first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worth {
    /// The pod's name.
    pub pod: String,
    /// Tells it from a later one of the same name.
    pub uid: String,
    /// 0 of a pod none of whose endpoints takes requests; else one more than the binary logarithm, rounded down, of the
    /// tokens that go with it.
    pub cost: i32,
}

impl Worth {
    /// Whether `before`, which is written, would mislead: a factor of four, or all or nothing.
    pub fn differs(&self, before: Option<i32>) -> bool {
        before.is_none_or(|before| {
            before.abs_diff(self.cost) > 1 || (before == 0) != (self.cost == 0)
        })
    }
}

/// What each pod of the pool is worth. The tokens that go with it are those that requests in flight have yet to compute,
/// and those of prefixes in its caches, which `cached` tells of an endpoint.
pub fn worths(snapshot: &Snapshot, cached: impl Fn(EndpointId) -> u64) -> Vec<Worth> {
    let mut pods: BTreeMap<(&str, &str), Option<u64>> = BTreeMap::new();
    for endpoint in snapshot.endpoints() {
        let Some(pod) = endpoint.spec.pod() else { continue };
        let sum = pods.entry((pod, &endpoint.spec.uid)).or_default();
        if serves(snapshot, endpoint) {
            let tokens = yet_to_compute(endpoint).saturating_add(cached(endpoint.id));
            *sum = Some(sum.unwrap_or(0).saturating_add(tokens));
        }
    }
    let worth = |((pod, uid), tokens): ((&str, &str), Option<u64>)| Worth {
        pod: pod.to_owned(),
        uid: uid.to_owned(),
        cost: tokens.map_or(0, |tokens| (tokens | 1).ilog2().cast_signed() + 1),
    };
    pods.into_iter().map(worth).collect()
}

fn serves(snapshot: &Snapshot, endpoint: &Endpoint) -> bool {
    let life = snapshot.life(endpoint.id.slot);
    life.is_some_and(|life| matches!(life.phase, Phase::New | Phase::Warming | Phase::Ready))
}

fn yet_to_compute(endpoint: &Endpoint) -> u64 {
    endpoint.live.prompt_tokens().saturating_add(endpoint.live.decode_tokens())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pool::{Drain, EndpointSpec, Event, InFlight, State};
    use crate::server::clock;

    fn rank(pod: &str, rank: u16) -> EndpointSpec {
        EndpointSpec {
            name: format!("{pod}-rank-{rank}"),
            namespace: "ns".to_owned(),
            uid: format!("uid-{pod}"),
            address: ([10, 0, 0, 1], 8000 + rank).into(),
            other_ips: Vec::new(),
            labels: BTreeMap::new(),
        }
    }

    #[test]
    fn pods_are_worth_their_work_and_their_caches_and_nothing_while_they_drain() {
        let now = clock::now();
        let mut state = State::new(Duration::from_secs(2));
        let mut listed = vec![rank("busy", 0), rank("busy", 1), rank("cold", 0), rank("warm", 0)];
        for (at, spec) in listed.iter_mut().enumerate() {
            spec.address.set_port(u16::try_from(at).unwrap() + 1);
        }
        state.apply(Event::Endpoints(listed), now);
        let snapshot = state.snapshot();
        let named = |name: &str| snapshot.endpoints().find(|it| it.spec.name == name).unwrap();
        let _running =
            ["busy-rank-0", "busy-rank-1"].map(|name| InFlight::begin(&named(name).live, 600));
        let warm = named("warm-rank-0").id;
        let costs = |snapshot: &Snapshot| {
            let all = worths(snapshot, |id| if id == warm { 1 << 20 } else { 0 });
            all.into_iter().map(|it| (it.pod, it.uid, it.cost)).collect::<Vec<_>>()
        };
        let pod = |name: &str, cost| (name.to_owned(), format!("uid-{name}"), cost);
        assert_eq!(costs(&snapshot), [pod("busy", 11), pod("cold", 1), pod("warm", 21)]);
        state.apply(Event::Drain { id: warm, drain: Some(Drain::ordered()) }, now);
        let after = state.snapshot();
        assert_eq!(costs(&after), [pod("busy", 11), pod("cold", 1), pod("warm", 0)]);
    }

    #[test]
    fn what_is_written_stays_until_it_misleads() {
        let worth = |cost| Worth { pod: String::new(), uid: String::new(), cost };
        assert!(worth(1).differs(None));
        assert!(!worth(11).differs(Some(10)) && !worth(10).differs(Some(11)));
        assert!(worth(12).differs(Some(10)));
        assert!(worth(0).differs(Some(1)) && worth(1).differs(Some(0)));
        assert!(!worth(0).differs(Some(0)));
    }
}
