//! The stop: open streams end as they would have.

use anyhow::ensure;
use lodesman::pool::Event;
use lodesman_e2e::eventually;
use tokio_util::sync::CancellationToken;

use super::rig::{HELD_20, Rig, SOON, config};
use super::stream::{CHAT, HI, refusal};

#[tokio::test]
async fn a_stream_that_is_open_when_the_drain_begins_completes() {
    let mut rig = Rig::blind(1, &["--drain-timeout=100ms"]).await;
    let mut stream = rig.stream().await;
    let (head, tail) = HI.split_at(20);
    stream.post(CHAT, &[]).body(head);
    rig.counts("lodesman_body_bytes_buffered{", &[], HELD_20).await;
    let (stop, at_once) = (CancellationToken::new(), CancellationToken::new());
    let running = rig.running();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(running.stop_on(stop.clone(), at_once));
    stop.cancel();
    let closed = async || {
        let status = rig.page("/readyz").await?.status;
        ensure!(status == 503, "ready: {status}");
        let new = super::stream::Stream::open(new_connection(&rig).await?, &[]).await;
        ensure!(new.is_err(), "new streams are taken");
        Ok(())
    };
    eventually(SOON, closed).await.expect("a drain");
    stream.last(tail).hear(3).await;
    stream.answer("application/json").last_chunk("{}").hear(2).await;
    assert!(stream.closed().await.ends_with("< END OK\n"));
    let stopped = tasks.join_next().await.expect("the picker").expect("no panic");
    assert!(stopped.is_ok(), "{stopped:?}");
}

// FR-116
#[tokio::test]
async fn new_streams_are_served_while_gateways_learn_of_the_drain() {
    let mut rig = Rig::blind(1, &["--drain-timeout=1h"]).await;
    let (stop, at_once) = (CancellationToken::new(), CancellationToken::new());
    let running = rig.running();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(running.stop_on(stop.clone(), at_once.clone()));
    stop.cancel();
    let unready = async || {
        let status = rig.page("/readyz").await?.status;
        ensure!(status == 503, "ready: {status}");
        Ok(())
    };
    eventually(SOON, unready).await.expect("a drain");
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[]).last(HI);
    assert_eq!(stream.placed().await, rig.pods[0]);
    at_once.cancel();
    assert!(tasks.join_next().await.expect("the picker").expect("no panic").is_ok());
}

// FR-080
#[tokio::test]
async fn requests_that_wait_for_an_endpoint_are_answered_before_the_picker_ends() {
    const HELD: usize = 50;
    let hold = config("lodesman: {hold: {}}\n");
    let none = vec![Event::Endpoints(Vec::new())];
    let mut rig = Rig::told(0, none, &[&hold, "--drain-timeout=100ms"]).await;
    rig.ready().await;
    let mut waiting = Vec::new();
    for _ in 0..HELD {
        let mut stream = rig.stream().await;
        stream.post(CHAT, &[]).last(HI);
        waiting.push(stream);
    }
    rig.counts("lodesman_held_requests{", &[], HELD).await;
    let (stop, at_once) = (CancellationToken::new(), CancellationToken::new());
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(rig.running().stop_on(stop.clone(), at_once));
    stop.cancel();
    for mut stream in waiting {
        let (status, body) = refusal(&stream.reply().await).expect("a refusal");
        assert_eq!((status, &body["error"]["code"]), (503, &"stopping".into()));
        assert!(stream.ended().await.ends_with("< END OK\n"));
    }
    assert!(tasks.join_next().await.expect("the picker").expect("no panic").is_ok());
}

async fn new_connection(rig: &Rig) -> anyhow::Result<tonic::transport::Channel> {
    let url = format!("http://127.0.0.1:{}", rig.addresses.grpc.port());
    match tonic::transport::Endpoint::from_shared(url)?.connect().await {
        Ok(channel) => Ok(channel),
        Err(_) => Ok(rig.channel()),
    }
}
