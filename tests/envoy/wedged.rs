//! Servers that accept requests and give no token.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::Request;
use lodesman_e2e::client::Response;
use lodesman_e2e::wait::now;
use lodesman_e2e::{Body, Client, Lodesman, eventually};
use serde_json::json;
use tokio::task::JoinSet;

use super::drain::at_once;
use super::stage::{CHAT, SOON, Stage, at_rest, duplex, is_whole, order, total, unlike};
use super::traffic::{send_all, server_of, tally};

/// A server that hangs is to be out within 3 s; what a busy machine adds.
const OUT: Duration = Duration::from_secs(6);

async fn open(client: Client, number: usize) -> Response {
    let ask = unlike(number, 1_200, true).to_string();
    let request = Request::post(CHAT).body(Body::full(ask)).unwrap();
    let mut response = client.send(request).await.unwrap();
    response.chunk().await.unwrap().unwrap();
    response
}

/// State and reason of a server at a picker.
pub(super) async fn state(picker: &Lodesman, server: SocketAddr) -> Result<(String, String)> {
    let shown = Client::http1(picker.admin).get("/debug/snapshot").await?.json()?;
    let all = shown["endpoints"].as_array().cloned().unwrap_or_default();
    let one = all.iter().find(|one| one["address"] == server.to_string()).context("unknown")?;
    let word = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
    Ok((word("state"), word("state_reason")))
}

/// Waits until requests run on a server.
async fn until_busy(picker: &Lodesman, server: SocketAddr) {
    let runs = eventually(SOON, async || {
        let label = format!("endpoint_name=\"{server}\"");
        let runs = total(picker, "llm_d_epp_inflight_requests", &label).await?;
        ensure!(runs > 0, "nothing runs on {server}");
        Ok(())
    });
    runs.await.unwrap();
}

/// Waits until a server is in quarantine, and tells why.
async fn until_out(picker: &Lodesman, server: SocketAddr) -> String {
    let out = eventually(SOON, async || {
        let (state, reason) = state(picker, server).await?;
        ensure!(state == "quarantined", "{state} {reason}");
        Ok(reason)
    });
    out.await.unwrap()
}

/// Waits until a server takes requests again.
pub(super) async fn until_back(picker: &Lodesman, server: SocketAddr) {
    let back = eventually(SOON, async || {
        let (state, reason) = state(picker, server).await?;
        ensure!(["warming", "ready"].contains(&&*state), "{state} {reason}");
        Ok(())
    });
    back.await.unwrap();
}

#[tokio::test]
async fn server_that_hangs_under_load_is_out_within_seconds_and_comes_back() {
    let stage = Stage::with(3, "--time-scale 4", "", duplex).await;
    let (picker, client) = (&stage.picker, stage.client());
    let hangs = stage.fleet.servers[0];
    let streams = at_once((0..12).map(|number| open(client, number))).await;
    until_busy(picker, hangs).await;
    order(hangs, json!({"kind": "wedged"})).await;
    let wedged = now();
    assert_eq!(until_out(picker, hangs).await, "silent");
    let took = wedged.elapsed();
    assert!(took < OUT, "{took:?}");
    let new: Vec<_> = (0..30).map(|number| unlike(100 + number, 4, true)).collect();
    let answers = send_all(client, 4, new).await;
    assert_eq!(tally(&answers).get(&hangs), None, "a server that hangs gets no new request");
    order(hangs, json!({"kind": "none"})).await;
    let back = until_back(picker, hangs);
    let answers = at_once(streams.into_iter().map(Response::collect)).await;
    back.await;
    assert_eq!(tally(&answers).values().sum::<usize>(), 12, "none is cut");
    let answers = send_all(client, 4, (0..30).map(|n| unlike(200 + n, 4, true)).collect()).await;
    assert!(tally(&answers).contains_key(&hangs), "{:?}", tally(&answers));
    at_rest(picker).await;
}

#[tokio::test]
async fn server_that_hangs_with_answers_that_come_as_a_whole_is_out_too() {
    let stage = Stage::with(3, "--time-scale 4", "--probe=false", duplex).await;
    let (picker, hangs) = (&stage.picker, stage.fleet.servers[0]);
    let mut all = JoinSet::new();
    for number in 0..12 {
        let (client, ask) = (stage.client(), unlike(number, 800, false));
        all.spawn(async move { client.post(CHAT, &ask).await.unwrap() });
    }
    until_busy(picker, hangs).await;
    order(hangs, json!({"kind": "wedged"})).await;
    let wedged = now();
    assert_eq!(until_out(picker, hangs).await, "frozen");
    let took = wedged.elapsed();
    assert!(took < OUT, "{took:?}");
    order(hangs, json!({"kind": "none"})).await;
    assert!(all.join_all().await.iter().all(is_whole), "none is cut");
    until_back(picker, hangs).await;
    at_rest(picker).await;
}

#[tokio::test]
async fn server_that_hangs_while_nobody_asks_is_found_by_probes() {
    let stage = Stage::with(2, "--time-scale 50", "--probe-interval 500ms", duplex).await;
    let (picker, hangs) = (&stage.picker, stage.fleet.servers[0]);
    let probed = eventually(SOON, async || {
        let tokens = total(picker, "lodesman_probes_total", "result=\"token\"").await?;
        ensure!(tokens >= 2, "{tokens} tokens");
        Ok(())
    });
    probed.await.unwrap();
    order(hangs, json!({"kind": "wedged"})).await;
    assert_eq!(until_out(picker, hangs).await, "no_token");
    let answers = send_all(stage.client(), 2, (0..10).map(|n| unlike(n, 2, false)).collect()).await;
    assert_eq!(tally(&answers).get(&hangs), None);
    order(hangs, json!({"kind": "none"})).await;
    until_back(picker, hangs).await;
}

#[tokio::test]
async fn server_that_answers_errors_comes_back_by_a_probe() {
    let stage = Stage::with(2, "--time-scale 50", "--probe-interval 500ms", duplex).await;
    let (picker, fails) = (&stage.picker, stage.fleet.servers[0]);
    order(fails, json!({"kind": "error-500"})).await;
    let reason = until_out(picker, fails).await;
    assert!(["errors", "no_token"].contains(&reason.as_str()), "{reason}");
    let answers = send_all(stage.client(), 2, (0..10).map(|n| unlike(n, 2, true)).collect()).await;
    assert!(answers.iter().all(|answer| server_of(answer) != fails));
    order(fails, json!({"kind": "none"})).await;
    until_back(picker, fails).await;
}
