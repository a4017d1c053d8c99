//! The endpoints that a gateway allows for one request.

use std::net::{IpAddr, SocketAddr};

use smallvec::SmallVec;

use crate::pool::{Slot, Snapshot};

/// Which endpoints of the pool may be chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Subset {
    /// No hint: all of them.
    #[default]
    All,
    /// Only these; an empty list allows none.
    Only(SmallVec<[Allowed; 4]>),
}

/// One entry of a subset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// One endpoint.
    Endpoint(SocketAddr),
    /// All endpoints of a host, whatever their port.
    Host(IpAddr),
}

impl Subset {
    /// Writes the ready endpoints of the pool that are allowed, each once, in slot order.
    pub fn candidates(&self, snapshot: &Snapshot, candidates: &mut Vec<Slot>) {
        candidates.clear();
        let Self::Only(allowed) = self else {
            candidates.extend_from_slice(snapshot.ready());
            return;
        };
        for entry in allowed {
            match *entry {
                Allowed::Endpoint(address) => candidates.extend(snapshot.by_address(address)),
                Allowed::Host(ip) => candidates.extend(snapshot.by_ip(ip)),
            }
        }
        candidates.sort_unstable();
        candidates.dedup();
        candidates.retain(|slot| snapshot.ready().binary_search(slot).is_ok());
    }
}

impl Allowed {
    /// Reads `ip:port`, `[ip]:port`, `ip` or `[ip]`; none when it is neither.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        let endpoint = text.parse().map(|address: SocketAddr| Self::Endpoint(address));
        endpoint.or_else(|_| bare.parse().map(|ip: IpAddr| Self::Host(ip))).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::pool::{EndpointSpec, Event, State};
    use crate::server::clock;

    fn spec(address: &str) -> EndpointSpec {
        EndpointSpec {
            name: address.to_owned(),
            namespace: "default".to_owned(),
            address: address.parse().unwrap(),
            labels: BTreeMap::new(),
            uid: String::new(),
            other_ips: Vec::new(),
        }
    }

    fn listed(specs: Vec<EndpointSpec>) -> Snapshot {
        let mut state = State::new(Duration::from_secs(2));
        state.apply(Event::Endpoints(specs), clock::now());
        state.snapshot()
    }

    fn pool(addresses: &[&str]) -> Snapshot {
        listed(addresses.iter().map(|address| spec(address)).collect())
    }

    fn allowed(snapshot: &Snapshot, entries: &[&str]) -> Vec<String> {
        let subset =
            Subset::Only(entries.iter().filter_map(|entry| Allowed::parse(entry)).collect());
        let mut candidates = Vec::new();
        subset.candidates(snapshot, &mut candidates);
        candidates
            .iter()
            .map(|&slot| snapshot.endpoint(slot).unwrap().spec.address.to_string())
            .collect()
    }

    #[test]
    fn a_port_names_one_rank_and_a_bare_address_all_of_them() {
        let snapshot = pool(&["10.0.0.1:3000", "10.0.0.1:3002", "10.0.0.2:3000"]);
        assert_eq!(allowed(&snapshot, &["10.0.0.1:3002"]), ["10.0.0.1:3002"]);
        assert_eq!(
            allowed(&snapshot, &["10.0.0.1", " 10.0.0.1:3000"]),
            ["10.0.0.1:3000", "10.0.0.1:3002"]
        );
        assert!(allowed(&snapshot, &["10.0.0.9:3000"]).is_empty());
    }

    #[test]
    fn ipv6_matches_with_and_without_brackets() {
        let snapshot = pool(&["[fd00::1]:8000", "[fd00::2]:8000"]);
        for entry in ["[fd00::1]:8000", "[fd00::1]", "fd00::1", "[fd00:0::1]:8000"] {
            assert_eq!(allowed(&snapshot, &[entry]), ["[fd00::1]:8000"], "{entry}");
        }
    }

    #[test]
    fn a_host_of_two_families_is_named_by_either() {
        let mut specs = [spec("10.0.0.1:3000"), spec("10.0.0.1:3002")];
        for spec in &mut specs {
            spec.other_ips.push("fd00::1".parse().unwrap());
        }
        let snapshot = listed(specs.into());
        assert_eq!(allowed(&snapshot, &["[fd00::1]:3002"]), ["10.0.0.1:3002"]);
        assert_eq!(allowed(&snapshot, &["fd00::1"]), ["10.0.0.1:3000", "10.0.0.1:3002"]);
        assert_eq!(
            allowed(&snapshot, &["[fd00::1]:3000", "10.0.0.1:3000"]),
            ["10.0.0.1:3000"],
            "each once"
        );
    }

    #[test]
    fn an_empty_list_allows_nothing_and_no_hint_allows_all() {
        let (snapshot, mut candidates) = (pool(&["10.0.0.1:80"]), Vec::new());
        Subset::Only(SmallVec::new()).candidates(&snapshot, &mut candidates);
        assert!(candidates.is_empty());
        Subset::All.candidates(&snapshot, &mut candidates);
        assert_eq!(candidates.len(), 1);
    }

    #[test]
    fn what_is_no_address_is_no_entry() {
        for text in ["", "pod-1", "10.0.0.1:", "10.0.0.1:99999", "[::1", "a:b:c"] {
            assert_eq!(Allowed::parse(text), None, "{text}");
        }
    }
}
