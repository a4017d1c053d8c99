//! Tells Kubernetes what pods are worth: the annotation `controller.kubernetes.io/pod-deletion-cost`, by which a ReplicaSet
//! that shrinks chooses the pods that it deletes.
//!
//! Only the leader writes, at most 10 a second, and only what misleads: what changes little stays as it is.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::fault::{Fault, State};
use super::lease::Leadership;
use crate::metrics::LeaderMetrics;
use crate::pool::Worth;

/// Where Kubernetes looks.
const ANNOTATION: &str = "controller.kubernetes.io/pod-deletion-cost";

/// What a Role must have.
const RULE: &str = "{apiGroups: [\"\"], resources: [pods], verbs: [patch]}";

/// From one write to the next.
const PACE: Duration = Duration::from_millis(100);

/// Time for an answer.
const ANSWER: Duration = Duration::from_secs(10);

/// Shortest time from one look to the next.
const SHORTEST: Duration = Duration::from_secs(1);

/// Writes what pods are worth.
#[derive(Debug)]
pub struct Appraiser {
    pods: Api<Pod>,
    interval: Duration,
    leadership: Leadership,
    metrics: LeaderMetrics,
    /// By UID; bounded by the pods of the pool.
    written: HashMap<String, i32>,
    /// The result of the last write.
    result: &'static str,
}

impl Appraiser {
    /// An appraiser of the pods in this namespace that looks once in an interval.
    pub fn new(
        (client, namespace): (Client, &str),
        interval: Duration,
        leadership: Leadership,
        metrics: LeaderMetrics,
    ) -> Self {
        Self {
            pods: Api::namespaced(client, namespace),
            interval: interval.max(SHORTEST),
            leadership,
            metrics,
            written: HashMap::default(),
            result: "written",
        }
    }

    /// Writes for ever, while this replica leads, what `worths` tells.
    pub async fn run(mut self, worths: impl Fn() -> Vec<Worth>) {
        loop {
            sleep(self.interval).await;
            if self.leadership.ours() {
                self.sweep(worths()).await;
            } else {
                self.written.clear();
            }
        }
    }

    /// Writes what misleads, up to the first pod whose write says something of all others too.
    async fn sweep(&mut self, worths: Vec<Worth>) {
        let present: HashSet<_> = worths.iter().map(|worth| &worth.uid).collect();
        self.written.retain(|uid, _| present.contains(uid));
        for worth in worths {
            if !self.leadership.ours() {
                return;
            }
            if !worth.differs(self.written.get(&worth.uid).copied()) {
                continue;
            }
            let outcome = timeout(ANSWER, self.write(&worth)).await;
            let outcome = outcome.unwrap_or_else(|_| Err(Fault::silent(ANSWER)));
            let of_all = outcome.as_ref().is_err_and(Fault::of_all);
            if outcome.is_ok() {
                self.written.insert(worth.uid, worth.cost);
            }
            self.note(outcome);
            if of_all {
                return;
            }
            sleep(PACE).await;
        }
    }

    /// A pod of the same name that is another one is left alone.
    async fn write(&self, worth: &Worth) -> Result<(), Fault> {
        let patch = Patch::Merge(json!({
            "metadata": {"uid": worth.uid, "annotations": {ANNOTATION: worth.cost.to_string()}},
        }));
        self.pods.patch_metadata(&worth.pod, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Takes note of an outcome. A change is logged once; that a pod has gone meanwhile is none.
    fn note(&mut self, outcome: Result<(), Fault>) {
        let result = outcome.as_ref().map_or_else(|fault| fault.reason, |()| "written");
        self.metrics.deletion_costs.with_label_values(&[result]).inc();
        if outcome.as_ref().is_err_and(|fault| fault.state == State::Absent) {
            return;
        }
        let changed = std::mem::replace(&mut self.result, result) != result;
        match outcome {
            Ok(()) if changed => tracing::info!("deletion costs of pods written again"),
            Err(Fault { text, .. }) if changed => {
                tracing::warn!(result, error = &*text, rule = RULE, "deletion cost not written");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::Value;

    use super::*;
    use crate::k8s::lease::Leader;
    use crate::k8s::testing::{Api as Server, Fault as Ordered};
    use crate::metrics::Metrics;

    const PATH: &str = "/api/v1/namespaces/ns/pods/";

    fn appraiser(server: &Server, leader: Leader) -> Appraiser {
        let metrics = Metrics::new("ns", "pool", false).unwrap().leader.clone();
        let interval = Duration::from_mins(1);
        Appraiser::new((server.client(), "ns"), interval, Leadership::fixed(leader), metrics)
    }

    fn worth(pod: &str, cost: i32) -> Worth {
        Worth { pod: pod.to_owned(), uid: format!("uid-{pod}"), cost }
    }

    fn pods(server: &Server, names: &[&str]) {
        for name in names {
            let metadata = json!({"name": name, "namespace": "ns", "uid": format!("uid-{name}")});
            server.put(&format!("{PATH}{name}"), json!({"metadata": metadata}));
        }
    }

    fn asked(server: &Server) -> Vec<(String, Value)> {
        let asked = server.asked().into_iter();
        asked.map(|(_, path, body)| (path, body["metadata"]["annotations"].clone())).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_written_is_written_again_only_when_it_misleads() {
        let server = Server::default();
        pods(&server, &["a", "b"]);
        let mut appraiser = appraiser(&server, Leader::Us);
        appraiser.sweep(vec![worth("a", 9), worth("b", 1)]).await;
        let of = |cost: &str| json!({ANNOTATION: cost});
        let written = asked(&server);
        assert_eq!(written.iter().map(|it| it.1.clone()).collect::<Vec<_>>(), [of("9"), of("1")]);
        assert!(written[0].0.starts_with(&format!("{PATH}a?")), "{written:?}");
        appraiser.sweep(vec![worth("a", 10), worth("b", 0)]).await;
        assert_eq!(asked(&server).len(), 1, "b alone");
        assert_eq!(appraiser.metrics.deletion_costs.with_label_values(&["written"]).get(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_ends_the_sweep_and_the_next_one_tries_again() {
        let server = Server::default();
        pods(&server, &["a", "b"]);
        let mut appraiser = appraiser(&server, Leader::Us);
        for code in [StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS] {
            server.set(Ordered::Refuses(code));
            appraiser.sweep(vec![worth("a", 9), worth("b", 1)]).await;
            assert_eq!(asked(&server).len(), 1);
        }
        assert_eq!(appraiser.metrics.deletion_costs.with_label_values(&["forbidden"]).get(), 1);
        server.set(Ordered::None);
        appraiser.sweep(vec![worth("a", 9), worth("b", 1)]).await;
        assert_eq!(asked(&server).len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_does_not_lead_writes_nothing() {
        let server = Server::default();
        pods(&server, &["a"]);
        let run = appraiser(&server, Leader::Other).run(|| vec![worth("a", 9)]);
        timeout(Duration::from_mins(5), run).await.unwrap_err();
        assert_eq!(asked(&server), []);
    }
}
