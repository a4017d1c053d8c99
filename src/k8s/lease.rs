//! The Lease: of all replicas that pick for a pool, the one that holds it writes what is written once for all.
//!
//! It is the protocol of Kubernetes' own clients, so that replicas of the reference take part: the holder renews, the
//! others take over what was not renewed for as long as it says. No clock is compared with another machine's: each
//! replica measures by its own clock how long it has seen no change.
//!
//! Losing the lease ends nothing. A holder believes in itself for [`RENEW_DEADLINE`] from the start of its last renewal
//! that succeeded, which is shorter than the others wait, and [`Leadership`] reads the clock each time it is asked: a
//! process that was frozen does not lead when it wakes.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::fault::{Fault, State};
use crate::metrics::LeaderMetrics;

use self::leader::Term;
pub use self::leader::{Leader, Leadership};

mod leader;

/// How long the others wait for a renewal; as controller-runtime has it, like the two that follow.
pub const DURATION: Duration = Duration::from_secs(15);

/// How long a holder believes in itself without a renewal.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// Time between two attempts to take or to renew it.
pub const RETRY: Duration = Duration::from_secs(2);

/// Time for an answer, so that a holder can try twice.
const ANSWER: Duration = Duration::from_secs(4);

/// Time for giving it up at the end.
const RELEASE: Duration = Duration::from_secs(2);

/// What a Role must have.
const RULE: &str =
    "{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update]}";

/// A replica that wants to lead.
#[derive(Debug)]
pub struct Candidate {
    leases: Api<Lease>,
    name: String,
    identity: String,
    term: watch::Sender<Term>,
    metrics: LeaderMetrics,
    /// The lease as we last wrote it, to be renewed without being read.
    written: Option<Lease>,
    /// What another holder wrote, and since when it has been like that.
    seen: Option<(LeaseSpec, Instant)>,
}

impl Candidate {
    /// A candidate for the lease of a pool, which has the reference's name; `identity` differs from replica to replica.
    pub fn new(
        client: Client,
        (namespace, pool): (&str, &str),
        identity: String,
        metrics: LeaderMetrics,
    ) -> (Self, Leadership) {
        let term = Term { leader: Leader::Unknown, holder: None, until: Instant::now() };
        let (sender, leadership) = Leadership::new(term);
        let candidate = Self {
            leases: Api::namespaced(client, namespace),
            name: format!("epp-{namespace}-{pool}.llm-d.ai"),
            identity,
            term: sender,
            metrics,
            written: None,
            seen: None,
        };
        (candidate, leadership)
    }

    /// Leads whenever it can until told to stop; then gives the lease up, so that another replica takes over at once.
    pub async fn run(mut self, stop: CancellationToken) {
        while stop.run_until_cancelled(self.round()).await.is_some() {}
        if timeout(RELEASE, self.release()).await.is_err() {
            tracing::warn!(lease = self.name, "lease not given up in time, it expires");
        }
    }

    /// One attempt, and the wait for the next.
    async fn round(&mut self) {
        let began = Instant::now();
        self.expire(began);
        // After a term that ended unnoticed, as in a frozen process, the lease may be another's.
        let written = self.written.take().filter(|_| self.leads());
        let limit = self.no_longer_than(began + ANSWER);
        let outcome = timeout_at(limit, self.attempt(written)).await;
        match outcome {
            Ok(Ok(leader)) => self.enter(leader, began, None),
            Ok(Err(error)) => {
                let Fault { state, text, .. } = error.into();
                let forbidden = state == State::Forbidden;
                let leader = if forbidden { Leader::Forbidden } else { Leader::Unknown };
                self.fail(leader, &text);
            }
            Err(_) => self.fail(Leader::Unknown, "no answer in time"),
        }
        sleep_until(self.no_longer_than(began + jittered(RETRY))).await;
    }

    /// Who held the lease when it was last read and was not ours.
    fn holder(&self) -> Option<&str> {
        self.seen.as_ref()?.0.holder_identity.as_deref()
    }

    fn leads(&self) -> bool {
        self.term.borrow().leader(Instant::now()) == Leader::Us
    }

    /// Not longer than we lead.
    fn no_longer_than(&self, time: Instant) -> Instant {
        if self.leads() { time.min(self.term.borrow().until) } else { time }
    }

    /// Takes or renews the lease where that is right.
    async fn attempt(&mut self, written: Option<Lease>) -> kube::Result<Leader> {
        let lease = match written {
            Some(lease) => Some(lease),
            None => self.leases.get_opt(&self.name).await?,
        };
        let params = PostParams::default();
        let lease = match lease {
            None => self.leases.create(&params, &self.claim(None)).await?,
            Some(lease) if self.may_take(&lease) => {
                self.leases.replace(&self.name, &params, &self.claim(Some(lease))).await?
            }
            Some(_) => return Ok(Leader::Other),
        };
        self.written = Some(lease);
        Ok(Leader::Us)
    }

