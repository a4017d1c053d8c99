//! Keeps the endpoints that are below some measures of load.
//!
//! Kept is an endpoint where each condition holds: `metric <= maxValue`. A stale count of requests is taken to be what this
//! process has in flight there; what was never read, and a stale share of the KV cache, is the median of the known
//! candidates, so that an unknown endpoint is neither idle nor full (the reference takes it for idle). Where nothing is
//! known of anybody all are kept. Where none is below, none is kept: 429; or all with `fallbackOnEmpty`.

use serde::Deserialize;
use smallvec::{SmallVec, smallvec};

use crate::pool::{Reading, Slot};
use crate::schedule::readings::{Values, fill};
use crate::schedule::registry::{BadParameters, Build, Empty, Plugin, parameters};
use crate::schedule::{Filter, Needs, PickContext};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "utilization-filter",
    summary: "Keeps the endpoints of which every listed metric is at most its maximum; an unknown one counts as the median \
              of the known. Where none is: 429, or all with `fallbackOnEmpty`.",
    needs: Needs::NONE,
    build: Build::Filter(
        |raw| Ok(Box::new(parameters::<Utilization>(raw)?.checked()?)),
        Empty::Load,
    ),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Utilization {
    /// At least one; all must hold.
    conditions: Vec<Condition>,
    /// Whether all are kept where none would be; default false.
    #[serde(default)]
    fallback_on_empty: bool,
    /// Whose count of active requests it is; there is one.
    #[serde(default, rename = "inFlightLoadProducerName")]
    _producer: Option<String>,
}

/// The most that a metric may be.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Condition {
    metric: Metric,
    /// 0.0 or more; at most 1.0 for the KV cache.
    max_value: f32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Metric {
    /// Requests that this process has in flight there.
    ActiveRequests,
    /// Requests that the server computes.
    RunningRequests,
    /// Requests in the server's queue.
    WaitingQueue,
    /// Used share of the KV cache, 0.0 ..= 1.0.
    KvCacheUtilization,
}

impl Utilization {
    fn checked(self) -> Result<Self, BadParameters> {
        if self.conditions.is_empty() {
            return Err(BadParameters("conditions is empty, give one at least".to_owned()));
        }
        for Condition { metric, max_value } in &self.conditions {
            let (most, range) = match metric {
                Metric::KvCacheUtilization => (1.0, "a number from 0 to 1"),
                Metric::ActiveRequests | Metric::RunningRequests | Metric::WaitingQueue => {
                    (f32::INFINITY, "0 or more")
                }
            };
            if !(0.0..=most).contains(max_value) {
                let message = format!("conditions: maxValue is {max_value}, give {range}");
                return Err(BadParameters(message));
            }
        }
        Ok(self)
    }
}

impl Metric {
    /// As it is written.
    fn name(self) -> &'static str {
        match self {
            Self::ActiveRequests => "active-requests",
            Self::RunningRequests => "running-requests",
            Self::WaitingQueue => "waiting-queue",
            Self::KvCacheUtilization => "kv-cache-utilization",
        }
    }

    /// Writes its value for each candidate.
    fn read(self, cx: PickContext<'_>, candidates: &[Slot], values: &mut [f32]) {
        let snapshot = cx.snapshot;
        let own = |slot| snapshot.in_flight(slot) as f32;
        match self {
            Self::ActiveRequests => {
                fill(cx, candidates, values, |slot, _| Reading::Fresh(own(slot)), |_| None);
            }
            Self::RunningRequests => {
                let running = |slot, now| snapshot.running(slot, now);
                fill(cx, candidates, values, running, |slot| Some(own(slot)));
            }
            Self::WaitingQueue => {
                let waiting = |slot, now| snapshot.waiting(slot, now);
                fill(cx, candidates, values, waiting, |slot| Some(own(slot)));
            }
            Self::KvCacheUtilization => {
                let usage = |slot, now| snapshot.kv_usage(slot, now);
                fill(cx, candidates, values, usage, |_| None);
            }
        }
    }
}

impl Filter for Utilization {
    fn filter(&self, cx: PickContext<'_>, candidates: &mut Vec<Slot>) {
        let mut below: SmallVec<[bool; 64]> = smallvec![true; candidates.len()];
        let mut values: Values = smallvec![0.0; candidates.len()];
        for Condition { metric, max_value } in &self.conditions {
            metric.read(cx, candidates, &mut values);
            below.iter_mut().zip(&values).for_each(|(below, value)| *below &= value <= max_value);
        }
        if self.fallback_on_empty && !below.contains(&true) {
            return;
        }
        let mut below = below.into_iter();
        candidates.retain(|_| below.next() == Some(true));
    }

