use http::{Method, StatusCode};
use serde_json::Value;
use tokio::task::JoinHandle;

use super::*;
use crate::k8s::objects::{Entry, judged};
use crate::k8s::testing::{Api as Server, Asked, Fault};
use crate::k8s::types::{ObjectiveSpec, Status};
use crate::metrics::Metrics;

/// As long as what was refused waits.
const REFUSED: Duration = Duration::from_mins(1);

/// As long as a server in trouble is left alone.
const TROUBLE: Duration = Duration::from_secs(5);

const BASE: &str = "/apis/llm-d.ai/v1alpha2/namespaces/ns/inferenceobjectives";

/// A writer that runs, and the watch that would feed it.
struct Rig {
    server: Server,
    verdicts: watch::Sender<Arc<[Verdict]>>,
    notices: mpsc::Receiver<Notice>,
    metrics: LeaderMetrics,
    task: JoinHandle<()>,
}

impl Rig {
    #[expect(clippy::disallowed_methods, reason = "a test")]
    fn start(leader: Leader) -> Self {
        let server = Server::default();
        let metrics = Metrics::new("ns", "pool", false).unwrap().leader.clone();
        let verdicts = watch::Sender::new(Arc::default());
        let (sender, notices) = mpsc::channel(8);
        let writer = Writer::new(
            (server.client(), "ns"),
            verdicts.subscribe(),
            Leadership::fixed(leader),
            sender,
            metrics.clone(),
        );
        let task = tokio::spawn(writer.run());
        Self { server, verdicts, notices, metrics, task }
    }

    /// Makes an objective that waits for a controller, as its schema has it.
    fn objective(&self, name: &str, pool: &str) {
        let waiting = json!({"type": "Ready", "status": "Unknown", "reason": "Pending",
            "message": "Waiting for controller", "lastTransitionTime": "1970-01-01T00:00:00Z"});
        let object = json!({
            "metadata": {"name": name, "uid": format!("uid-{name}"), "generation": 1},
            "spec": {"poolRef": {"name": pool}, "priority": 1},
            "status": {"conditions": [waiting]},
        });
        self.server.put(&format!("{BASE}/{name}"), object);
    }

    fn entry(&self, name: &str) -> Entry {
        let object = self.server.object(&format!("/{name}")).unwrap();
        serde_json::from_value::<Object<ObjectiveSpec, Status>>(object).unwrap().into()
    }

    /// Tells the writer what a watch would see now.
    fn watch(&self, names: &[&str]) {
        let entries: Vec<_> = names.iter().map(|name| self.entry(name)).collect();
        let seen = entries.iter().map(|entry| (Kind::Objective, entry));
        self.verdicts.send_replace(judged("pool", seen).verdicts.into());
    }

    /// Tells the writer of a watch that sees an objective of the other group prevail over this one.
    fn watch_conflict(&self, name: &str) {
        let entry = self.entry(name);
        let both = [Kind::Objective, Kind::LegacyObjective].map(|kind| (kind, &entry));
        let mut verdicts = judged("pool", both).verdicts;
        verdicts.retain(|verdict| verdict.kind == Kind::LegacyObjective);
        // The object stands where the server has one.
        verdicts[0].kind = Kind::Objective;
        self.verdicts.send_replace(verdicts.into());
    }

    /// What was asked within so long.
    async fn asked_within(&self, time: Duration) -> Vec<Asked> {
        sleep(time).await;
        self.server.asked()
    }

    async fn asked(&self) -> Vec<Asked> {
        self.asked_within(Duration::from_secs(2)).await
    }

    async fn end(self) {
        drop(self.verdicts);
        self.task.await.unwrap();
    }
}

fn conditions(object: &Value) -> Vec<(&str, &str)> {
    let list = object["status"]["conditions"].as_array().unwrap();
    list.iter().map(|c| (c["type"].as_str().unwrap(), c["status"].as_str().unwrap())).collect()
}

fn conditions_of(rig: &Rig, end: &str) -> Vec<(String, String)> {
    let object = rig.server.object(end).unwrap();
    let owned = |(kind, status): (&str, &str)| (kind.to_owned(), status.to_owned());
    conditions(&object).into_iter().map(owned).collect()
}

