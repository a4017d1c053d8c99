//! How full the pool is, for whoever watches it.

use std::sync::Arc;
use std::time::Instant;

use crate::director::Director;
use crate::request::Parsed;
use crate::schedule::profile::contained;
use crate::schedule::{Headers, PickContext, Signals};

/// How full the pool is by the detector that sheds requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Fullness {
    /// The name of the detector in the configuration.
    pub detector: Arc<str>,
    /// Of all endpoints that may be chosen: 0.0 when they are idle, 1.0 when none has room or there is none.
    pub saturation: f32,
    /// How many of them have no fresh sample.
    pub stale: usize,
}

impl Director {
    /// How full the pool is; none where nothing is shed, or where the detector fails.
    pub fn fullness(&self, now: Instant) -> Option<Fullness> {
        let (snapshot, rules) = (self.pool.load(), self.rules.load());
        let step = rules.policy.admission.as_ref()?.detector();
        let (request, headers, signals) =
            (Parsed::default(), Headers::default(), Signals::default());
        let cx = PickContext {
            request: &request,
            model: None,
            headers: &headers,
            snapshot: &snapshot,
            signals: &signals,
            now,
            dice: 0,
        };
        let mut saturation = None;
        contained(|| saturation = Some(step.detector.saturation(cx, snapshot.ready())));
        let stale = snapshot.ready().iter().filter(|&&slot| !snapshot.fresh(slot, now)).count();
        Some(Fullness { detector: Arc::clone(&step.name), saturation: saturation?, stale })
    }
}
