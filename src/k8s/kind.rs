//! A kind of objects that is followed, and how that goes: for logs, metrics and probes.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::fault::{EXPIRED, Fault, State};

/// A kind of objects in one namespace.
#[derive(Debug)]
pub(crate) struct Kind {
    /// Plural and group, as `kubectl get` takes it.
    pub(super) name: String,
    plural: String,
    group: String,
    place: Place,
    /// The only object that is asked for, without which nothing is served; none for all.
    object: Option<String>,
    /// Whether it is of the cluster, not of a namespace.
    cluster: bool,
    /// What is off without it.
    purpose: &'static str,
    progress: Mutex<Progress>,
}

/// Where objects are.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The address of the API server.
    pub(super) server: Arc<str>,
    pub(super) namespace: Arc<str>,
}

/// How it goes.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    pub(super) state: State,
    /// When the API server last said something of this kind; none when never.
    pub(super) heard: Option<Instant>,
    /// How often it had to be asked anew, by reason. Bounded by the reasons of [`Fault`].
    pub(super) restarts: BTreeMap<&'static str, u64>,
    /// Whether objects are left out because there are too many.
    full: bool,
}

impl Kind {
    /// A kind, or one object of it; the core group is empty.
    pub(super) fn new(
        (group, plural): (&str, &str),
        object: Option<&str>,
        place: &Place,
        purpose: &'static str,
    ) -> Arc<Self> {
        Arc::new(Self::in_namespace((group, plural), object, place, purpose))
    }

    /// All objects of a kind that is in no namespace.
    pub(super) fn of_cluster(
        kind: (&str, &str),
        place: &Place,
        purpose: &'static str,
    ) -> Arc<Self> {
        Arc::new(Self { cluster: true, ..Self::in_namespace(kind, None, place, purpose) })
    }

    fn in_namespace(
        (group, plural): (&str, &str),
        object: Option<&str>,
        place: &Place,
        purpose: &'static str,
    ) -> Self {
        let name = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
        let (state, restarts) = (State::Starting, BTreeMap::default());
        let progress = Progress { state, heard: None, restarts, full: false };
        Self {
            name,
            plural: plural.to_owned(),
            group: group.to_owned(),
            place: place.clone(),
            object: object.map(str::to_owned),
            cluster: false,
            purpose,
            progress: Mutex::new(progress),
        }
    }

    /// How it goes now.
    pub(super) fn progress(&self) -> Progress {
        self.progress.lock().clone()
    }

    /// The API server said something.
    pub(super) fn heard(&self) {
        self.progress.lock().heard = Some(Instant::now());
    }

    /// All is known.
    pub(super) fn following(&self) {
        self.heard();
        if self.enter(State::Following) {
            let namespace = &*self.place.namespace;
            tracing::info!(kind = self.name, namespace, "kind followed");
        }
    }

    /// Something went wrong; what is known stays. Each change of state is logged once.
    pub(super) fn failed(&self, fault: &Fault) {
        // A version grows old in any watch of what seldom changes.
        let changed = fault.reason != EXPIRED && self.enter(fault.state);
        // A kind that is just looked for is no news.
        if changed || !matches!(fault.state, State::Absent | State::Forbidden) {
            *self.progress.lock().restarts.entry(fault.reason).or_default() += 1;
        }
        if changed {
            self.tell(fault);
        }
    }

    fn tell(&self, fault: &Fault) {
        let (kind, purpose, error) = (&self.name, self.purpose, &*fault.text);
        let Place { server, namespace } = &self.place;
        match fault.state {
            State::Absent if self.object.is_some() => {
                let error = &*self.explained(fault);
                tracing::warn!(kind, purpose, error, "kind not installed, looked for again");
            }
            State::Absent => {
                tracing::info!(kind, purpose, "kind not installed, looked for again");
            }
            State::Forbidden => {
                let (namespace, rule, advice) = (&**namespace, self.rule(), self.advice());
                tracing::warn!(kind, namespace, purpose, error, rule, advice, "kind not permitted");
            }
            State::Unreachable => {
                let server = &**server;
                tracing::warn!(kind, server, error, "API server unreachable, the last state stays");
            }
            State::Failing | State::Starting | State::Following => {
                tracing::warn!(kind, error, "watch failed, the last state stays");
            }
        }
    }

