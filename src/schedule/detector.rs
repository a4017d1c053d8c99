//! Saturation detectors, one file each: how full endpoints are.
//!
//! A detector rates single endpoints; how full a set is, is the mean over it. Each endpoint counts for 1.0 at most, so
//! that a set is saturated when none of its endpoints has room, and only then. (In the reference a value has no limit:
//! one endpoint with sixty requests in its queue saturates ten of which nine are idle.)
//!
//! In a profile the same plugin is a filter: it keeps the endpoints that are less full than `1 + headroom`.

use std::sync::Arc;

use crate::pool::Slot;
use crate::schedule::profile::sound;
use crate::schedule::registry::BadParameters;
use crate::schedule::{Filter, PickContext};

pub(in crate::schedule) mod concurrency;
pub(in crate::schedule) mod utilization;

/// Says how full endpoints are, as a filter leaves out the full ones.
pub trait Detector: Filter {
    /// How full an endpoint is: 0.0 when it is idle, 1.0 or more when it has no room.
    fn fill(&self, cx: PickContext<'_>, slot: Slot) -> f32;

    /// How full the candidates are together, 0.0 ..= 1.0; 1.0 when there is none.
    fn saturation(&self, cx: PickContext<'_>, candidates: &[Slot]) -> f32 {
        if candidates.is_empty() {
            return 1.0;
        }
        let fill = |&slot: &Slot| sound(self.fill(cx, slot));
        candidates.iter().map(fill).sum::<f32>() / candidates.len() as f32
    }
}

/// A detector under its name in the configuration.
#[derive(Debug)]
pub struct DetectorStep {
    /// Its name.
    pub name: Arc<str>,
    /// The detector.
    pub detector: Box<dyn Detector>,
}

/// `value` if it is one that a load can be divided by.
fn threshold(name: &str, value: f32) -> Result<f32, BadParameters> {
    let good = value.is_finite() && value > 0.0;
    let refused = || BadParameters(format!("{name} is {value}, give more than 0"));
    good.then_some(value).ok_or_else(refused)
}

/// How full an endpoint may be that is kept: 1.0 and the headroom over it.
fn limit(headroom: f32) -> Result<f32, BadParameters> {
    let good = headroom.is_finite() && headroom >= 0.0;
    let refused = || BadParameters(format!("headroom is {headroom}, give 0 or more"));
    good.then_some(1.0 + headroom).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pool::Sample;
    use crate::schedule::fixture;
    use crate::schedule::registry::{Build, PLUGINS, Parameters};
    use crate::server::clock;

    /// Fills endpoints by their slot.
    #[derive(Debug)]
    struct BySlot(Vec<f32>);

    impl Filter for BySlot {
        fn filter(&self, _: PickContext<'_>, _: &mut Vec<Slot>) {}
    }

    impl Detector for BySlot {
        fn fill(&self, _: PickContext<'_>, slot: Slot) -> f32 {
            self.0[slot.index()]
        }
    }

    fn saturation(fills: &[f32]) -> f32 {
        let snapshot = fixture::snapshot(u16::try_from(fills.len()).unwrap());
        let asked = fixture::Asked::of(&snapshot);
        BySlot(fills.to_vec()).saturation(asked.cx(clock::now()), snapshot.ready())
    }

    #[test]
    fn one_long_queue_does_not_saturate_an_idle_pool() {
        let mut fills = [0.0; 10];
        fills[3] = 12.0;
        assert_eq!(saturation(&fills).to_bits(), 0.1_f32.to_bits());
    }

    #[test]
    fn a_pool_is_saturated_when_no_endpoint_has_room() {
        for count in [1, 3, 7, 1000] {
            let mut fills = vec![1.0; count];
            assert!(saturation(&fills) >= 1.0, "{count}");
            fills[0] = 0.8;
            assert!(saturation(&fills) < 1.0, "{count}");
        }
        assert!(saturation(&[]) >= 1.0, "no endpoint has no room");
    }

    #[test]
    fn what_is_no_number_counts_as_room() {
        assert_eq!(saturation(&[f32::NAN, f32::INFINITY, -3.0, 1.0]).to_bits(), 0.5_f32.to_bits());
    }

    /// A value as a page may have it, and most often one that a server tells.
    fn value() -> impl Strategy<Value = Option<f32>> {
        prop_oneof![
            Just(None),
            any::<f32>().prop_map(Some),
            (0.0_f32..20.0).prop_map(Some),
            (0.0_f32..1.0).prop_map(Some),
        ]
    }

    proptest! {
        #[test]
        fn any_pool_has_a_saturation_and_a_filter_adds_nobody(
            pages in proptest::collection::vec(proptest::option::of((value(), value())), 0..9),
            age in 0_u64..10_000,
        ) {
            let read = clock::now();
            let page = |&(waiting, kv_usage)| Sample { waiting, kv_usage, ..Sample::default() };
            let samples: Vec<_> = pages.iter().map(|values| values.as_ref().map(page)).collect();
            let snapshot = fixture::sampled(&samples, read);
            let asked = fixture::Asked::of(&snapshot);
            let cx = asked.cx(read + std::time::Duration::from_millis(age));
            for plugin in PLUGINS {
                let Build::Detector(build, _) = plugin.build else { continue };
                let detector = build(Parameters::Null).unwrap();
                let saturation = detector.saturation(cx, snapshot.ready());
                prop_assert!((0.0..=1.0).contains(&saturation), "{}: {saturation}", plugin.name);
                let mut kept = snapshot.ready().to_vec();
                detector.filter(cx, &mut kept);
                prop_assert!(kept.iter().all(|slot| snapshot.ready().contains(slot)));
                prop_assert!(kept.is_sorted());
            }
        }
    }
}
