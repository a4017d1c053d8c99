//! From the pool and its pods to endpoints: what holds while one of them is not known.
//!
//! | the pool | endpoints | ready |
//! |---|---|---|
//! | not found yet | none | no |
//! | known, pods not listed yet | none | no |
//! | known, pods listed | those of the pods | yes |
//! | changed, pods of its new selector not listed yet | as before | yes |
//! | not valid any more | as the last valid one says | yes |
//! | deleted | as before for 30 s, then none | no |
//!
//! What the API server does not answer changes nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::convert::{self, Member, Said, Target};
use super::follow::Listing;
use crate::pool::{EndpointSpec, FailureMode};

/// How long the endpoints of a deleted pool stay: it may come back, as by `kubectl replace --force`.
const GRACE: Duration = Duration::from_secs(30);

/// What is known of the pool.
#[derive(Debug)]
pub(super) struct View {
    /// How messages call the pool.
    key: String,
    /// The UID of the newest one.
    uid: String,
    /// The last valid one.
    target: Option<Target>,
    /// Why the newest one is not valid.
    problem: Option<String>,
    /// Since when there is none.
    gone: Option<Instant>,
    /// Whether the pods of a selector of this pool were ever complete.
    listed: bool,
}

/// What to tell others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Which pods to follow; none for none.
    pub(super) labels: Option<Arc<str>>,
    /// None when they stay as they are.
    pub(super) endpoints: Option<Vec<EndpointSpec>>,
    /// What the pool says of faults.
    pub(super) failure_mode: Option<FailureMode>,
    /// Why we are not ready, in words.
    pub(super) missing: Option<String>,
    /// What is wrong although we are ready, in words.
    pub(super) warning: Option<String>,
    /// When to look again although nothing has changed.
    pub(super) again: Option<Instant>,
}

/// Something that a person should mend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    /// The UID of the pool.
    pub(super) uid: String,
    /// In one word.
    pub(super) reason: &'static str,
    /// In a sentence.
    pub(super) note: String,
}

impl View {
    /// No pool is known yet.
    pub(super) fn of_pool(key: String) -> Self {
        Self { key, uid: String::new(), target: None, problem: None, gone: None, listed: false }
    }

    /// There is no pool object; the target is fixed.
    pub(super) fn of_selector(target: Target) -> Self {
        let key = format!("selector {}", target.labels);
        Self { target: Some(target), ..Self::of_pool(key) }
    }

    /// Takes in what was listed of the pool.
    pub(super) fn pool(&mut self, pool: &Listing<Said>, now: Instant) {
        if pool.complete.is_none() {
            return;
        }
        let said = pool.items().values().next();
        self.problem = None;
        if let Some(Said { uid, target }) = said {
            self.uid.clone_from(uid);
            match target {
                Ok(target) => self.target = Some(target.clone()),
                Err(problem) => self.problem = Some(problem.clone()),
            }
        }
        let gone = said.is_none() && self.target.is_some();
        self.gone = gone.then(|| self.gone.unwrap_or(now));
    }

    /// What holds now, with the pods as they are listed.
    pub(super) fn outcome(
        &mut self,
        pool: &Listing<Said>,
        pods: &Listing<Member>,
        now: Instant,
    ) -> Outcome {
        let over = self.gone.is_some_and(|gone| now >= gone + GRACE);
        if over {
            (self.target, self.gone, self.listed) = (None, None, false);
        }
        let Some(target) = &self.target else {
            let missing = Some(self.without_pool(pool));
            let endpoints = over.then(Vec::new);
            return Outcome { endpoints, missing, ..Outcome::default() };
        };
        let complete = pods.complete.as_ref() == Some(&target.labels);
        self.listed |= complete;
        let endpoints = complete.then(|| convert::endpoints(pods.items().values(), &target.ports));
        let missing = match (self.gone, self.listed) {
            (Some(_), _) => Some(format!("{} was deleted", self.key)),
            (None, true) => None,
            (None, false) => Some(because(
                format!("pods with {} not listed yet", target.labels),
                pods.trouble.as_deref(),
            )),
        };
        Outcome {
            labels: Some(Arc::clone(&target.labels)),
            endpoints,
            failure_mode: target.failure_mode,
            missing,
            warning: self.invalid().map(|text| format!("{text}; the last valid state of it holds")),
            again: self.gone.map(|gone| gone + GRACE),
        }
    }

    /// What a person should know of the pool.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        let (reason, note) = match (self.gone, self.invalid()) {
            (Some(_), _) => {
                ("PoolDeleted", format!("{} was deleted while it was served", self.key))
            }
            (None, Some(text)) => ("InvalidPool", text),
            (None, None) => return None,
        };
        Some(Trouble { uid: self.uid.clone(), reason, note })
    }

    fn without_pool(&self, pool: &Listing<Said>) -> String {
        let absent = || because(format!("{} not found yet", self.key), pool.trouble.as_deref());
        self.invalid().unwrap_or_else(absent)
    }

    fn invalid(&self) -> Option<String> {
        self.problem.as_ref().map(|problem| format!("{} is not valid: {problem}", self.key))
    }
}

fn because(what: String, trouble: Option<&str>) -> String {
    match trouble {
        Some(trouble) => format!("{what}: {trouble}"),
        None => what,
    }
}

#[cfg(test)]
mod tests;
