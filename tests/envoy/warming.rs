//! Servers that join a pool: they get what they can show for.

use std::path::Path;

use anyhow::ensure;
use lodesman_e2e::{Envoy, eventually};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::churn::listing;
use super::stage::{
    CHAT, SOON, at_rest, chat, duplex, fleet, is_whole, order, picker_of, total, watching,
};
use super::traffic::{send_all, tally};
use super::wedged::{state, until_back};

/// Prompts at a time of a server that has computed none, and what two decisions at one instant may add.
const UNPROVEN: usize = 4 + 2;

const REQUESTS: usize = 60;

/// A policy that looks at nothing, for endpoints that stand in a file.
fn by_chance(endpoints: &Path) -> String {
    let mut config: Value = serde_json::from_str(&watching(endpoints)).unwrap();
    config["plugins"].as_array_mut().unwrap().push(json!({"type": "random-picker"}));
    config.to_string()
}

/// A request from which speed is learnt.
fn long(number: usize) -> Value {
    let mut request = chat(2, true);
    request["messages"][0]["content"] = json!(format!("{number} {}", "and again ".repeat(2_500)));
    request
}

// FR-092
#[tokio::test]
async fn server_that_joins_gets_few_requests_before_it_has_answered_any() {
    let fleet = fleet(3, "--time-scale 20").await;
    let joins = fleet.servers[2];
    let directory = tempfile::tempdir().unwrap();
    let endpoints = directory.path().join("endpoints.yaml");
    std::fs::write(&endpoints, listing(&fleet.servers[..2])).unwrap();
    let picker = picker_of(["--config-text".to_owned(), by_chance(&endpoints)]).await;
    let envoy = Envoy::start(&duplex(&picker, &fleet)).await.unwrap();
    let known = eventually(SOON, async || {
        send_all(envoy.client(), 2, (0..8).map(long).collect()).await;
        let ready = total(&picker, "lodesman_endpoints", "state=\"ready\"").await?;
        ensure!(ready == 2, "{ready} are ready");
        Ok(())
    });
    known.await.unwrap();
    order(joins, json!({"kind": "wedged"})).await;
    std::fs::write(&endpoints, listing(&fleet.servers)).unwrap();
    eventually(SOON, async || state(&picker, joins).await).await.unwrap();
    let mut waits = JoinSet::new();
    for _ in 0..REQUESTS {
        let client = envoy.client();
        waits.spawn(async move { client.post(CHAT, &chat(4, true)).await.unwrap() });
    }
    let mut answers = Vec::new();
    while answers.len() < REQUESTS - UNPROVEN {
        let next = timeout(SOON, waits.join_next()).await;
        answers.push(next.expect("few are where nothing comes").unwrap().unwrap());
    }
    order(joins, json!({"kind": "none"})).await;
    answers.extend(waits.join_all().await);
    assert!(answers.iter().all(is_whole));
    until_back(&picker, joins).await;
    let answers = send_all(envoy.client(), 4, vec![chat(4, true); 40]).await;
    assert!(tally(&answers).contains_key(&joins), "{:?}", tally(&answers));
    at_rest(&picker).await;
}
