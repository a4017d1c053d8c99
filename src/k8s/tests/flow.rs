//! Kinds that come and go, selectors that change, and bursts.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::server::{Answer, SOON, Script, Server, event, page, refusal};
use crate::k8s::fault::State;
use crate::k8s::{Members, Outlets, Settings, Source};
use crate::pool::Event;

// FR-107
#[tokio::test]
async fn a_kind_that_is_not_permitted_or_installed_is_taken_up_when_it_is() {
    for (code, state) in [(403, State::Forbidden), (401, State::Failing), (404, State::Absent)] {
        let script =
            Script { lists: [refusal(code, 0)].into(), pods: (vec!["a"], 10), ..Script::default() };
        let mut server = Server::start(script).await;
        let mut followed = server.follow(|timing| timing.retry = Duration::from_millis(200));
        followed.listed.changed().await.unwrap();
        assert_eq!(followed.kind.progress().state, state);
        followed.until(&["a"]).await;
        assert_eq!(followed.kind.progress().state, State::Following);
    }
}

#[tokio::test]
async fn a_kind_that_is_removed_has_no_objects_once_that_is_sure() {
    let script = Script {
        lists: [page(&["a"], 10, None), refusal(404, 0), refusal(404, 0)].into(),
        watches: [Answer::Lines(Vec::new()), refusal(404, 0)].into(),
        pods: (vec!["b"], 20),
        versioned: true,
        ..Script::default()
    };
    let mut server = Server::start(script).await;
    let mut followed = server.follow(|_| ());
    followed.until(&["a"]).await;
    followed.until(&[]).await;
    assert_eq!(followed.restarts("absent"), 1, "to look for it again is no restart");
    followed.until(&["b"]).await;
}

#[tokio::test]
async fn something_that_is_no_api_server_and_finds_nothing_takes_nothing_away() {
    let script = Script {
        lists: [page(&["a"], 10, None), refusal(404, 0), refusal(404, 0), refusal(404, 0)].into(),
        watches: [refusal(404, 0)].into(),
        pods: (vec!["a", "b"], 20),
        ..Script::default()
    };
    let mut server = Server::start(script).await;
    let mut followed = server.follow(|_| ());
    followed.until(&["a"]).await;
    let less = followed.listed.wait_for(|listing| listing.items().len() != 1);
    let next = tokio::time::timeout(SOON, less).await.unwrap().unwrap().items().len();
    assert_eq!((next, server.asked("limit=500")), (2, 5));
}

#[tokio::test]
async fn a_new_selector_is_asked_for_and_the_old_pods_stay_until_it_is_answered() {
    let script = Script { pods: (vec!["a"], 10), ..Script::default() };
    let mut server = Server::start(script).await;
    let mut followed = server.follow(|_| ());
    followed.until(&["a"]).await;
    server.script.lock().lists = [Answer::Silent].into();
    followed.labels.send_replace(Some("app=b".into()));
    server.until_asked("labelSelector=app%3Db", 1).await;
    let complete = followed.listed.borrow().complete.clone();
    assert_eq!((followed.now(), complete.as_deref()), (vec!["a".to_owned()], Some("app=a")));
    server.script.lock().pods = (vec!["b"], 20);
    followed.labels.send_replace(Some("app=c".into()));
    followed.until(&["b"]).await;
    assert_eq!(followed.listed.borrow().complete.as_deref(), Some("app=c"));
    followed.labels.send_replace(None);
    let none = followed.listed.wait_for(|listing| listing.complete.is_none());
    assert!(tokio::time::timeout(SOON, none).await.unwrap().unwrap().items().is_empty());
    assert!(server.asked("watch=true") >= server.asked("labelSelector=app%3Da&watch"));
}

#[tokio::test]
async fn a_burst_of_pods_is_few_changes_of_the_pool() {
    let names: Vec<_> = (0..500).map(|n| format!("{n:03}")).collect();
    let events = names.iter().zip(11..).map(|(name, version)| event("ADDED", name, version));
    let script = Script {
        watches: [Answer::Open(events.collect())].into(),
        pods: (Vec::new(), 10),
        ..Script::default()
    };
    let server = Server::start(script).await;
    let settings = Settings {
        server: "".into(),
        namespace: "prod".to_owned(),
        pool: "p".to_owned(),
        members: Members::Selected {
            selector: "app=a".parse().unwrap(),
            ports: "8000".parse().unwrap(),
        },
        nodes: false,
        retry: Duration::from_secs(30),
    };
    let (events, mut queue) = mpsc::channel(64);
    let (readiness, verdicts) = (watch::Sender::default(), watch::Sender::new(Arc::default()));
    let source = Source::new(server.client.clone(), settings);
    let notices = mpsc::channel(1).0;
    let run = source.run(Outlets { events, readiness, verdicts, notices });
    let lists = tokio::select! {
        ended = run => panic!("{ended:?}"),
        lists = tokio::time::timeout(SOON, lists_until(500, &mut queue)) => lists.unwrap(),
    };
    assert!(lists <= 5, "{lists} lists");
}

/// How many lists came until one had so many endpoints.
async fn lists_until(endpoints: usize, queue: &mut mpsc::Receiver<Event>) -> usize {
    let (mut lists, mut found) = (0, 0);
    while found < endpoints {
        if let Event::Endpoints(list) = queue.recv().await.expect("the source runs") {
            (lists, found) = (lists + 1, list.len());
        }
    }
    lists
}
