//! Whatever the API server does, the last state stays, and in the end what is known is what there is.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::server::{Answer, Script, Server, bookmark, event, page, refusal, status};
use crate::k8s::fault::State;

/// A follower that knows `old`, whose first watch is `watch`; afterwards there is `new`.
async fn with_watch(watch: Answer) -> (Server, super::server::Followed) {
    let script = Script {
        lists: [page(&["old"], 10, None)].into(),
        watches: [watch].into(),
        pods: (vec!["new"], 20),
        ..Script::default()
    };
    let mut server = Server::start(script).await;
    let followed = server.follow(|_| ());
    (server, followed)
}

// FR-099
#[tokio::test]
async fn an_expired_version_leads_to_a_new_list() {
    let inside = json!({"type": "ERROR", "object": status(410, 0)}).to_string();
    for watch in [refusal(410, 0), Answer::Open(vec![inside])] {
        let (server, mut followed) = with_watch(watch).await;
        followed.until(&["new"]).await;
        assert_eq!((followed.restarts("expired"), server.asked("limit=500")), (1, 2));
        assert_eq!(followed.kind.progress().state, State::Following);
    }
}

#[tokio::test]
async fn a_line_that_cannot_be_read_leads_to_a_new_list() {
    let unversioned = r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#;
    for line in ["garbage", r#"{"type":"ADDED","object":7}"#, unversioned] {
        let (_server, mut followed) = with_watch(Answer::Open(vec![line.to_owned()])).await;
        followed.until(&["new"]).await;
        assert_eq!(followed.restarts("malformed"), 1, "{line}");
    }
}

#[tokio::test]
async fn a_server_that_is_busy_is_asked_again_when_it_says_and_not_before() {
    let script = Script {
        lists: [refusal(429, 1), refusal(429, 1)].into(),
        pods: (vec!["a"], 10),
        ..Script::default()
    };
    let (mut server, began) = (Server::start(script).await, Instant::now());
    let mut followed = server.follow(|_| ());
    followed.until(&["a"]).await;
    assert!(began.elapsed() >= Duration::from_secs(2));
    assert_eq!((server.asked("limit=500"), followed.restarts("throttled")), (3, 2));
}

#[tokio::test]
async fn errors_of_the_server_change_nothing() {
    let script = Script {
        lists: [page(&["a"], 10, None), refusal(500, 0), Answer::Says(503, "<html>".to_owned())]
            .into(),
        watches: [refusal(500, 0)].into(),
        pods: (vec!["a", "b"], 20),
        ..Script::default()
    };
    let mut server = Server::start(script).await;
    let mut followed = server.follow(|_| ());
    followed.until(&["a"]).await;
    followed.until_restarts("server_error", 2).await;
    assert_eq!(
        (followed.now(), followed.kind.progress().state),
        (vec!["a".to_owned()], State::Failing)
    );
    assert!(followed.listed.borrow().trouble.is_some());
    followed.until(&["a", "b"]).await;
    assert_eq!(
        (followed.restarts("server_error"), followed.kind.progress().state),
        (3, State::Following)
    );
    assert!(followed.listed.borrow().trouble.is_none());
}

#[tokio::test]
async fn a_watch_that_died_in_silence_is_left_and_begun_anew_where_it_was() {
    let script = Script {
        watches: [Answer::Open(vec![event("ADDED", "b", 11)])].into(),
        pods: (vec!["a"], 10),
        ..Script::default()
    };
    let mut server = Server::start(script).await;
    let mut followed = server.follow(|timing| timing.watch = Duration::from_secs(1));
    followed.until(&["a", "b"]).await;
    server.until_asked("timeoutSeconds=1&", 2).await;
    assert_eq!((server.asked("resourceVersion=11"), server.asked("limit=500")), (1, 1));
    assert_eq!(followed.now(), ["a", "b"]);
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_unreachable() {
    let script = Script {
        lists: [page(&["old"], 10, None), Answer::Silent].into(),
        watches: [Answer::Silent].into(),
        pods: (vec!["new"], 20),
        ..Script::default()
    };
    let mut server = Server::start(script).await;
    let mut followed = server.follow(|timing| timing.answer = Duration::from_millis(100));
    followed.until(&["old"]).await;
    followed.until_restarts("unreachable", 1).await;
    assert_eq!(followed.kind.progress().state, State::Unreachable);
    followed.until(&["new"]).await;
    assert_eq!(followed.restarts("unreachable"), 2);
}

#[tokio::test]
async fn a_list_that_breaks_off_is_begun_anew_and_never_seen_in_part() {
    let script = Script {
        lists: [
            page(&["a"], 10, Some("t1")),
            refusal(410, 0),
            page(&["a"], 20, Some("t2")),
            page(&["b"], 20, None),
        ]
        .into(),
        ..Script::default()
    };
    let mut server = Server::start(script).await;
    let mut followed = server.follow(|_| ());
    followed.listed.changed().await.unwrap();
    assert_eq!(followed.listed.borrow_and_update().complete, None, "only the trouble is told");
    followed.until(&["a", "b"]).await;
    assert_eq!((server.asked("continue=t1"), server.asked("continue=t2")), (1, 1));
}

#[tokio::test]
async fn events_that_come_twice_or_late_change_nothing() {
    let lines = [
        event("ADDED", "b", 12),
        event("ADDED", "b", 12),
        event("DELETED", "b", 14),
        event("MODIFIED", "b", 13),
        event("DELETED", "a", 9),
        event("ADDED", "c", 15),
    ];
    let script = Script {
        watches: [Answer::Open(lines.into())].into(),
        pods: (vec!["a"], 10),
        ..Script::default()
    };
    let mut server = Server::start(script).await;
    server.follow(|_| ()).until(&["a", "c"]).await;
}

// FR-099
#[tokio::test]
async fn a_delete_that_was_lost_is_found_by_the_next_list() {
    let script = Script {
        lists: [page(&["a", "b"], 10, None)].into(),
        watches: [Answer::Lines(vec![bookmark(15)]), Answer::Lines(Vec::new())].into(),
        pods: (vec!["a"], 20),
        ..Script::default()
    };
    let mut server = Server::start(script).await;
    let mut followed = server.follow(|timing| timing.relist = Duration::from_millis(15));
    followed.until(&["a", "b"]).await;
    followed.until(&["a"]).await;
    assert_eq!(server.asked("resourceVersion=15"), 1, "a bookmark moves the version");
    assert!(followed.kind.progress().restarts.is_empty(), "nothing was wrong");
}

// FR-099
#[tokio::test]
async fn a_server_that_ends_each_watch_at_once_is_not_hammered() {
    let ends = (0..50).map(|_| Answer::Lines(Vec::new())).collect();
    let script = Script { watches: ends, pods: (vec!["a"], 10), ..Script::default() };
    let mut server = Server::start(script).await;
    let began = Instant::now();
    let mut followed = server.follow(|timing| timing.least = Duration::from_millis(100));
    followed.until(&["a"]).await;
    server.until_asked("watch=true", 4).await;
    assert!(began.elapsed() >= Duration::from_millis(300));
}
