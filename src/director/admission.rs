//! Which requests may be placed: those below priority 0 only while the pool has room.
//!
//! The rule of the reference without queues: a request of priority 0 or more is always admitted, one below it is refused
//! when the saturation of the candidates is 1.0 or more.

use std::sync::Arc;

use crate::pool::Slot;
use crate::schedule::profile::contained;
use crate::schedule::{DetectorStep, Fault, PickContext, Trace};

/// Admits or refuses requests by how full the pool is.
#[derive(Debug)]
pub(super) struct Admission(DetectorStep);

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may be placed.
    Admitted,
    /// It may be placed, since the detector failed: a fault of ours sheds nobody.
    AdmittedBy(Fault),
    /// It is refused.
    Shed,
}

impl Admission {
    pub(super) fn by(detector: DetectorStep) -> Self {
        Self(detector)
    }

    /// The headers that its plugin reads.
    pub(super) fn headers(&self) -> Vec<&str> {
        self.0.detector.headers()
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
        let Self(DetectorStep { name, detector }) = self;
        let mut saturation = 0.0;
        if !contained(|| saturation = detector.saturation(cx, candidates)) {
            return Verdict::AdmittedBy(Fault::Panicked(Arc::clone(name)));
        }
        if let Some(trace) = trace {
            trace.saturation = Some((Arc::clone(name), saturation));
        }
        if saturation >= 1.0 { Verdict::Shed } else { Verdict::Admitted }
    }
}
