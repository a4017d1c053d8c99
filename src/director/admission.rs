//! Which requests may be placed: those below priority 0 only while the pool has room.
//!
//! The rule of the reference without queues: a request of priority 0 or more is always admitted, one below it is refused
//! when the saturation of the candidates is 1.0 or more, or when an admitter refuses it.

use std::sync::Arc;

use crate::pool::Slot;
use crate::schedule::profile::contained;
use crate::schedule::{AdmitterStep, DetectorStep, Fault, PickContext, Trace};

/// Admits or refuses requests by how full the pool is.
#[derive(Debug)]
pub(super) struct Admission {
    detector: DetectorStep,
    /// Asked in this order where the detector sheds nobody.
    admitters: Vec<AdmitterStep>,
}

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may be placed.
    Admitted,
    /// It may be placed, as far as a plugin that failed is concerned: a fault of ours sheds nobody.
    AdmittedBy(Fault),
    /// It is refused.
    Shed,
}

impl Admission {
    pub(super) fn by(detector: DetectorStep) -> Self {
        Self { detector, admitters: Vec::new() }
    }

    /// Asks these as well.
    pub(super) fn and(self, admitters: Vec<AdmitterStep>) -> Self {
        Self { admitters, ..self }
    }

    /// What says how full the pool is.
    pub(super) fn detector(&self) -> &DetectorStep {
        &self.detector
    }

    /// The headers that its plugins read.
    pub(super) fn headers(&self) -> impl Iterator<Item = &str> {
        let admitters = self.admitters.iter().flat_map(|step| step.admitter.headers());
        self.detector.detector.headers().into_iter().chain(admitters)
    }

    /// Judges a request of this priority that could go to these candidates.
    pub(super) fn judge(
        &self,
        priority: i32,
        cx: PickContext<'_>,
        candidates: &[Slot],
        trace: Option<&mut Trace>,
    ) -> Verdict {
        if priority >= 0 {
            return Verdict::Admitted;
        }
        let Self { detector: DetectorStep { name, detector }, admitters } = self;
        let mut saturation = None;
        let full = || *saturation.insert(detector.saturation(cx, candidates)) >= 1.0;
        let mut verdict = Verdict::Admitted.and(name, full);
        for AdmitterStep { name, admitter } in admitters {
            verdict = verdict.and(name, || admitter.refuses(cx, candidates));
        }
        if let Some(trace) = trace {
            trace.saturation = saturation.map(|saturation| (Arc::clone(name), saturation));
        }
        verdict
    }
}

impl Verdict {
    /// The verdict after one more plugin; a request that is shed is, and the first fault stays.
    fn and(self, name: &str, refuses: impl FnOnce() -> bool) -> Self {
        if self == Self::Shed {
            return self;
        }
        let mut sheds = false;
        let done = contained(|| sheds = refuses());
        if sheds {
            return Self::Shed;
        }
        if done || self != Self::Admitted {
            self
        } else {
            Self::AdmittedBy(Fault::Panicked(name.into()))
        }
    }
}
