use http::StatusCode;
use serde_json::json;
use tokio::task::JoinHandle;

use super::*;
use crate::k8s::testing::{Api as Server, Fault};
use crate::metrics::Metrics;

const PATH: &str = "/leases/epp-ns-pool.llm-d.ai";

/// A replica that runs.
struct Replica {
    leadership: Leadership,
    stop: CancellationToken,
    task: JoinHandle<()>,
    metrics: LeaderMetrics,
}

impl Replica {
    #[expect(clippy::disallowed_methods, reason = "a test")]
    fn start(server: &Server, identity: &str) -> Self {
        let metrics = Metrics::new("ns", "pool", false).unwrap().leader.clone();
        let (candidate, leadership) =
            Candidate::new(server.client(), ("ns", "pool"), identity.to_owned(), metrics.clone());
        let stop = CancellationToken::new();
        let task = tokio::spawn(candidate.run(stop.clone()));
        Self { leadership, stop, task, metrics }
    }

    /// Waits until this one leads, for 60 s of virtual time at most, and tells how long it took.
    async fn comes_to(&mut self, leader: Leader) -> Duration {
        let began = Instant::now();
        let wait = async {
            let mut known = self.leadership.leader();
            while known != leader {
                known = self.leadership.changed_from(known).await;
            }
        };
        timeout(Duration::from_mins(1), wait).await.unwrap();
        began.elapsed()
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

fn holder(server: &Server) -> Option<String> {
    let lease = server.object(PATH)?;
    lease["spec"]["holderIdentity"].as_str().map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn the_first_replica_leads_and_renews_and_the_second_waits() {
    let server = Server::default();
    let mut first = Replica::start(&server, "first");
    first.comes_to(Leader::Us).await;
    let mut second = Replica::start(&server, "second");
    second.comes_to(Leader::Other).await;
    let named = second.leadership.changed_holder(&(Leader::Unknown, None)).await;
    assert_eq!(named, (Leader::Other, Some("first".into())));
    let before = server.object(PATH).unwrap();
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(first.leadership.ours() && !second.leadership.ours());
    let after = server.object(PATH).unwrap();
    assert_ne!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
    assert_eq!(before["spec"]["acquireTime"], after["spec"]["acquireTime"]);
    assert_eq!(after["spec"]["leaseTransitions"], 0);
    assert_eq!(after["spec"]["leaseDurationSeconds"], 15);
    assert_eq!(first.metrics.leads.get() + second.metrics.leads.get(), 1);
    assert_eq!(first.metrics.transitions.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_given_up_is_taken_within_an_attempt() {
    let server = Server::default();
    let mut first = Replica::start(&server, "first");
    first.comes_to(Leader::Us).await;
    let mut second = Replica::start(&server, "second");
    second.comes_to(Leader::Other).await;
    let (leadership, metrics) = (first.leadership.clone(), first.metrics.clone());
    first.stop().await;
    assert!(!leadership.ours());
    assert_eq!((metrics.leads.get(), metrics.transitions.get()), (0, 2));
    assert_eq!(holder(&server), None);
    let took = second.comes_to(Leader::Us).await;
    assert!(took <= RETRY.mul_f64(1.2), "{took:?}");
    assert_eq!(server.object(PATH).unwrap()["spec"]["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_not_renewed_is_taken_when_it_expires() {
    let server = Server::default();
    let mut first = Replica::start(&server, "first");
    first.comes_to(Leader::Us).await;
    let mut second = Replica::start(&server, "second");
    second.comes_to(Leader::Other).await;
    first.task.abort();
    let took = second.comes_to(Leader::Us).await;
    assert!(took + RETRY > DURATION && took < DURATION + RETRY * 3, "{took:?}");
    assert!(!first.leadership.ours(), "whoever cannot renew ceases to lead before another begins");
}

#[tokio::test(start_paused = true)]
async fn a_holder_without_an_api_server_leads_until_its_deadline_and_again_later() {
    for fault in
        [Fault::Hangs, Fault::Refuses(StatusCode::INTERNAL_SERVER_ERROR), Fault::LosesAnswers]
    {
        let server = Server::default();
        let mut replica = Replica::start(&server, "first");
        replica.comes_to(Leader::Us).await;
        server.set(fault);
        let took = replica.comes_to(Leader::Unknown).await;
        assert!(took <= RENEW_DEADLINE && took + RETRY * 2 >= RENEW_DEADLINE, "{fault:?} {took:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(replica.metrics.leads.get(), 0, "{fault:?}: told at once");
        server.set(Fault::None);
        replica.comes_to(Leader::Us).await;
        assert!(!replica.task.is_finished());
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_changes_nothing() {
    let server = Server::default();
    let mut replica = Replica::start(&server, "first");
    replica.comes_to(Leader::Us).await;
    server.set(Fault::LosesAnswers);
    tokio::time::sleep(Duration::from_secs(5)).await;
    server.set(Fault::None);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(replica.leadership.ours());
    assert_eq!(replica.metrics.transitions.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_was_frozen_does_not_lead_when_it_wakes() {
    let server = Server::default();
    let metrics = Metrics::new("ns", "pool", false).unwrap().leader.clone();
    let (mut candidate, leadership) =
        Candidate::new(server.client(), ("ns", "pool"), "first".to_owned(), metrics);
    timeout(RETRY / 2, candidate.round()).await.ok();
    assert!(leadership.ours());
    // Nothing of it runs meanwhile.
    tokio::time::advance(RENEW_DEADLINE).await;
    assert_eq!(leadership.leader(), Leader::Unknown);
    // Another took over: its lease was read by nobody yet.
    server.edit(PATH, |lease| lease["spec"]["holderIdentity"] = json!("second"));
    timeout(RETRY / 2, candidate.round()).await.ok();
    assert_eq!(leadership.leader(), Leader::Other, "seen by the first attempt");
    assert_eq!(holder(&server).as_deref(), Some("second"));
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_lease_is_told_and_taken_when_it_is_permitted() {
    let server = Server::default();
    server.set(Fault::Refuses(StatusCode::FORBIDDEN));
    let mut replica = Replica::start(&server, "first");
    replica.comes_to(Leader::Forbidden).await;
    assert!(replica.leadership.leader().failure().is_some_and(|why| why.contains("forbidden")));
    server.set(Fault::None);
    replica.comes_to(Leader::Us).await;
}

#[tokio::test(start_paused = true)]
async fn of_two_that_come_at_once_one_leads() {
    let server = Server::default();
    let mut replicas: Vec<_> =
        ["a", "b", "c"].iter().map(|identity| Replica::start(&server, identity)).collect();
    for replica in &mut replicas {
        let wait = replica.leadership.changed_from(Leader::Unknown);
        timeout(Duration::from_mins(1), wait).await.unwrap();
    }
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(replicas.iter().filter(|replica| replica.leadership.ours()).count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_is_made_anew() {
    let server = Server::default();
    let mut replica = Replica::start(&server, "first");
    replica.comes_to(Leader::Us).await;
    server.remove(PATH);
    tokio::time::sleep(RETRY * 3).await;
    assert!(replica.leadership.ours());
    assert_eq!(holder(&server).as_deref(), Some("first"));
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_promised_nothing_has_as_long_as_we_would() {
    let server = Server::default();
    let mut replica = Replica::start(&server, "first");
    replica.comes_to(Leader::Us).await;
    server.edit(PATH, |lease| lease["spec"] = json!({"holderIdentity": "second"}));
    replica.comes_to(Leader::Other).await;
    let took = replica.comes_to(Leader::Us).await;
    assert!(took + RETRY > DURATION && took < DURATION + RETRY * 3, "{took:?}");
}
