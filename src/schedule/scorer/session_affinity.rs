//! Prefers the endpoint of the request's session: it scores 1.0, all others 0.0.
//!
//! `session` says how a session has an endpoint. Where it has none, or one that is no candidate, all score 0.0.

use bytes::Bytes;

use crate::pool::{Endpoint, Slot};
use crate::schedule::registry::{Build, Plugin};
use crate::schedule::session::Session;
use crate::schedule::{Needs, PickContext, Scorer};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "session-affinity-scorer",
    summary: "Prefers the endpoint of the request's session, all others score 0. The client tells it by a header that answers \
              carry, or names its session, which is remembered here.",
    needs: Needs::NONE,
    build: Build::Scorer(|raw| Ok(Box::new(SessionAffinity(Session::read(raw)?)))),
};

#[derive(Debug)]
struct SessionAffinity(Session);

impl Scorer for SessionAffinity {
    fn score(&self, cx: PickContext<'_>, candidates: &[Slot], scores: &mut [f32]) {
        let Some(endpoint) = self.0.endpoint(cx, candidates) else { return };
        for (score, &slot) in scores.iter_mut().zip(candidates) {
            *score = if slot == endpoint { 1.0 } else { 0.0 };
        }
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

    fn scores(size: u16, token: Option<&'static str>) -> Vec<f32> {
        let (snapshot, scorer) =
            (fixture::snapshot(size), SessionAffinity(Session::read(Value::Null).unwrap()));
        let mut asked = fixture::Asked::of(&snapshot);
        asked.headers(&scorer.headers(), token.map(|token| ("x-session-token", token)).as_slice());
        let mut rated = vec![0.0; usize::from(size)];
        scorer.score(asked.cx(clock::now()), snapshot.ready(), &mut rated);
        rated
    }

    #[test]
    fn the_endpoint_of_the_session_scores_one_and_all_others_zero() {
        assert_eq!(scores(3, Some("ZGVmYXVsdC9wb2QtMQ==")), [0.0, 1.0, 0.0]);
        let scores = scores(1000, Some("ZGVmYXVsdC9wb2QtMQ=="));
        assert_eq!((scores[1], scores.iter().sum::<f32>()), (1.0, 1.0));
    }

    #[test]
    fn without_one_all_are_equal() {
        assert_eq!(scores(1, Some("ZGVmYXVsdC9wb2QtMQ==")), [0.0]);
        assert_eq!(scores(2, Some("?")), [0.0, 0.0]);
        assert_eq!(scores(2, None), [0.0, 0.0]);
    }
}
