//! Takes an endpoint for full by its metrics page: the queue is long or the KV cache is used up.
//!
//! `fill = max(waiting / queueDepthThreshold, kvUsage / kvCacheUtilThreshold)`, by what a fresh page tells of the two.
//! Where it is stale or was never read, `fill = in flight / 100`, as the concurrency detector has it by default: a pool
//! that is idle and seldom read is not full. (The reference takes such an endpoint for full, so that a slow scrape sheds
//! every sheddable request.) As a filter it leaves nobody out when all are full.

use std::time::Duration;

use serde::Deserialize;

use crate::pool::{Reading, Slot};
use crate::schedule::detector::concurrency::MAX_CONCURRENCY;
use crate::schedule::detector::{Detector, limit, threshold};
use crate::schedule::registry::{BadParameters, Build, Empty, Plugin, parameters};
use crate::schedule::{Filter, Needs, PickContext};
use crate::units::{GoDuration, Positive};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "utilization-detector",
    summary: "Full is an endpoint with a long queue or a full KV cache: the greater of `waiting / queueDepthThreshold` \
              and `KV usage / kvCacheUtilThreshold`; `in flight / 100` where its metrics are stale or unknown. As a \
              filter it keeps all when all are full.",
    needs: Needs::NONE,
    build: Build::Detector(
        |raw| Ok(Box::new(parameters::<Parameters>(raw)?.detector()?)),
        Empty::Load,
    ),
};

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Parameters {
    /// Waiting requests of a full endpoint, above 0; default 5, the reference's.
    queue_depth_threshold: f32,
    /// Used share of the KV cache of a full endpoint, above 0 and at most 1; default 0.8, the reference's.
    kv_cache_util_threshold: f32,
    /// Age from which metrics are stale, but never less than four scrape intervals, or they would be stale between two
    /// scrapes; the pool's own rule holds alone when absent, and else too.
    metrics_staleness_threshold: Option<Positive<GoDuration>>,
    /// How much fuller than full an endpoint may be that is kept, as a share, 0 or more; default 0.
    headroom: f32,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            queue_depth_threshold: 5.0,
            kv_cache_util_threshold: 0.8,
            metrics_staleness_threshold: None,
            headroom: 0.0,
        }
    }
}

impl Parameters {
    fn detector(self) -> Result<Utilization, BadParameters> {
        let kv = threshold("kvCacheUtilThreshold", self.kv_cache_util_threshold)?;
        if kv > 1.0 {
            let message = format!("kvCacheUtilThreshold is {kv}, give at most 1");
            return Err(BadParameters(message));
        }
        Ok(Utilization {
            queue: threshold("queueDepthThreshold", self.queue_depth_threshold)?,
            kv,
            staleness: self.metrics_staleness_threshold.map(|Positive(GoDuration(age))| age),
            limit: limit(self.headroom)?,
        })
    }
}

#[derive(Debug)]
struct Utilization {
    queue: f32,
    kv: f32,
    staleness: Option<Duration>,
    limit: f32,
}

impl Utilization {
    /// What a page that may be trusted tells; none without one.
    fn told(&self, PickContext { snapshot, now, .. }: PickContext<'_>, slot: Slot) -> Option<f32> {
        if self.staleness.is_some_and(|age| !snapshot.fresh_within(slot, age, now)) {
            return None;
        }
        let share = |reading, full| match reading {
            Reading::Fresh(value) => Some(value / full),
            Reading::Stale | Reading::Unknown => None,
        };
        let queue = share(snapshot.waiting(slot, now), self.queue);
        queue.into_iter().chain(share(snapshot.kv_usage(slot, now), self.kv)).reduce(f32::max)
    }
}

impl Detector for Utilization {
    fn fill(&self, cx: PickContext<'_>, slot: Slot) -> f32 {
        let own = || cx.snapshot.in_flight(slot) as f32 / MAX_CONCURRENCY as f32;
        self.told(cx, slot).unwrap_or_else(own)
    }
}

