//! Writes verdicts into the status of the objects that they are about.
//!
//! By server-side apply under one name for all replicas, and without force: conditions of others stay, and where another
//! claims one of ours, we leave it to them. A verdict is written over the version of the object that it was made of, or
//! not at all: the next version has its own. What the status says already is not written, so a write causes an update
//! to be seen, and that update no write. Only the leader writes, at most 10 times a second.
//!
//! What fails is tried again later: after a minute what was refused, after 5 s all when the API server has trouble. A
//! change of that is logged once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::core::Object;
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::events::Notice;
use super::fault::Fault;
use super::lease::{Leader, Leadership};
use super::objects::Kind;
use super::types::Ignored;
use super::verdict::{Reason, Verdict, Wanted};
use crate::metrics::LeaderMetrics;

use self::refusal::{Reach, Refusal};

mod refusal;

/// As which we own fields.
const MANAGER: &str = "lodesman";

/// From one write to the next.
const PACE: Duration = Duration::from_millis(100);

/// Time for an answer.
const ANSWER: Duration = Duration::from_secs(10);

/// Writes the status of objects.
#[derive(Debug)]
pub struct Writer {
    api: Access,
    verdicts: watch::Receiver<Arc<[Verdict]>>,
    leadership: Leadership,
    notices: mpsc::Sender<Notice>,
    metrics: LeaderMetrics,
    /// What needs no other write, by UID. Bounded by the verdicts, like all that follows.
    done: HashMap<Box<str>, Done>,
    /// What was last announced of an object, by UID.
    announced: HashMap<Box<str>, (Reason, String)>,
    failures: HashMap<Scope, Failure>,
    /// The UID of the object that was last tried: the next sweep begins after it, so that one that changes all the time
    /// does not keep the others from their turn.
    last: Option<Box<str>>,
}

/// How to reach the objects.
struct Access {
    client: Client,
    namespace: String,
}

/// What was written over this version of an object, or came too late for it: the next version is awaited.
#[derive(Debug)]
struct Done {
    version: Box<str>,
    wanted: Vec<Wanted>,
}

/// What may not be written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Scope {
    /// Anything.
    All,
    /// Objects of this kind.
    Kind(Kind),
    /// The object with this UID.
    Object(Box<str>),
}

/// The last write of that did not succeed.
#[derive(Debug)]
struct Failure {
    result: &'static str,
    until: Instant,
}

impl Writer {
    /// A writer of the newest verdicts on objects in this namespace; of what a person should act on it sends notices.
    pub fn new(
        (client, namespace): (Client, &str),
        verdicts: watch::Receiver<Arc<[Verdict]>>,
        leadership: Leadership,
        notices: mpsc::Sender<Notice>,
        metrics: LeaderMetrics,
    ) -> Self {
        Self {
            api: Access { client, namespace: namespace.to_owned() },
            verdicts,
            leadership,
            notices,
            metrics,
            done: HashMap::default(),
            announced: HashMap::default(),
            failures: HashMap::default(),
            last: None,
        }
    }

