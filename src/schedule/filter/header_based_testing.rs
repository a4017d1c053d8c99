//! Keeps the endpoints that a request names itself, for tests of gateways.
//!
//! The header `test-epp-endpoint-selection` lists `ip` or `ip:port` with commas, spaces allowed, IPv6 with or without
//! brackets; an address without a port means all ports of its host. Without the header, or with an empty one, all are
//! kept; where it names nobody in the pool, none is: 503. The conformance suite of the Gateway API Inference Extension
//! asks for it. It lets clients choose, so it is never on by default.

use serde::Deserialize;

use crate::pool::{Allowed, Slot, Subset};
use crate::schedule::registry::{Build, Empty, Plugin, parameters};
use crate::schedule::{Filter, Needs, PickContext};

/// The header that the suite sends.
const SELECTION: &str = "test-epp-endpoint-selection";

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "header-based-testing-filter",
    summary: "For tests of gateways, lets clients choose: keeps the endpoints that the request's header \
              `test-epp-endpoint-selection` lists, as `ip` or `ip:port`.",
    needs: Needs::NONE,
    build: Build::Filter(
        |raw| Ok(Box::new(parameters::<HeaderBasedTesting>(raw)?)),
        Empty::Capability,
    ),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeaderBasedTesting {}

impl Filter for HeaderBasedTesting {
    fn filter(&self, cx: PickContext<'_>, candidates: &mut Vec<Slot>) {
        let listed = cx.header(SELECTION).map(str::trim).filter(|listed| !listed.is_empty());
        let Some(listed) = listed else { return };
        let mut named = Vec::new();
        let subset = Subset::Only(listed.split(',').filter_map(Allowed::parse).collect());
        subset.candidates(cx.snapshot, &mut named);
        candidates.retain(|slot| named.binary_search(slot).is_ok());
    }

    fn reason(&self, _cx: PickContext<'_>, _slot: Slot) -> Option<String> {
        Some(format!("the header {SELECTION} does not list it"))
    }

    fn headers(&self) -> Vec<&str> {
        vec![SELECTION]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::fixture;
    use crate::server::clock;

    const POOL: [&str; 4] = ["10.0.0.1:3000", "10.0.0.1:3002", "10.0.0.2:3000", "[fd00::1]:3000"];

    /// Positions of the endpoints of the pool that are kept.
    fn kept(header: Option<&'static str>) -> Vec<usize> {
        let (snapshot, filter) = (fixture::at(&POOL), HeaderBasedTesting {});
        let mut asked = fixture::Asked::of(&snapshot);
        asked.headers(&filter.headers(), header.map(|value| (SELECTION, value)).as_slice());
        let mut candidates = snapshot.ready().to_vec();
        filter.filter(asked.cx(clock::now()), &mut candidates);
        candidates.iter().map(|slot| slot.index()).collect()
    }

    #[test]
    fn a_request_goes_to_the_endpoints_that_it_names() {
        assert_eq!(kept(Some("10.0.0.1:3002")), [1]);
        assert_eq!(kept(Some("10.0.0.1")), [0, 1], "a host means all its ports");
        assert_eq!(kept(Some(" 10.0.0.2:3000 ,10.0.0.1:3000")), [0, 2]);
        for name in ["fd00::1", "[fd00::1]", "[fd00::1]:3000", "[fd00:0::1]:3000"] {
            assert_eq!(kept(Some(name)), [3], "{name}");
        }
    }

    #[test]
    fn whoever_names_nobody_in_the_pool_gets_nobody() {
        for names in
            ["10.0.0.9", "10.0.0.1:80", "256.256.256.256", "pod-1", ",", "10.0.0.9,fd00::2"]
        {
            assert!(kept(Some(names)).is_empty(), "{names}");
        }
    }

    #[test]
    fn a_request_that_names_nothing_goes_anywhere() {
        for header in [None, Some(""), Some("  ")] {
            assert_eq!(kept(header), [0, 1, 2, 3]);
        }
    }
}
