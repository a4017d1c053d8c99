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
    namespace: String,
    /// What is off without it.
    purpose: &'static str,
    progress: Mutex<Progress>,
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
    /// A kind; the core group is empty.
    pub(super) fn new(
        group: &str,
        plural: &str,
        namespace: &str,
        purpose: &'static str,
    ) -> Arc<Self> {
        let name = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
        let (state, restarts) = (State::Starting, BTreeMap::default());
        let progress = Progress { state, heard: None, restarts, full: false };
        Arc::new(Self {
            name,
            plural: plural.to_owned(),
            group: group.to_owned(),
            namespace: namespace.to_owned(),
            purpose,
            progress: Mutex::new(progress),
        })
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
            tracing::info!(kind = self.name, namespace = self.namespace, "kind followed");
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
        if !changed {
            return;
        }
        let (kind, namespace, purpose) = (&self.name, &self.namespace, self.purpose);
        let error = &*fault.text;
        match fault.state {
            State::Absent => {
                tracing::info!(kind, purpose, "kind not installed, looked for again");
            }
            State::Forbidden => {
                let rule = self.rule();
                tracing::warn!(
                    kind,
                    namespace,
                    purpose,
                    error,
                    rule,
                    "kind not permitted: add the rule to our Role"
                );
            }
            State::Unreachable => {
                tracing::warn!(kind, error, "API server unreachable, the last state stays");
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
                let (kind, namespace) = (&self.name, &self.namespace);
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

    /// The rule of a Role that permits to follow it.
    fn rule(&self) -> String {
        format!(
            "{{apiGroups: [{:?}], resources: [{:?}], verbs: [list, watch]}}",
            self.group, self.plural
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

    #[test]
    fn the_missing_rule_is_told() {
        let kind = Kind::new("llm-d.ai", "inferenceobjectives", "prod", "priorities");
        assert_eq!(
            kind.rule(),
            r#"{apiGroups: ["llm-d.ai"], resources: ["inferenceobjectives"], verbs: [list, watch]}"#
        );
        assert_eq!(Kind::new("", "pods", "prod", "endpoints").name, "pods");
    }
}
