//! Endpoints that drain: what runs on them is finished, and nothing new comes.

use std::net::SocketAddr;
use std::process::Output;

use anyhow::{Context as _, ensure};
use http::Request;
use lodesman_e2e::client::Response;
use lodesman_e2e::{Body, Client, Lodesman, eventually};
use serde_json::Value;
use tokio::process::Command;
use tokio::task::JoinSet;

use super::stage::{CHAT, SOON, Stage, at_rest, binary, duplex, page, series, unlike, value};
use super::traffic::{send_all, server_of, tally};

const STREAMS: usize = 50;

/// Some twelve seconds where fifty are answered at once.
const TOKENS: usize = 600;

/// `lodesman drain` of a server at a picker.
async fn drain(picker: &Lodesman, server: SocketAddr, args: &[&str]) -> (Option<i32>, Value) {
    let at = format!("http://{}", picker.admin);
    let mut command = Command::new(binary());
    command.args(["drain", &server.to_string(), "--at", &at, "--json"]).args(args);
    let Output { status, stdout, stderr } = command.output().await.unwrap();
    let told = serde_json::from_slice(&stdout);
    (status.code(), told.unwrap_or_else(|_| String::from_utf8_lossy(&stderr).into()))
}

async fn open(client: Client, number: usize) -> Response {
    let ask = unlike(number, TOKENS, true).to_string();
    let request = Request::post(CHAT).body(Body::full(ask)).unwrap();
    let mut response = client.send(request).await.unwrap();
    response.chunk().await.unwrap().unwrap();
    response
}

/// Does all at once.
pub(super) async fn at_once<F>(all: impl Iterator<Item = F>) -> Vec<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let mut set = JoinSet::new();
    for one in all {
        set.spawn(one);
    }
    set.join_all().await
}

/// The value of a family that has one series.
async fn single(picker: &Lodesman, family: &str) -> anyhow::Result<String> {
    let page = page(picker).await?;
    Ok(value(series(&page, family).next().context("no such family")?).to_owned())
}

// FR-160
#[tokio::test]
async fn server_that_drains_finishes_fifty_streams_and_gets_no_new_one() {
    let stage = Stage::with(2, "--time-scale 2", "", duplex).await;
    let (picker, client) = (&stage.picker, stage.client());
    let [leaves, stays] = stage.fleet.servers[..] else { panic!("two servers") };
    let (code, told) = drain(picker, stays, &[]).await;
    assert_eq!((code, &told["endpoints"][0]["state"]), (Some(0), &"draining".into()), "{told}");
    let streams = at_once((0..STREAMS).map(|number| open(client, number))).await;
    assert_eq!(drain(picker, stays, &["--undo"]).await.0, Some(0));
    let waiting = Client::http1(picker.metrics);
    let wait = format!("/drain/wait?pod={leaves}&timeout=2m");
    let mut waits = JoinSet::new();
    waits.spawn(async move { waiting.get(&wait).await.unwrap() });
    let left = eventually(SOON, async || {
        let left = single(picker, "lodesman_draining_inflight_requests").await?;
        ensure!(left == STREAMS.to_string(), "{left} left");
        Ok(())
    });
    left.await.unwrap();
    let new: Vec<_> = (0..20).map(|number| unlike(STREAMS + number, 4, true)).collect();
    let answers = send_all(client, 4, new).await;
    assert_eq!(tally(&answers).into_iter().collect::<Vec<_>>(), [(stays, 20)]);
    assert!(waits.try_join_next().is_none(), "something is left");
    let (code, told) = drain(picker, leaves, &["--wait", "0s"]).await;
    assert_eq!((code, &told["drained"]), (Some(1), &false.into()), "{told}");
    let answers = at_once(streams.into_iter().map(Response::collect)).await;
    // The first piece was read before.
    assert!(answers.iter().all(|answer| server_of(answer) == leaves), "none is cut");
    let answer = waits.join_next().await.unwrap().unwrap();
    assert_eq!((answer.status.as_u16(), answer.text()), (200, format!("{leaves}: drained\n")));
    let (code, told) = drain(picker, leaves, &["--wait", "30s"]).await;
    assert_eq!((code, &told["drained"]), (Some(0), &true.into()), "{told}");
    at_rest(picker).await;
}

#[tokio::test]
async fn command_tells_a_name_that_is_not_known_and_a_picker_that_is_not_there() {
    let mut stage = Stage::start(1).await;
    let (code, told) = drain(&stage.picker, ([192, 0, 2, 1], 1).into(), &[]).await;
    let said = told.as_str().unwrap_or_default();
    assert!(code == Some(64) && said.contains("no endpoint and no pod named"), "{code:?} {told}");
    stage.picker.process.kill().unwrap();
    let (code, told) = drain(&stage.picker, stage.fleet.servers[0], &[]).await;
    assert_eq!(code, Some(70), "{told}");
}