#[tokio::test(start_paused = true)]
async fn a_verdict_is_applied_once() {
    let rig = Rig::start(Leader::Us);
    rig.objective("a", "pool");
    rig.watch(&["a"]);
    let asked = rig.asked().await;
    let [(method, path, body)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!(method, Method::PATCH);
    assert!(path.starts_with(&format!("{BASE}/a/status?")), "{path}");
    assert!(path.contains("fieldManager=lodesman") && !path.contains("force"), "{path}");
    assert_eq!(body["metadata"], json!({"name": "a", "resourceVersion": "1"}));
    assert_eq!(conditions(body), [("Accepted", "True")]);
    assert_eq!(body["status"]["conditions"][0]["observedGeneration"], 1);
    for _ in 0..1_000 {
        rig.watch(&["a"]);
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.asked().await.len(), 0, "our own write causes none");
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_changes_all_the_time_keeps_no_other_from_its_turn() {
    let rig = Rig::start(Leader::Us);
    rig.objective("a", "pool");
    rig.objective("b", "pool");
    for generation in 2..30 {
        rig.server.edit("/a", |object| object["metadata"]["generation"] = json!(generation));
        rig.watch(&["a", "b"]);
        sleep(PACE / 2).await;
    }
    let written = conditions_of(&rig, "/b");
    assert!(written.contains(&("Accepted".to_owned(), "True".to_owned())), "{written:?}");
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_version_is_written_over_once_or_not_at_all() {
    let rig = Rig::start(Leader::Us);
    rig.objective("a", "pool");
    rig.watch(&["a"]);
    let stale = Arc::clone(&rig.verdicts.borrow());
    assert_eq!(rig.asked().await.len(), 1);
    for _ in 0..10 {
        rig.verdicts.send_replace(Arc::clone(&stale));
        assert_eq!(rig.asked().await.len(), 0, "the watch is behind our write");
    }
    rig.end().await;

    let rig = Rig::start(Leader::Us);
    rig.objective("a", "pool");
    rig.watch(&["a"]);
    rig.server.edit("/a", |object| object["metadata"]["generation"] = json!(2));
    assert_eq!(rig.asked_within(REFUSED * 2).await.len(), 1, "the watch is behind an edit");
    let kind = Kind::Objective.full_name();
    assert_eq!(rig.metrics.status_blocked.with_label_values(&[kind.as_str()]).get(), 0);
    rig.watch(&["a"]);
    let asked = rig.asked().await;
    assert_eq!(asked[0].2["status"]["conditions"][0]["observedGeneration"], 2);
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_status_that_another_wiped_is_written_again() {
    let rig = Rig::start(Leader::Us);
    rig.objective("a", "pool");
    rig.watch(&["a"]);
    assert_eq!(rig.asked().await.len(), 1);
    rig.server.edit("/a", |object| object["status"] = json!({}));
    rig.watch(&["a"]);
    assert_eq!(rig.asked().await.len(), 1);
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn who_does_not_lead_writes_nothing_and_a_new_leader_nothing_that_is_said() {
    let rig = Rig::start(Leader::Other);
    rig.objective("a", "pool");
    rig.watch(&["a"]);
    assert_eq!(rig.asked().await.len(), 0);
    rig.end().await;

    let first = Rig::start(Leader::Us);
    first.objective("a", "pool");
    first.watch(&["a"]);
    assert_eq!(first.asked().await.len(), 1);
    let second = Rig { server: first.server.clone(), ..Rig::start(Leader::Us) };
    second.watch(&["a"]);
    assert_eq!(second.asked().await.len(), 0);
    first.end().await;
    second.end().await;
}

#[tokio::test(start_paused = true)]
async fn many_are_written_at_a_bounded_rate() {
    let rig = Rig::start(Leader::Us);
    let names: Vec<_> = (0..50).map(|n| format!("o{n}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    for name in &names {
        rig.objective(name, "pool");
    }
    rig.watch(&names);
    let asked = rig.asked_within(Duration::from_secs(1)).await.len();
    assert!((8..=11).contains(&asked), "{asked} in a second");
    assert_eq!(asked + rig.asked_within(Duration::from_secs(10)).await.len(), 50);
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_forbidden_is_tried_once_a_minute_until_it_works() {
    let rig = Rig::start(Leader::Us);
    rig.server.set(Fault::Refuses(StatusCode::FORBIDDEN));
    for name in ["a", "b", "c"] {
        rig.objective(name, "pool");
    }
    rig.watch(&["a", "b", "c"]);
    assert_eq!(rig.asked().await.len(), 1);
    let kind = Kind::Objective.full_name();
    let blocked = rig.metrics.status_blocked.with_label_values(&[kind.as_str()]);
    assert_eq!(blocked.get(), 1);
    rig.watch(&["a", "b", "c"]);
    assert_eq!(rig.asked_within(REFUSED / 2).await.len(), 0);
    assert_eq!(rig.asked_within(REFUSED / 2).await.len(), 1);
    rig.server.set(Fault::None);
    assert_eq!(rig.asked_within(REFUSED + Duration::from_secs(2)).await.len(), 3);
    assert_eq!(blocked.get(), 0);
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_refused_does_not_hold_up_the_others() {
    for code in [StatusCode::NOT_FOUND, StatusCode::UNPROCESSABLE_ENTITY] {
        let rig = Rig::start(Leader::Us);
        rig.server.set(Fault::Refuses(code));
        for name in ["a", "b"] {
            rig.objective(name, "pool");
        }
        rig.watch(&["a", "b"]);
        assert_eq!(rig.asked().await.len(), 2, "{code}");
        assert_eq!(rig.asked_within(REFUSED / 2).await.len(), 0, "{code}");
        rig.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_in_trouble_is_left_alone_for_a_moment() {
    for fault in [
        Fault::Refuses(StatusCode::INTERNAL_SERVER_ERROR),
        Fault::Refuses(StatusCode::TOO_MANY_REQUESTS),
        Fault::Hangs,
    ] {
        let rig = Rig::start(Leader::Us);
        rig.server.set(fault);
        for name in ["a", "b"] {
            rig.objective(name, "pool");
        }
        rig.watch(&["a", "b"]);
        let asked = rig.asked_within(TROUBLE * 6).await.len();
        assert!((2..=7).contains(&asked), "{fault:?} {asked}");
        rig.server.set(Fault::None);
        rig.asked_within(ANSWER + TROUBLE * 2).await;
        for name in ["/a", "/b"] {
            let object = rig.server.object(name).unwrap();
            assert_eq!(conditions(&object)[0], ("Accepted", "True"));
        }
        rig.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_is_announced_once_and_not_at_all_when_the_status_tells_it() {
    let mut rig = Rig::start(Leader::Us);
    rig.server.set(Fault::Refuses(StatusCode::FORBIDDEN));
    rig.objective("a", "pool");
    for _ in 0..3 {
        rig.watch_conflict("a");
        rig.asked().await;
    }
    let notice = rig.notices.try_recv().unwrap();
    assert_eq!((notice.reason, notice.regarding.name.as_deref()), ("Conflicted", Some("a")));
    assert_eq!(notice.regarding.namespace.as_deref(), Some("ns"));
    assert!(rig.notices.try_recv().is_err());
    rig.server.set(Fault::None);
    rig.asked_within(REFUSED * 2).await;
    let mut second = Rig { server: rig.server.clone(), ..Rig::start(Leader::Us) };
    second.watch_conflict("a");
    second.asked().await;
    assert!(second.notices.try_recv().is_err());
    rig.end().await;
    second.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_that_comes_back_is_announced_again() {
    let mut rig = Rig::start(Leader::Us);
    rig.objective("a", "pool");
    for _ in 0..3 {
        rig.watch_conflict("a");
        assert_eq!(rig.asked().await.len(), 1);
        assert_eq!(rig.notices.try_recv().unwrap().reason, "Conflicted");
        rig.watch(&["a"]);
        assert_eq!(rig.asked().await.len(), 1);
        assert!(rig.notices.try_recv().is_err());
    }
    rig.end().await;
}