    /// Writes while this replica leads; ends when there will be no more verdicts.
    pub async fn run(mut self) {
        loop {
            let leader = self.leadership.leader();
            let verdicts = Arc::clone(&self.verdicts.borrow_and_update());
            let again = match leader {
                Leader::Us => self.sweep(&verdicts).await,
                Leader::Unknown | Leader::Other | Leader::Forbidden => {
                    self.forget();
                    None
                }
            };
            let retry = async {
                match again {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = self.verdicts.changed() => if changed.is_err() { return },
                _ = self.leadership.changed_from(leader) => (),
                () = retry => (),
            }
        }
    }

    /// Writes what is due, and tells when to try again what could not be written. Newer verdicts end it.
    async fn sweep(&mut self, verdicts: &[Verdict]) -> Option<Instant> {
        let current: HashSet<_> = verdicts.iter().map(|verdict| &verdict.uid).collect();
        self.done.retain(|uid, _| current.contains(uid));
        self.announced.retain(|uid, _| current.contains(uid));
        self.failures.retain(|scope, _| match scope {
            Scope::Object(uid) => current.contains(uid),
            Scope::All | Scope::Kind(_) => true,
        });
        let mut again = None::<Instant>;
        let last = verdicts.iter().position(|verdict| self.last.as_ref() == Some(&verdict.uid));
        let first = last.map_or(0, |at| at + 1);
        for verdict in verdicts.iter().cycle().skip(first).take(verdicts.len()) {
            if !self.leadership.ours() || self.verdicts.has_changed().unwrap_or(true) {
                return None;
            }
            let Some(due) = self.due(verdict) else { continue };
            self.announce(verdict);
            let waits = self.waits_until(verdict);
            let waits = match waits {
                None => {
                    self.last = Some(verdict.uid.clone());
                    self.write(verdict, due).await;
                    sleep(PACE).await;
                    self.waits_until(verdict)
                }
                waits => waits,
            };
            again = again.into_iter().chain(waits).min();
        }
        again
    }

    /// What to write of a verdict; nothing where the object's next version is awaited.
    fn due(&self, verdict: &Verdict) -> Option<Vec<Condition>> {
        let same = |done: &Done| done.version == verdict.version && done.wanted == verdict.wanted;
        if self.done.get(&verdict.uid).is_some_and(same) {
            return None;
        }
        verdict.due(&Time(Timestamp::now()))
    }

    /// Sends a notice of a fault that neither the status nor an earlier notice tells; where nobody takes it, it is lost.
    fn announce(&mut self, verdict: &Verdict) {
        let Some((reason, warning)) = verdict.warning() else {
            self.announced.remove(&verdict.uid);
            return;
        };
        let says = (reason, warning.message.clone());
        if verdict.present.iter().any(|present| warning.is(present))
            || self.announced.get(&verdict.uid) == Some(&says)
        {
            return;
        }
        let regarding = verdict.reference(&self.api.namespace);
        let (reason, note) = (reason.as_str(), warning.message.clone());
        self.notices.try_send(Notice { regarding, reason, note }).ok();
        self.announced.insert(verdict.uid.clone(), says);
    }

    fn waits_until(&self, verdict: &Verdict) -> Option<Instant> {
        let now = Instant::now();
        let failures = scopes(verdict).into_iter().filter_map(|scope| self.failures.get(&scope));
        failures.map(|failure| failure.until).filter(|until| *until > now).max()
    }

    async fn write(&mut self, verdict: &Verdict, due: Vec<Condition>) {
        let outcome = timeout(ANSWER, self.api.apply(verdict, due)).await;
        let outcome = outcome.unwrap_or_else(|_| Err(Fault::silent(ANSWER).into()));
        let result = outcome.as_ref().map_or_else(|refusal| refusal.result, |()| "written");
        let kind = verdict.kind.full_name();
        self.metrics.status_writes.with_label_values(&[kind.as_str(), result]).inc();
        let blocked = self.metrics.status_blocked.with_label_values(&[kind.as_str()]);
        match outcome {
            Ok(()) => {
                blocked.set(0);
                self.succeeded(verdict);
                self.done(verdict);
            }
            Err(refusal) if refusal.reach == Reach::Version => self.done(verdict),
            Err(refusal) => {
                blocked.set(1);
                self.failed(verdict, &refusal);
            }
        }
    }

    fn done(&mut self, verdict: &Verdict) {
        let done = Done { version: verdict.version.clone(), wanted: verdict.wanted.clone() };
        self.done.insert(verdict.uid.clone(), done);
    }

    fn succeeded(&mut self, verdict: &Verdict) {
        let (kind, name) = (verdict.kind.full_name(), &verdict.name);
        let again = scopes(verdict).map(|scope| self.failures.remove(&scope).is_some());
        if again.contains(&true) {
            tracing::info!(kind, name, "status written again");
        }
    }

    fn failed(&mut self, verdict: &Verdict, refusal: &Refusal) {
        let Refusal { result, reach, wait, text } = refusal;
        let scope = match reach {
            Reach::All => Scope::All,
            Reach::Kind => Scope::Kind(verdict.kind),
            Reach::Object | Reach::Version => Scope::Object(verdict.uid.clone()),
        };
        let failure = Failure { result, until: Instant::now() + *wait };
        // Where each of many objects is refused, one line is enough.
        let news = !self.failures.values().any(|before| before.result == *result);
        self.failures.insert(scope, failure);
        if news {
            let (kind, name) = (verdict.kind.full_name(), &verdict.name);
            tracing::warn!(kind, name, result, error = &**text, "status not written");
        }
    }

    /// What a replica that does not lead need not know.
    fn forget(&mut self) {
        self.done.clear();
        self.failures.clear();
        self.metrics.status_blocked.reset();
    }
}

impl Access {
    /// Applies conditions over the version that was judged.
    async fn apply(&self, verdict: &Verdict, due: Vec<Condition>) -> Result<(), Refusal> {
        let resource = verdict.kind.resource();
        let patch = Patch::Apply(json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": verdict.name, "resourceVersion": verdict.version},
            "status": {"conditions": due},
        }));
        let objects: Api<Object<Ignored, Ignored>> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        objects.patch_status(&verdict.name, &PatchParams::apply(MANAGER), &patch).await?;
        Ok(())
    }
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

fn scopes(verdict: &Verdict) -> [Scope; 3] {
    [Scope::All, Scope::Kind(verdict.kind), Scope::Object(verdict.uid.clone())]
}

#[cfg(test)]
mod tests;
