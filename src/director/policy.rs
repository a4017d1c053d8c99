//! What the configuration says of decisions; replaced as a whole while decisions are made.

use std::sync::Arc;

use crate::director::admission::Admission;
use crate::schedule::facts::Facts;
use crate::schedule::{AdmitterStep, DetectorStep, Profiles};

/// How endpoints are chosen, and which requests may be placed.
#[derive(Debug)]
pub struct Policy {
    pub(super) profiles: Profiles,
    /// None when everything is admitted.
    pub(super) admission: Option<Admission>,
    pub(super) facts: Facts,
    /// Names in lower case, sorted.
    headers: Arc<[Arc<str>]>,
}

impl Policy {
    /// Chooses by the profiles. Refuses requests below priority 0 while the detector says that the pool is full; without one
    /// everything is admitted.
    pub fn new(profiles: impl Into<Profiles>, detector: Option<DetectorStep>) -> Self {
        let profiles = profiles.into();
        let admission = detector.map(Admission::by);
        Self { profiles, admission, facts: Facts::default(), headers: Arc::default() }.reading()
    }

    /// Asks these as well before a request is placed that the detector may refuse.
    #[must_use]
    pub fn with_admitters(mut self, admitters: Vec<AdmitterStep>) -> Self {
        self.admission = self.admission.map(|admission| admission.and(admitters));
        self.reading()
    }

    /// Finds these out of requests.
    #[must_use]
    pub fn with_facts(self, facts: Facts) -> Self {
        Self { facts, ..self }.reading()
    }

    /// Goes on with the plugins of the policy before it that are built of the same.
    pub(super) fn after(mut self, before: &Self) -> Self {
        self.profiles.resume(&before.profiles);
        self
    }

    /// Gathers the headers that are read.
    fn reading(mut self) -> Self {
        let admission = self.admission.iter().flat_map(Admission::headers);
        let read = self.profiles.headers().chain(admission).chain(self.facts.headers());
        let mut names: Vec<Arc<str>> = read.map(Arc::from).collect();
        names.sort_unstable();
        names.dedup();
        self.headers = names.into();
        self
    }

    /// The request headers that its plugins read.
    pub(super) fn headers(&self) -> &Arc<[Arc<str>]> {
        &self.headers
    }
}