    /// Whether some objects are left out, as there is no room for all of them. Each change is logged once.
    pub(super) fn left_out(&self, some: bool) {
        let before = std::mem::replace(&mut self.progress.lock().full, some);
        match (before, some) {
            (false, true) => {
                let (kind, namespace) = (&self.name, &*self.place.namespace);
                tracing::error!(
                    kind,
                    namespace,
                    "more objects than there is room for, some are left out"
                );
            }
            (true, false) => tracing::info!(kind = self.name, "no object is left out any more"),
            (true, true) | (false, false) => {}
        }
    }

    /// A fault for someone who does not see which kind it is about.
    pub(super) fn explained(&self, fault: &Fault) -> Arc<str> {
        let (text, server) = (&fault.text, &self.place.server);
        match fault.state {
            State::Absent if !self.group.is_empty() => {
                format!("the CRD {} is not installed, see manifests/crds", self.name).into()
            }
            State::Unreachable => {
                format!("the API server at {server} does not answer: {text}").into()
            }
            State::Absent
            | State::Forbidden
            | State::Failing
            | State::Starting
            | State::Following => Arc::clone(text),
        }
    }

    /// What to do where it is not permitted. A pool of another name is not permitted either.
    fn advice(&self) -> &'static str {
        if self.cluster {
            "add the rule to a ClusterRole and bind our service account to it by a ClusterRoleBinding"
        } else if self.object.is_some() {
            "add the rule to a Role in this namespace and bind our service account to it there, or is --pool-name wrong?"
        } else {
            "add the rule to a Role in this namespace and bind our service account to it there"
        }
    }

    /// The rule of a Role that permits to follow it.
    fn rule(&self) -> String {
        let names = self.object.as_ref().map(|name| format!(" resourceNames: [{name:?}],"));
        format!(
            "{{apiGroups: [{:?}], resources: [{:?}],{} verbs: [list, watch]}}",
            self.group,
            self.plural,
            names.unwrap_or_default()
        )
    }

    /// True when the state is another one now.
    fn enter(&self, state: State) -> bool {
        let mut progress = self.progress.lock();
        std::mem::replace(&mut progress.state, state) != state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::k8s::types::GROUP;

    fn place() -> Place {
        Place { server: "https://10.0.0.1".into(), namespace: "prod".into() }
    }

    #[test]
    fn what_the_api_server_refuses_is_explained() {
        let pool = Kind::new((GROUP, "inferencepools"), Some("p"), &place(), "endpoints");
        let told = |state| pool.explained(&Fault { state, ..Fault::malformed("why") });
        assert_eq!(
            &*told(State::Absent),
            "the CRD inferencepools.inference.networking.k8s.io is not installed, see manifests/crds"
        );
        let silent = "the API server at https://10.0.0.1 does not answer: why";
        assert_eq!(&*told(State::Unreachable), silent);
        assert_eq!(&*told(State::Forbidden), "why");
        assert!(pool.rule().contains(r#" resourceNames: ["p"], verbs"#), "{}", pool.rule());
        assert!(pool.advice().contains("--pool-name"));
    }

    #[test]
    fn the_missing_rule_is_told() {
        let kind = Kind::new(("llm-d.ai", "inferenceobjectives"), None, &place(), "priorities");
        assert!(!kind.advice().contains("--pool-name"));
        assert_eq!(
            kind.rule(),
            r#"{apiGroups: ["llm-d.ai"], resources: ["inferenceobjectives"], verbs: [list, watch]}"#
        );
        assert!(
            Kind::of_cluster(("", "nodes"), &place(), "drains").advice().contains("ClusterRole")
        );
        assert_eq!(Kind::new(("", "pods"), None, &place(), "endpoints").name, "pods");
    }
}
