//! Takes an endpoint for full by what this process has in flight on it, whatever its metrics say.
//!
//! `fill = requests / maxConcurrency`, `tokens / maxTokenConcurrency`, or the greater of both. Tokens are those of
//! prompts that are still to be computed, and those to be generated if the `inflight-load-producer` adds them. Requests of other replicas of the picker are not seen: divide the limits by
//! the number of replicas. As a filter it may leave nobody.

use serde::Deserialize;

use crate::pool::Slot;
use crate::schedule::detector::{Detector, limit, threshold};
use crate::schedule::readings::tokens_in_flight;
use crate::schedule::registry::{BadParameters, Build, Empty, Plugin, parameters};
use crate::schedule::{Filter, Needs, PickContext};

/// Requests in flight on a full endpoint unless configured; the reference's.
pub(in crate::schedule) const MAX_CONCURRENCY: u32 = 100;

/// Tokens in flight on a full endpoint unless configured; the reference's.
const MAX_TOKEN_CONCURRENCY: u32 = 1_000_000;

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "concurrency-detector",
    summary: "Full is an endpoint on which this picker has much in flight: `requests / maxConcurrency`, \
              `tokens / maxTokenConcurrency` or the greater of both. As a filter it may keep none: 429.",
    needs: Needs::NONE,
    build: Build::Detector(
        |raw| Ok(Box::new(parameters::<Parameters>(raw)?.detector()?)),
        Empty::Load,
    ),
};

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Parameters {
    /// What counts; default requests.
    concurrency_mode: Mode,
    /// Requests in flight on a full endpoint, above 0.
    max_concurrency: f32,
    /// Tokens in flight on a full endpoint, above 0.
    max_token_concurrency: f32,
    /// How much fuller than full an endpoint may be that is kept, as a share, 0 or more; default 0.
    headroom: f32,
    /// Whose count it is; there is one.
    #[serde(rename = "inFlightLoadProducerName")]
    _producer: Option<String>,
}

/// What is counted.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Requests,
    Tokens,
    /// The greater share of the two.
    Hybrid,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            concurrency_mode: Mode::Requests,
            max_concurrency: MAX_CONCURRENCY as f32,
            max_token_concurrency: MAX_TOKEN_CONCURRENCY as f32,
            headroom: 0.0,
            _producer: None,
        }
    }
}

impl Parameters {
    fn detector(self) -> Result<Concurrency, BadParameters> {
        Ok(Concurrency {
            mode: self.concurrency_mode,
            requests: threshold("maxConcurrency", self.max_concurrency)?,
            tokens: threshold("maxTokenConcurrency", self.max_token_concurrency)?,
            limit: limit(self.headroom)?,
        })
    }
}

#[derive(Debug)]
struct Concurrency {
    mode: Mode,
    requests: f32,
    tokens: f32,
    limit: f32,
}

impl Detector for Concurrency {
    fn fill(&self, cx: PickContext<'_>, slot: Slot) -> f32 {
        let requests = cx.snapshot.in_flight(slot) as f32 / self.requests;
        let tokens = tokens_in_flight(cx, slot) as f32 / self.tokens;
        match self.mode {
            Mode::Requests => requests,
            Mode::Tokens => tokens,
            Mode::Hybrid => requests.max(tokens),
        }
    }
}

impl Filter for Concurrency {
    fn filter(&self, cx: PickContext<'_>, candidates: &mut Vec<Slot>) {
        candidates.retain(|&slot| self.fill(cx, slot) < self.limit);
    }

    fn reason(&self, cx: PickContext<'_>, slot: Slot) -> Option<String> {
        Some(format!(
            "it is {:.2} full, kept are those below {:.2}",
            self.fill(cx, slot),
            self.limit
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pool::{InFlight, Snapshot};
    use crate::schedule::fixture;
    use crate::server::clock;

    fn detector(raw: Value) -> Result<Concurrency, String> {
        parameters::<Parameters>(raw).and_then(Parameters::detector).map_err(|error| error.0)
    }

    /// Three endpoints with 0, 1 and 2 requests of 10 tokens in flight.
    fn pool() -> (Snapshot, Vec<InFlight>) {
        let snapshot = fixture::snapshot(3);
        let busy = snapshot.endpoints().enumerate();
        let begin = |(n, endpoint): (_, &std::sync::Arc<crate::pool::Endpoint>)| {
            (0..n).map(|_| InFlight::begin(&endpoint.live, 10)).collect::<Vec<_>>()
        };
        let in_flight = busy.flat_map(begin).collect();
        (snapshot, in_flight)
    }

    fn fills(raw: Value) -> Vec<f32> {
        let ((snapshot, _in_flight), detector) = (pool(), detector(raw).unwrap());
        let asked = fixture::Asked::of(&snapshot);
        let fill = |&slot| detector.fill(asked.cx(clock::now()), slot);
        snapshot.ready().iter().map(fill).collect()
    }

    fn kept(raw: Value) -> usize {
        let (snapshot, _in_flight) = pool();
        let mut candidates = snapshot.ready().to_vec();
        let asked = fixture::Asked::of(&snapshot);
        detector(raw).unwrap().filter(asked.cx(clock::now()), &mut candidates);
        candidates.len()
    }

    #[test]
    fn requests_tokens_or_the_greater_share_count() {
        assert_eq!(fills(json!({})), [0.0, 0.01, 0.02]);
        assert_eq!(fills(json!({"maxConcurrency": 2})), [0.0, 0.5, 1.0]);
        let limits =
            |mode| json!({"concurrencyMode": mode, "maxConcurrency": 4, "maxTokenConcurrency": 10});
        assert_eq!(fills(limits("tokens")), [0.0, 1.0, 2.0]);
        assert_eq!(fills(limits("hybrid")), [0.0, 1.0, 2.0]);
        let few = json!({"concurrencyMode": "hybrid", "maxConcurrency": 1, "inFlightLoadProducerName": "inflight-load-producer"});
        assert_eq!(fills(few), [0.0, 1.0, 2.0]);
    }

    #[test]
    fn a_filter_keeps_those_with_room_which_may_be_none() {
        assert_eq!(kept(json!({"maxConcurrency": 2})), 2);
        assert_eq!(kept(json!({"maxConcurrency": 2, "headroom": 0.5})), 3);
        let raw = json!({"concurrencyMode": "tokens", "maxTokenConcurrency": 1});
        assert_eq!(kept(raw), 1);
        let (snapshot, _in_flight) = pool();
        let mut busy = snapshot.ready()[1..].to_vec();
        let asked = fixture::Asked::of(&snapshot);
        let detector = detector(json!({"maxConcurrency": 1})).unwrap();
        detector.filter(asked.cx(clock::now()), &mut busy);
        assert!(busy.is_empty());
    }

    #[test]
    fn a_limit_that_nothing_fits_into_and_an_unknown_mode_are_refused() {
        for (raw, message) in [
            (json!({"maxConcurrency": 0}), "maxConcurrency is 0, give more than 0"),
            (json!({"maxTokenConcurrency": -5}), "maxTokenConcurrency is -5, give more than 0"),
            (json!({"headroom": -1}), "headroom is -1, give 0 or more"),
            (
                json!({"concurrencyMode": "bytes"}),
                "unknown variant `bytes`, expected one of `requests`, `tokens`, `hybrid`",
            ),
        ] {
            assert_eq!(detector(raw).unwrap_err(), message);
        }
    }
}
