use http::{Method, StatusCode};
use serde_json::Value;
use tokio::task::JoinHandle;

use super::*;
use crate::k8s::testing::{Api as Server, Fault};
use crate::metrics::Metrics;

/// A publisher that runs.
struct Rig {
    server: Server,
    notices: mpsc::Sender<Notice>,
    task: JoinHandle<()>,
    metrics: LeaderMetrics,
}

impl Rig {
    fn start(leader: Leader) -> Self {
        Self::with(Leadership::fixed(leader))
    }

    #[expect(clippy::disallowed_methods, reason = "a test")]
    fn with(leadership: Leadership) -> Self {
        let server = Server::default();
        let metrics = Metrics::new("ns", "pool", false).unwrap().leader.clone();
        let publisher = Publisher::new(
            (server.client(), "ns"),
            "pod-1".to_owned(),
            leadership,
            metrics.clone(),
        );
        let (notices, queue) = mpsc::channel(QUEUE);
        let task = tokio::spawn(publisher.run(queue));
        Self { server, notices, task, metrics }
    }

    async fn tell(&self, note: &str) {
        let regarding = ObjectReference {
            name: Some("chat".to_owned()),
            namespace: Some("ns".to_owned()),
            uid: Some("uid-1".to_owned()),
            ..ObjectReference::default()
        };
        self.notices
            .send(Notice { regarding, reason: "Conflicted", note: note.to_owned() })
            .await
            .unwrap();
        sleep(PACE * 2).await;
    }

    fn asked(&self) -> Vec<(Method, Value)> {
        self.server.asked().into_iter().map(|(method, _, body)| (method, body)).collect()
    }

    async fn end(self) {
        drop(self.notices);
        self.task.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_notice_becomes_an_event_beside_its_object() {
    let rig = Rig::start(Leader::Us);
    rig.tell("x has the same name").await;
    let (method, path, event) = rig.server.asked().remove(0);
    assert_eq!(method, Method::POST);
    assert!(path.starts_with("/apis/events.k8s.io/v1/namespaces/ns/events"), "{path}");
    assert!(event["metadata"]["name"].as_str().unwrap().starts_with("chat."));
    assert_eq!(event["regarding"]["uid"], "uid-1");
    assert_eq!(event["reportingController"], "lodesman");
    assert_eq!(event["reportingInstance"], "pod-1");
    assert_eq!((&event["reason"], &event["type"]), (&"Conflicted".into(), &"Warning".into()));
    assert_eq!(event["note"], "x has the same name");
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_same_notice_counts_up_and_another_one_is_told() {
    let rig = Rig::start(Leader::Us);
    for note in ["one", "one", "one", "two"] {
        rig.tell(note).await;
    }
    let asked = rig.asked();
    let methods: Vec<_> = asked.iter().map(|(method, _)| method.as_str()).collect();
    assert_eq!(methods, ["POST", "PATCH", "PATCH", "POST"]);
    assert_eq!(asked[2].1["series"]["count"], 3);
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn without_permission_there_are_no_events_for_a_while() {
    let rig = Rig::start(Leader::Us);
    rig.server.set(Fault::Refuses(StatusCode::FORBIDDEN));
    for note in ["one", "two", "three"] {
        rig.tell(note).await;
    }
    assert_eq!(rig.asked().len(), 1);
    assert_eq!(rig.metrics.events.with_label_values(&["forbidden"]).get(), 1);
    rig.server.set(Fault::None);
    sleep(REFUSED).await;
    rig.tell("four").await;
    assert_eq!(rig.asked().len(), 1);
    assert_eq!(rig.metrics.events.with_label_values(&["written"]).get(), 1);
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_stops_nothing() {
    let rig = Rig::start(Leader::Us);
    rig.server.set(Fault::Hangs);
    rig.tell("one").await;
    sleep(ANSWER).await;
    rig.server.set(Fault::None);
    rig.tell("two").await;
    assert_eq!(rig.asked().len(), 2);
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn who_does_not_lead_tells_nothing() {
    let rig = Rig::start(Leader::Other);
    rig.tell("one").await;
    assert_eq!(rig.asked().len(), 0);
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_noticed_before_a_leader_is_known_is_told_by_the_leader() {
    let (terms, leadership) = Leadership::changing();
    let rig = Rig::with(leadership);
    rig.tell("one").await;
    assert_eq!(rig.asked().len(), 0);
    terms.enter(Leader::Us);
    sleep(PACE).await;
    assert_eq!(rig.asked().len(), 1);
    terms.enter(Leader::Other);
    rig.tell("two").await;
    assert_eq!(rig.asked().len(), 0);
    rig.end().await;
}
