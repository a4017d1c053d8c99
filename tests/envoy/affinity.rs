//! Requests go where what they need already is: adapter, prefix, model.

use std::net::SocketAddr;

use anyhow::ensure;
use lodesman_e2e::client::Answer;
use lodesman_e2e::{Envoy, Fleet, Lodesman, eventually};
use serde_json::{Value, json};

use super::stage::{
    CHAT, SOON, Stage, at_rest, chat, duplex, fleet, original_dst, page, picker, requests_at,
    series,
};
use super::traffic::{MODEL, send_all, server_of, tally};

const SERVERS: usize = 4;

/// Adapter slots of a server.
const SLOTS: usize = 2;

/// Adapters: as many as all slots together.
const ADAPTERS: usize = SERVERS * SLOTS;

/// A chat request that has nothing in common with others but its model.
fn unlike(model: &str, number: usize) -> Value {
    let mut body = chat(4, false);
    body["model"] = json!(model);
    body["messages"][0]["content"] = json!(format!("{number} {model}"));
    body
}

/// How many of these requests found their adapter on the server, in the order in which they reached it.
fn resident<'a>(adapters: impl Iterator<Item = &'a str>) -> usize {
    let mut slots: Vec<&str> = Vec::new();
    let mut found = 0;
    for adapter in adapters {
        let before = slots.len();
        slots.retain(|slot| *slot != adapter);
        found += before - slots.len();
        slots.insert(0, adapter);
        slots.truncate(SLOTS);
    }
    found
}

/// How many requests found their adapter, over all servers.
async fn found(servers: &[SocketAddr]) -> usize {
    let mut sum = 0;
    for server in servers {
        let seen = requests_at(*server).await;
        let adapters = seen.iter().filter_map(|request| request["headers"][MODEL].as_str());
        sum += resident(adapters);
    }
    sum
}

#[tokio::test]
async fn adapter_is_asked_for_where_it_is_resident() {
    let adapters: Vec<String> = (0..ADAPTERS).map(|number| format!("lora-{number}")).collect();
    let args = format!("--time-scale 5 --max-loras {SLOTS} --lora {}", adapters.join(" --lora "));
    for (workers, each) in [(1, 10), (6, 40)] {
        let stage = Stage::with(SERVERS, &args, "", duplex).await;
        known(&stage.picker, SERVERS).await;
        let mut bodies: Vec<_> = adapters
            .iter()
            .flat_map(|adapter| (0..each).map(move |number| unlike(adapter, number)))
            .collect();
        fastrand::Rng::with_seed(3).shuffle(&mut bodies);
        let asked = bodies.len();
        let answers = send_all(stage.client(), workers, bodies).await;
        let found = found(&stage.fleet.servers).await;
        let tally = tally(&answers);
        eprintln!("LORA {workers} workers: {found} of {asked} found; {tally:?}");
        at_rest(&stage.picker).await;
    }
}

/// A chat request whose prompt begins with `prefix`.
fn beginning(prefix: &str, number: usize, max_tokens: usize) -> Value {
    let mut body = chat(max_tokens, false);
    body["messages"][0]["content"] = json!(format!("{prefix} {number}"));
    body
}

fn cached(answer: &Answer) -> u64 {
    let usage = &answer.json().unwrap()["usage"];
    usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
}

#[tokio::test]
async fn prefix_returns_to_its_server_until_that_is_overloaded() {
    let stage = Stage::with(SERVERS, "--time-scale 5 --max-num-seqs 8", "", duplex).await;
    known(&stage.picker, SERVERS).await;
    let prefix = "All hands on deck. ".repeat(100);
    let tokens = prefix.len() as u64 / 4;
    let bodies = (0..20).map(|number| beginning(&prefix, number, 4)).collect();
    let answers = send_all(stage.client(), 1, bodies).await;
    let hits = answers.iter().filter(|answer| cached(answer) + 64 > tokens).count();
    eprintln!("PREFIX calm: {hits} of 20 hit; {:?}", tally(&answers));
    let bodies = (20..148).map(|number| beginning(&prefix, number, 100)).collect();
    let answers = send_all(stage.client(), 64, bodies).await;
    let hits = answers.iter().filter(|answer| cached(answer) + 64 > tokens).count();
    eprintln!("PREFIX storm: {hits} of 128 hit; {:?}", tally(&answers));
    at_rest(&stage.picker).await;
}

/// Waits until the pages of so many servers have been read.
async fn known(picker: &Lodesman, servers: usize) {
    let known = eventually(SOON, async || {
        let page = page(picker).await?;
        let count = series(&page, "lodesman_metrics_staleness_seconds").count();
        ensure!(count == servers, "{count} of {servers} were read");
        Ok(())
    });
    known.await.unwrap();
}

/// Servers of two models in one pool.
async fn two_models() -> ([Fleet; 2], Lodesman, Envoy) {
    let args = "--time-scale 50 --model";
    let fleets =
        [fleet(2, &format!("{args} llama")).await, fleet(2, &format!("{args} qwen")).await];
    let servers = fleets.each_ref().map(|fleet| fleet.servers.clone()).concat();
    let picker = picker(&servers, "").await;
    known(&picker, servers.len()).await;
    let filter = lodesman_e2e::envoy::ExtProc::full_duplex(picker.ext_proc);
    let envoy = Envoy::start(&original_dst(filter)).await.unwrap();
    (fleets, picker, envoy)
}

#[tokio::test]
async fn models_of_one_pool_are_kept_apart() {
    let (fleets, picker, envoy) = two_models().await;
    // The same prompts, so that nothing but the model tells where they belong.
    let bodies = (0..120).map(|number| {
        let mut body = unlike("", number / 2);
        body["model"] = json!(["llama", "qwen"][number % 2]);
        body
    });
    let answers = send_all(envoy.client(), 6, bodies.collect()).await;
    for answer in &answers {
        let model = answer.json().unwrap()["model"].clone();
        let [llama, qwen] = fleets.each_ref().map(|fleet| &fleet.servers);
        let servers = if model == "llama" { llama } else { qwen };
        assert!(servers.contains(&server_of(answer)), "{model} at {}", server_of(answer));
    }
    let tally = tally(&answers);
    assert!(tally.len() == 4 && tally.values().all(|count| *count >= 15), "{tally:?}");
    at_rest(&picker).await;
}

#[tokio::test]
async fn model_that_no_server_has_is_a_servers_to_refuse() {
    let (_fleets, picker, envoy) = two_models().await;
    let answer = envoy.client().post(CHAT, &unlike("falcon", 0)).await.unwrap();
    assert_eq!(answer.status, 404);
    assert!(answer.header("x-sim-server").is_some(), "{}", answer.text());
    super::stage::ended(&picker, "upstream_4xx", 1).await;
    at_rest(&picker).await;
}
