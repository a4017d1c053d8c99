//! What one replica does for all: it holds the lease and writes status and Events.
//!
//! With `--ha-enable-leader-election` it also is the only one that is ready. A leader that cannot reach the API server, or
//! is no longer permitted to hold the lease, stays ready until it hears of another: nobody could take over, and an outage
//! of the API server or a mistake in a Role is to change nothing.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::app::Parts;
use crate::app::supervisor::{Plane, Supervisor};
use crate::k8s::appraiser::Appraiser;
use crate::k8s::events::{self, Notice, Publisher};
use crate::k8s::lease::{self, Candidate, Leader, Leadership};
use crate::k8s::status::Writer;
use crate::k8s::verdict::Verdict;
use crate::pool::readiness::Readiness;
use crate::pool::{Worth, worths};

/// A replica that may lead.
pub(super) struct Seat {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) pool: String,
    /// The name of our pod.
    pub(super) instance: String,
    /// Whether only the leader is ready.
    pub(super) elected: bool,
    /// Time between two looks at what pods are worth; none where they are not told.
    pub(super) appraises: Option<Duration>,
}

impl Seat {
    /// Takes part from now on, to the drain; takes notices on the pool.
    pub(super) fn take(
        self,
        verdicts: watch::Receiver<Arc<[Verdict]>>,
        parts: &Parts,
        tasks: &mut Supervisor,
    ) -> mpsc::Sender<Notice> {
        let Self { client, namespace, pool, instance, elected, appraises } = self;
        let (metrics, readiness) = (&parts.metrics.leader, &parts.readiness);
        let place = (namespace.as_str(), pool.as_str());
        let identity = lease::identity(&instance);
        let (candidate, leadership) =
            Candidate::new(client.clone(), place, identity, metrics.clone());
        tasks.run(Plane::Control, "lease", until_drained(candidate, readiness.subscribe()));
        let (notices, queue) = mpsc::channel(events::QUEUE);
        let access = (client.clone(), namespace.as_str());
        let (who, to) = (leadership.clone(), notices.clone());
        let writer = Writer::new(access, verdicts, who, to, metrics.clone());
        tasks.run(Plane::Control, "status", writer.run());
        if let Some(interval) = appraises {
            let access = (client.clone(), namespace.as_str());
            let appraiser = Appraiser::new(access, interval, leadership.clone(), metrics.clone());
            tasks.run(Plane::Control, "deletion costs", appraiser.run(pods_worth(parts)));
        }
        let access = (client, namespace.as_str());
        let publisher = Publisher::new(access, instance, leadership.clone(), metrics.clone());
        tasks.run(Plane::Control, "events", publisher.run(queue));
        if elected {
            readiness.send_modify(|readiness| {
                readiness.standby = Leader::Unknown.failure().map(Arc::from);
            });
            tasks.run(Plane::Control, "leadership", gate(leadership, readiness.clone()));
        }
        notices
    }
}

impl std::fmt::Debug for Seat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seat").field("instance", &self.instance).finish_non_exhaustive()
    }
}

/// What the pods of the pool are worth when it is asked.
fn pods_worth(parts: &Parts) -> impl Fn() -> Vec<Worth> + use<> {
    let (pool, prefix) = (Arc::clone(&parts.pool), Arc::clone(&parts.prefix));
    move || {
        let prefix = prefix.load();
        worths(&pool.load(), |id| prefix.as_ref().map_or(0, |prefix| prefix.cached_tokens(id)))
    }
}

/// Gives the lease up when the drain begins, and not by ending: what ends stops the process.
async fn until_drained(candidate: Candidate, mut readiness: watch::Receiver<Readiness>) {
    let stop = CancellationToken::new();
    let drain = async {
        readiness.wait_for(|readiness| readiness.draining).await.ok();
        stop.cancel();
    };
    tokio::join!(candidate.run(stop.clone()), drain);
    std::future::pending::<()>().await;
}

/// Lets readiness depend on leadership.
async fn gate(mut leadership: Leadership, readiness: watch::Sender<Readiness>) {
    let mut known = (Leader::Unknown, None);
    loop {
        known = leadership.changed_holder(&known).await;
        let (leader, holder) = &known;
        readiness.send_if_modified(|readiness| {
            let standby = standby(readiness.standby.clone(), *leader, holder.as_deref());
            let changed = readiness.standby != standby;
            readiness.standby = standby;
            changed
        });
    }
}

/// Why this replica stands by, after it stood by for the reason `before` and now sees this leader.
fn standby(before: Option<Arc<str>>, leader: Leader, holder: Option<&str>) -> Option<Arc<str>> {
    match (leader, holder) {
        (Leader::Unknown, _) => before,
        (Leader::Forbidden, _) if before.is_none() => None,
        (Leader::Other, Some(holder)) => Some(format!("{holder} leads").into()),
        (Leader::Us | Leader::Other | Leader::Forbidden, _) => leader.failure().map(Arc::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // FR-115
    #[test]
    fn a_leader_is_ready_until_another_leads_also_without_an_api_server() {
        let start = || Leader::Unknown.failure().map(Arc::from);
        assert!(standby(start(), Leader::Unknown, None).is_some());
        assert_eq!(standby(start(), Leader::Us, None), None);
        assert_eq!(standby(None, Leader::Unknown, None), None);
        assert_eq!(standby(None, Leader::Other, None).as_deref(), Leader::Other.failure());
        let named = standby(None, Leader::Other, Some("pick-1"));
        assert_eq!(named.as_deref(), Some("pick-1 leads"));
        assert_eq!(standby(None, Leader::Forbidden, None), None);
        let forbidden = standby(start(), Leader::Forbidden, None);
        assert!(forbidden.is_some_and(|reason| reason.contains("Role")));
    }
}
