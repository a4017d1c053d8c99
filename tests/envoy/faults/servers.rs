//! Model servers fail in ways that clients see, or would.

use std::net::SocketAddr;
use std::time::Duration;

use lodesman_e2e::Envoy;
use serde_json::json;
use socket2::SockRef;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::{Scene, quarantined};
use crate::envoy::stage::{
    Stage, at_rest, duplex, fleet, is_honest, is_whole, order, picker, unlike,
};
use crate::envoy::traffic::{Load, send_all, tally};
use crate::envoy::wedged::until_back;

#[tokio::test]
async fn server_at_a_tenth_of_its_speed_gets_the_least() {
    let stage = Stage::with(3, "--time-scale 10", "", duplex).await;
    let scene = Scene::on(stage).await;
    let slow = scene.stage.fleet.servers[0];
    order(slow, json!({"kind": "slow", "factor": 10.0})).await;
    let ask = |from: usize| (from..from + 90).map(|number| unlike(number, 24, true)).collect();
    // What is learnt of it in the first round counts in the second.
    send_all(scene.stage.client(), 8, ask(0)).await;
    let spread = tally(&send_all(scene.stage.client(), 8, ask(90)).await);
    let drawn = spread.get(&slow).copied().unwrap_or_default();
    let others = spread.iter().filter(|(server, _)| **server != slow).map(|(_, count)| *count);
    assert!(Some(drawn) < others.min(), "{slow} is slow: {spread:?}");
    order(slow, json!({"kind": "none"})).await;
    scene.unharmed().await;
}

#[tokio::test]
async fn server_that_refuses_connections_is_left_out_until_it_is_back() {
    let fleets = [fleet(2, "--time-scale 20").await, fleet(1, "--time-scale 20").await];
    let servers = fleets.each_ref().map(|fleet| fleet.servers.clone()).concat();
    let picker = picker(&servers, "").await;
    let envoy = Envoy::start(&duplex(&picker, &fleets[0])).await.unwrap();
    let (refuses, stays) = (servers[0], servers[1]);
    let mut load = Load::start(envoy.client(), 4);
    load.pass(20).await;
    order(refuses, json!({"kind": "down"})).await;
    quarantined(&picker, refuses, &["unreachable", "errors"]).await;
    load.recover(40).await;
    let answers = load.stop().await;
    assert!(answers.iter().all(is_honest));
    // The last two of each client came when it was known.
    let (_, late) = answers.split_at(answers.len() - 40);
    assert!(late.iter().all(is_whole) && !tally(late).contains_key(&refuses));
    order(stays, json!({"kind": "none", "server": 0})).await;
    until_back(&picker, refuses).await;
    at_rest(&picker).await;
}

/// Takes connections, and resets each at once.
async fn resetting() -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut task = JoinSet::new();
    task.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        }
    });
    (address, task)
}

/// Takes connections, reads nothing and says nothing.
async fn silent() -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut task = JoinSet::new();
    task.spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    (address, task)
}

/// Requests go to the servers that are well as soon as it is known that `bad` does not answer.
async fn avoided(bad: SocketAddr) {
    let fleet = fleet(2, "--time-scale 20").await;
    let servers = [&fleet.servers[..], &[bad]].concat();
    let picker = picker(&servers, "").await;
    quarantined(&picker, bad, &["unreachable"]).await;
    let envoy = Envoy::start(&duplex(&picker, &fleet)).await.unwrap();
    let mut load = Load::start(envoy.client(), 4);
    load.pass(60).await;
    assert!(load.stop().await.iter().all(is_whole));
    at_rest(&picker).await;
}

#[tokio::test]
async fn server_that_resets_every_connection_gets_no_request() {
    let (bad, _task) = resetting().await;
    avoided(bad).await;
}

#[tokio::test]
async fn server_that_takes_connections_and_says_nothing_gets_no_request() {
    let (bad, _task) = silent().await;
    avoided(bad).await;
}
