//! From the pool and its pods to endpoints: what holds while one of them is not known.
//!
//! | the pool | endpoints | ready |
//! |---|---|---|
//! | not known yet | none | no |
//! | known, pods not listed yet | none | no |
//! | known, pods listed, also when there are none | those of the pods | yes |
//! | changed, pods of its new selector not listed yet | as before | yes |
//! | not valid any more | as the last valid one says | yes |
//! | deleted | as before for 30 s, then none | for 30 s |
//!
//! What the API server does not answer changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::convert::{self, Emptied, Idle, Leaving, Member, Said, Target};
use super::follow::Listing;
use crate::pool::{EndpointSpec, FailureMode, Reason};

/// How long the endpoints of a deleted pool stay: it may come back, as by `kubectl replace --force`.
const GRACE: Duration = Duration::from_secs(30);

/// What is known of the pool.
#[derive(Debug)]
pub(super) struct View {
    /// How messages call the pool.
    key: String,
    /// Where its pods are.
    namespace: String,
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
    /// What is to be mended of the pods that were listed last: reason and sentence.
    idle: Option<(&'static str, String)>,
    /// Nodes that are about to be emptied.
    emptied: BTreeMap<String, Emptied>,
}

/// What to tell others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Which pods to follow; none for none.
    pub(super) labels: Option<Arc<str>>,
    /// None when they stay as they are.
    pub(super) endpoints: Option<Vec<EndpointSpec>>,
    /// The pods of the endpoints that are to drain, by UID.
    pub(super) leaving: Vec<(Box<str>, Leaving)>,
    /// What the pool says of faults.
    pub(super) failure_mode: Option<FailureMode>,
    /// Why we are not ready, in words.
    pub(super) missing: Option<String>,
    /// Whether something is missing just because the API server has not answered yet.
    pub(super) asking: bool,
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
    pub(super) fn of_pool(namespace: &str, name: &str) -> Self {
        Self {
            key: format!("InferencePool {namespace}/{name}"),
            namespace: namespace.to_owned(),
            uid: String::new(),
            target: None,
            problem: None,
            gone: None,
            listed: false,
            idle: None,
            emptied: BTreeMap::new(),
        }
    }

    /// There is no pool object; the target is fixed.
    pub(super) fn of_selector(namespace: &str, target: Target) -> Self {
        let key = format!("selector {}", target.labels);
        Self { key, target: Some(target), ..Self::of_pool(namespace, "") }
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

    /// Takes in which nodes are about to be emptied.
    pub(super) fn nodes(&mut self, nodes: &Listing<Emptied>) {
        self.emptied.clone_from(nodes.items());
    }

    /// Who is to drain. More than half of the pods on nodes that are cordoned is maintenance of the whole cluster: nobody has
    /// said that they go soon, and the rest could not bear their load.
    fn leaving(&self, pods: &Listing<Member>) -> Vec<(Box<str>, Leaving)> {
        let node = |member: &Member| self.emptied.get(member.node()).copied();
        let members = || pods.items().values();
        let cordoned = |member: &&Member| node(member) == Some(Emptied(Reason::NodeCordoned));
        let few = members().filter(cordoned).count() * 2 <= members().count();
        let counts = |emptied: &Emptied| few || emptied.0 != Reason::NodeCordoned;
        let leaving = |member: &Member| {
            Some((member.uid().into(), member.leaving(node(member).filter(counts))?))
        };
        members().filter_map(leaving).collect()
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
            (self.target, self.gone, self.listed, self.idle) = (None, None, false, None);
        }
        let Some(target) = &self.target else {
            let missing = Some(self.without_pool(pool));
            let endpoints = over.then(Vec::new);
            let asking = pool.complete.is_none() && pool.trouble.is_none();
            return Outcome { endpoints, missing, asking, ..Outcome::default() };
        };
        let complete = pods.complete.as_ref() == Some(&target.labels);
        self.listed |= complete;
        let endpoints = complete.then(|| convert::endpoints(pods.items().values(), &target.ports));
        let leaving = if complete { self.leaving(pods) } else { Vec::new() };
        self.idle = complete.then(|| idle(&self.namespace, target, pods)).flatten();
        let missing = match (self.listed, self.gone, &pods.trouble) {
            (true, _, _) => None,
            (false, Some(_), _) => Some(format!("{} was deleted", self.key)),
            (false, None, None) => Some(format!("pods with {} not listed yet", target.labels)),
            (false, None, Some(trouble)) => {
                Some(format!("pods with {} cannot be listed: {trouble}", target.labels))
            }
        };
        Outcome {
            labels: Some(Arc::clone(&target.labels)),
            endpoints,
            leaving,
            failure_mode: target.failure_mode,
            missing,
            asking: self.gone.is_none() && pods.trouble.is_none(),
            warning: self.warning(),
            again: self.gone.map(|gone| gone + GRACE),
        }
    }

    fn warning(&self) -> Option<String> {
        let deleted = || format!("{} was deleted, it is served for {GRACE:?} more", self.key);
        let invalid = |text| format!("{text}; the last valid state of it holds");
        let idle = || self.idle.as_ref().map(|(_, text)| text.clone());
        self.gone.map(|_| deleted()).or_else(|| self.invalid().map(invalid)).or_else(idle)
    }

    /// What a person should know of the pool; none where there is no object to tell it of.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        if self.uid.is_empty() {
            return None;
        }
        let (reason, note) = match (self.gone, self.invalid()) {
            (Some(_), _) => {
                ("PoolDeleted", format!("{} was deleted while it was served", self.key))
            }
            (None, Some(text)) => ("InvalidPool", text),
            (None, None) => self.idle.clone()?,
        };
        Some(Trouble { uid: self.uid.clone(), reason, note })
    }

    fn without_pool(&self, pool: &Listing<Said>) -> String {
        let unknown = || match &pool.trouble {
            Some(trouble) => format!("{} cannot be read: {trouble}", self.key),
            None if pool.complete.is_none() => format!("{} not known yet", self.key),
            None => format!("{} not found", self.key),
        };
        self.invalid().unwrap_or_else(unknown)
    }

    fn invalid(&self) -> Option<String> {
        self.problem.as_ref().map(|problem| format!("{} is not valid: {problem}", self.key))
    }
}

/// Why pods that were listed are fewer than a person may think: reason and sentence.
fn idle(
    namespace: &str,
    target: &Target,
    pods: &Listing<Member>,
) -> Option<(&'static str, String)> {
    if pods.items().is_empty() {
        let labels = &target.labels;
        return Some(("NoPods", format!("no ready pod matches {labels} in namespace {namespace}")));
    }
    if let Some(note) = pods.items().values().find_map(Member::misread) {
        return Some(("UnreadableDrain", note));
    }
    let mut idle = pods.items().values().filter_map(|member| member.idle(&target.ports));
    let Idle { pod, annotation, value } = idle.next()?;
    let others = match idle.count() {
        0 => String::new(),
        others => format!(", like {others} more"),
    };
    let note = format!("pod {pod}{others}: annotation {annotation}={value:?} names no target port");
    Some(("NoActivePorts", note))
}

#[cfg(test)]
mod tests;
