//! Keeps the endpoint of the request's session alone, where it is among the candidates; else all.
//!
//! `session` says how a session has an endpoint. Without one nobody is left out, so it never leaves nobody. Requests
//! without a body are bound too.

use bytes::Bytes;

use crate::pool::{Endpoint, Slot};
use crate::schedule::registry::{Build, Empty, Plugin};
use crate::schedule::session::Session;
use crate::schedule::{Filter, Needs, PickContext};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "session-affinity-filter",
    summary: "Keeps the endpoint of the request's session alone, where it is among the candidates. The client tells it by a \
              header that answers carry, or names its session, which is remembered here.",
    needs: Needs::NONE,
    build: Build::Filter(
        |raw| Ok(Box::new(SessionAffinity(Session::read(raw)?))),
        Empty::Capability,
    ),
};

#[derive(Debug)]
struct SessionAffinity(Session);

impl Filter for SessionAffinity {
    fn filter(&self, cx: PickContext<'_>, candidates: &mut Vec<Slot>) {
        if let Some(endpoint) = self.0.endpoint(cx, candidates) {
            candidates.retain(|slot| *slot == endpoint);
        }
    }

    fn reason(&self, _cx: PickContext<'_>, _slot: Slot) -> Option<String> {
        Some("the session has another endpoint".to_owned())
    }

    fn placed(&self, cx: PickContext<'_>, candidates: &[Slot], endpoint: &Endpoint) {
        self.0.placed(cx, candidates, endpoint);
    }

    fn answer_header(&self, endpoint: &Endpoint) -> Option<(&str, Bytes)> {
        self.0.answer_header(endpoint)
    }

    fn headers(&self) -> Vec<&str> {
        self.0.headers()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::schedule::fixture;
    use crate::server::clock;

    fn kept(size: u16, token: Option<&'static str>) -> Vec<usize> {
        let (snapshot, filter) =
            (fixture::snapshot(size), SessionAffinity(Session::read(Value::Null).unwrap()));
        let mut asked = fixture::Asked::of(&snapshot);
        asked.headers(&filter.headers(), token.map(|token| ("x-session-token", token)).as_slice());
        fixture::kept_for(&filter, asked.cx(clock::now()))
    }

    #[test]
    fn the_endpoint_of_the_session_is_kept_alone() {
        assert_eq!(kept(3, Some("ZGVmYXVsdC9wb2QtMQ==")), [1]);
        assert_eq!(kept(1000, Some("ZGVmYXVsdC9wb2QtMQ==")), [1]);
    }

    #[test]
    fn without_one_all_are_kept() {
        assert_eq!(kept(1, Some("ZGVmYXVsdC9wb2QtMQ==")), [0], "it is gone");
        assert_eq!(kept(2, Some("?")), [0, 1]);
        assert_eq!(kept(1000, None).len(), 1000);
    }
}