    /// Whether the lease is ours, nobody's, or was not renewed for as long as its holder promised to.
    fn may_take(&mut self, lease: &Lease) -> bool {
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        if holder.is_empty() || holder == self.identity {
            return true;
        }
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let patience = seconds.map_or(DURATION, Duration::from_secs);
        let now = Instant::now();
        match &self.seen {
            Some((seen, since)) if *seen == spec => now >= *since + patience,
            _ => {
                self.seen = Some((spec, now));
                false
            }
        }
    }

    /// The lease with us as its holder; the API server refuses it when another wrote in between.
    fn claim(&self, lease: Option<Lease>) -> Lease {
        let now = MicroTime(Timestamp::now());
        let fresh = || {
            let name = Some(self.name.clone());
            (ObjectMeta { name, ..ObjectMeta::default() }, LeaseSpec::default())
        };
        let known = |lease: Lease| (lease.metadata, lease.spec.unwrap_or_default());
        let (metadata, before) = lease.map_or_else(fresh, known);
        let ours = before.holder_identity.as_deref() == Some(&self.identity);
        let transitions =
            before.lease_transitions.map_or(0, |n| n.saturating_add(i32::from(!ours)));
        let spec = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            acquire_time: before.acquire_time.filter(|_| ours).or_else(|| Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        };
        Lease { metadata, spec: Some(spec) }
    }

    /// Takes note that a term is over.
    fn expire(&self, now: Instant) {
        let over = {
            let term = self.term.borrow();
            term.leader != term.leader(now)
        };
        if over {
            self.enter(Leader::Unknown, now, Some("not renewed in time"));
        }
    }

    /// Takes note of a failure; while we lead, it is none.
    fn fail(&self, leader: Leader, error: &str) {
        if !self.leads() {
            self.enter(leader, Instant::now(), Some(error));
        }
    }

    /// Takes note of who leads, as was asked then.
    fn enter(&self, leader: Leader, asked: Instant, error: Option<&str>) {
        let holder = self.holder().filter(|_| leader == Leader::Other).map(Arc::from);
        let term = Term { leader, holder, until: asked + RENEW_DEADLINE };
        let before = self.term.borrow().leader;
        let changed = before != leader;
        self.term.send_if_modified(|current| {
            let news = changed || current.holder != term.holder;
            *current = term;
            news
        });
        if changed && (before == Leader::Us || leader == Leader::Us) {
            self.metrics.transitions.inc();
            self.metrics.leads.set(i64::from(leader == Leader::Us));
        }
        if changed {
            self.tell(leader, error);
        }
    }

    fn tell(&self, leader: Leader, error: Option<&str>) {
        let (lease, identity) = (&self.name, &self.identity);
        match leader {
            Leader::Us => tracing::info!(lease, identity, "leading"),
            Leader::Other => {
                let holder = self.holder();
                tracing::info!(lease, holder, identity, "another replica leads");
            }
            Leader::Unknown => tracing::warn!(lease, error, "lease not held, nobody known to lead"),
            Leader::Forbidden => {
                tracing::warn!(
                    lease,
                    error,
                    rule = RULE,
                    "lease not permitted, no status is written: add the rule to our Role"
                );
            }
        }
    }

    /// Ceases to lead, and leaves the lease to whoever comes first.
    async fn release(&mut self) {
        if !self.leads() {
            return;
        }
        self.term.send_replace(Term {
            leader: Leader::Unknown,
            holder: None,
            until: Instant::now(),
        });
        self.metrics.transitions.inc();
        self.metrics.leads.set(0);
        match self.give_up().await {
            Ok(()) => tracing::info!(lease = self.name, "lease given up"),
            Err(error) => {
                let error = &*Fault::from(error).text;
                tracing::warn!(lease = self.name, error, "lease not given up, it expires");
            }
        }
    }

    async fn give_up(&mut self) -> kube::Result<()> {
        let lease = match self.written.take() {
            Some(lease) => lease,
            // A renewal was under way.
            None => self.leases.get(&self.name).await?,
        };
        let Lease { metadata, spec } = lease;
        let mut spec = spec.unwrap_or_default();
        if spec.holder_identity.as_ref() != Some(&self.identity) {
            return Ok(());
        }
        spec.holder_identity = None;
        let lease = Lease { metadata, spec: Some(spec) };
        self.leases.replace(&self.name, &PostParams::default(), &lease).await.map(drop)
    }
}

/// What tells this replica from all others, also from itself before a restart; `pod` is the name of our pod.
pub fn identity(pod: &str) -> String {
    format!("{pod}_{}", uuid::Uuid::new_v4())
}

/// Up to a fifth more, so that replicas do not ask in step.
fn jittered(time: Duration) -> Duration {
    time.mul_f64(1.0 + fastrand::f64() / 5.0)
}

#[cfg(test)]
mod tests;