    fn reason(&self, cx: PickContext<'_>, slot: Slot) -> Option<String> {
        let above = |condition: &&Condition| {
            let mut value = [0.0];
            condition.metric.read(cx, &[slot], &mut value);
            let [value] = value;
            (value > condition.max_value).then(|| {
                let Condition { metric, max_value } = condition;
                format!("its {} is {value}, more than {max_value}", metric.name())
            })
        };
        let unknown = || "what is not known of it counts as the median of the others".to_owned();
        Some(self.conditions.iter().find_map(|it| above(&it)).unwrap_or_else(unknown))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use serde_json::{Value, json};

    use super::*;
    use crate::pool::{Endpoint, InFlight, Sample, Snapshot};
    use crate::schedule::fixture;
    use crate::server::clock;

    fn filter(raw: Value) -> Result<Utilization, String> {
        parameters::<Utilization>(raw).and_then(Utilization::checked).map_err(|error| error.0)
    }

    fn at_most(metric: &str, max: f64) -> Utilization {
        filter(json!({"conditions": [{"metric": metric, "maxValue": max}]})).unwrap()
    }

    fn sample(waiting: f32, kv_usage: f32) -> Sample {
        let [waiting, running, kv_usage] = [waiting, waiting + 1.0, kv_usage].map(Some);
        Sample { waiting, running, kv_usage, ..Sample::default() }
    }

    /// Endpoints of which this was read just now, or nothing ever.
    fn pool<const N: usize>(samples: [Option<(f32, f32)>; N], read: Instant) -> Snapshot {
        let sample = |read: Option<_>| read.map(|(waiting, kv)| sample(waiting, kv));
        fixture::sampled(&samples.map(sample), read)
    }

    /// Puts so many requests on an endpoint.
    fn load(snapshot: &Snapshot, at: usize, count: usize) -> Vec<InFlight> {
        let endpoint: &Arc<Endpoint> = snapshot.endpoints().nth(at).unwrap();
        (0..count).map(|_| InFlight::begin(&endpoint.live, 0)).collect()
    }

    #[test]
    fn each_metric_may_be_as_much_as_its_maximum() {
        let pool = pool([Some((0.0, 0.5)), Some((4.0, 0.9))], clock::now());
        let _in_flight = load(&pool, 0, 3);
        let kept = |metric, max| fixture::kept(&at_most(metric, max), &pool);
        assert_eq!(kept("waiting-queue", 3.0), [0]);
        assert_eq!(kept("waiting-queue", 4.0), [0, 1]);
        assert_eq!(kept("running-requests", 1.0), [0]);
        assert_eq!(kept("kv-cache-utilization", 0.5), [0]);
        assert_eq!(kept("active-requests", 2.0), [1]);
        assert_eq!(kept("active-requests", 3.0), [0, 1]);
    }

    #[test]
    fn all_conditions_hold_together_and_none_or_all_are_left_when_nobody_meets_them() {
        let pool = pool([Some((9.0, 0.1)), Some((0.0, 0.95))], clock::now());
        let both = json!([{"metric": "waiting-queue", "maxValue": 8}, {"metric": "kv-cache-utilization", "maxValue": 0.9}]);
        let kept = |raw| fixture::kept(&filter(raw).unwrap(), &pool);
        assert!(kept(json!({"conditions": both})).is_empty());
        assert_eq!(kept(json!({"conditions": both, "fallbackOnEmpty": true})), [0, 1]);
    }

    // FR-092
    #[test]
    fn an_unknown_endpoint_is_like_the_median_of_the_known() {
        let [busy, calm] = [9.0, 1.0].map(|second| {
            let known = [9.0, second, 0.0].map(|waiting| Some((waiting, 0.1)));
            pool([known[0], known[1], known[2], None], clock::now())
        });
        assert_eq!(fixture::kept(&at_most("waiting-queue", 8.0), &busy), [2]);
        assert_eq!(fixture::kept(&at_most("waiting-queue", 8.0), &calm), [1, 2, 3]);
    }

    #[test]
    fn where_nothing_is_known_all_are_kept() {
        for size in [1, 1000] {
            let pool = fixture::snapshot(size);
            for metric in ["waiting-queue", "running-requests", "kv-cache-utilization"] {
                assert_eq!(fixture::kept(&at_most(metric, 0.0), &pool).len(), usize::from(size));
            }
        }
    }

    #[test]
    fn a_stale_count_is_what_we_have_in_flight_and_a_stale_share_is_unknown() {
        let read = clock::now();
        let pool = pool([Some((9.0, 0.95)), Some((0.0, 0.1))], read);
        let _in_flight = load(&pool, 1, 9);
        let asked = fixture::Asked::of(&pool);
        let later = asked.cx(read + Duration::from_mins(1));
        assert_eq!(fixture::kept_for(&at_most("waiting-queue", 8.0), later), [0]);
        assert_eq!(fixture::kept_for(&at_most("running-requests", 8.0), later), [0]);
        assert_eq!(fixture::kept_for(&at_most("kv-cache-utilization", 0.5), later), [0, 1]);
    }

    #[test]
    fn what_is_no_condition_is_refused_with_the_range() {
        let one =
            |metric: &str, max: Value| json!({"conditions": [{"metric": metric, "maxValue": max}]});
        for (raw, want) in [
            (json!({}), "missing field `conditions`"),
            (json!({"conditions": []}), "give one at least"),
            (one("waiting-queue", json!(-1)), "maxValue is -1, give 0 or more"),
            (one("kv-cache-utilization", json!(1.5)), "maxValue is 1.5, give a number from 0 to 1"),
            (one("queue", json!(1)), "unknown variant `queue`"),
            (json!({"conditions": [{"metric": "waiting-queue"}]}), "missing field `maxValue`"),
        ] {
            let error = filter(raw).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }
}
