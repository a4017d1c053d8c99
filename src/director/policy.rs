//! What the configuration says of decisions; replaced as a whole while decisions are made.

use std::sync::Arc;

use crate::director::admission::Admission;
use crate::schedule::{DetectorStep, Profiles};

/// How endpoints are chosen, and which requests may be placed.
#[derive(Debug)]
pub struct Policy {
    pub(super) profiles: Profiles,
    /// None when everything is admitted.
    pub(super) admission: Option<Admission>,
    /// Names in lower case, sorted.
    headers: Arc<[Arc<str>]>,
}

impl Policy {
    /// Chooses by the profiles. Refuses requests below priority 0 while the detector says that the pool is full; without one
    /// everything is admitted.
    pub fn new(profiles: impl Into<Profiles>, detector: Option<DetectorStep>) -> Self {
        let profiles = profiles.into();
        let admission = detector.map(Admission::by);
        let read = admission.iter().flat_map(Admission::headers);
        let mut names: Vec<Arc<str>> = profiles.headers().chain(read).map(Arc::from).collect();
        names.sort_unstable();
        names.dedup();
        Self { profiles, admission, headers: names.into() }
    }

    /// The request headers that its plugins read.
    pub(super) fn headers(&self) -> &Arc<[Arc<str>]> {
        &self.headers
    }
}