impl Filter for Utilization {
    fn filter(&self, cx: PickContext<'_>, candidates: &mut Vec<Slot>) {
        let has_room = |slot: &Slot| self.fill(cx, *slot) < self.limit;
        if candidates.iter().any(has_room) {
            candidates.retain(has_room);
        }
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
    use crate::pool::{InFlight, Sample};
    use crate::schedule::fixture;
    use crate::server::clock;

    fn detector(raw: Value) -> Result<Utilization, String> {
        parameters::<Parameters>(raw).and_then(Parameters::detector).map_err(|error| error.0)
    }

    /// Pages that tell queue and KV usage.
    fn pages(values: &[(f32, f32)]) -> Vec<Option<Sample>> {
        let page = |&(waiting, kv)| Sample { kv_usage: Some(kv), ..queue(waiting) };
        values.iter().map(page).map(Some).collect()
    }

    fn queue(waiting: f32) -> Sample {
        Sample { waiting: Some(waiting), ..Sample::default() }
    }

    /// How full endpoints with these pages are by default, `age` after they were read every 50 ms.
    fn fills(raw: Value, pages: &[Option<Sample>], age: Duration, in_flight: usize) -> Vec<f32> {
        let read = clock::now();
        let snapshot = fixture::sampled(pages, read);
        let begin = |_| snapshot.endpoints().map(|endpoint| InFlight::begin(&endpoint.live, 0));
        let _in_flight: Vec<_> = (0..in_flight).flat_map(begin).collect();
        let (asked, detector) = (fixture::Asked::of(&snapshot), detector(raw).unwrap());
        let fill = |&slot| detector.fill(asked.cx(read + age), slot);
        snapshot.ready().iter().map(fill).collect()
    }

    /// Positions of the candidates that are kept.
    fn kept(raw: Value, pages: &[Option<Sample>]) -> Vec<usize> {
        let now = clock::now();
        let snapshot = fixture::sampled(pages, now);
        let mut candidates = snapshot.ready().to_vec();
        detector(raw).unwrap().filter(fixture::Asked::of(&snapshot).cx(now), &mut candidates);
        candidates.iter().map(|slot| slot.index()).collect()
    }

    #[test]
    fn the_fuller_of_queue_and_cache_counts() {
        let mut pages = pages(&[(0.0, 0.0), (5.0, 0.1), (1.0, 0.8), (60.0, 0.4)]);
        pages.push(Some(queue(2.5)));
        let fills = fills(json!({}), &pages, Duration::ZERO, 9);
        assert_eq!(fills, [0.0, 1.0, 1.0, 12.0, 0.5]);
    }

    #[test]
    fn thresholds_are_parameters() {
        let raw = json!({"queueDepthThreshold": 10, "kvCacheUtilThreshold": 0.5});
        let pages = pages(&[(5.0, 0.0), (0.0, 0.5)]);
        assert_eq!(fills(raw, &pages, Duration::ZERO, 0), [0.5, 1.0]);
    }

    // FR-079
    #[test]
    fn without_fresh_metrics_what_is_in_flight_counts() {
        let pages = [Some(queue(60.0)), None, Some(Sample::default())];
        let old = Duration::from_mins(1);
        assert_eq!(fills(json!({}), &pages, old, 0), [0.0; 3], "an idle pool is not full");
        assert_eq!(fills(json!({}), &pages, old, 25), [0.25; 3]);
    }

    #[test]
    fn a_staleness_threshold_is_no_less_than_four_scrape_intervals() {
        let full = |threshold: &str, age| {
            let raw = json!({"metricsStalenessThreshold": threshold});
            fills(raw, &[Some(queue(5.0))], Duration::from_millis(age), 0) == [1.0]
        };
        assert!(full("10ms", 200) && !full("10ms", 201), "50 ms between scrapes");
        assert!(full("1s", 1000) && !full("1s", 1001));
        assert!(full("1h", 2000) && !full("1h", 2001), "the pool's own rule holds too");
    }

    #[test]
    fn a_filter_keeps_those_with_room_and_all_when_none_has() {
        let mut some = pages(&[(4.9, 0.0), (5.0, 0.0), (0.0, 0.8)]);
        some.push(None);
        assert_eq!(kept(json!({}), &some), [0, 3]);
        assert_eq!(kept(json!({"headroom": 0.1}), &some), [0, 1, 2, 3]);
        assert_eq!(kept(json!({}), &pages(&[(5.0, 0.0), (0.0, 0.9)])), [0, 1]);
    }

    #[test]
    fn what_no_load_can_be_divided_by_is_refused() {
        for (raw, message) in [
            (json!({"queueDepthThreshold": 0}), "queueDepthThreshold is 0, give more than 0"),
            (json!({"kvCacheUtilThreshold": -1}), "kvCacheUtilThreshold is -1, give more than 0"),
            (json!({"kvCacheUtilThreshold": 80}), "kvCacheUtilThreshold is 80, give at most 1"),
            (json!({"headroom": -0.5}), "headroom is -0.5, give 0 or more"),
            (
                json!({"metricsStalenessThreshold": "0s"}),
                "`0s` would leave nothing, give more than zero",
            ),
        ] {
            assert_eq!(detector(raw).unwrap_err(), message);
        }
    }
}
