//! Requests go where what they need already is: adapter, prefix, model.

use std::net::SocketAddr;

use anyhow::ensure;
use lodesman_e2e::client::Answer;
use lodesman_e2e::{Envoy, Fleet, Lodesman, eventually};
use serde_json::{Value, json};

use super::stage::{
    CHAT, SOON, Stage, at_rest, chat, duplex, ended, fleet, is_whole, page, picker, requests_at,
    series, value,
};
use super::traffic::{MODEL, send_all, server_of, tally};

const SERVERS: usize = 4;

/// Adapter slots of a server.
const SLOTS: usize = 2;

/// Adapters: three quarters of all slots.
const ADAPTERS: usize = 6;

/// The argument by which only load counts.
fn by_load_alone() -> String {
    let scorers = ["queue-scorer", "active-request-scorer"].map(|name| json!({"type": name}));
    let (version, kind) = ("llm-d.ai/v1alpha1", "EndpointPickerConfig");
    let config = json!({"apiVersion": version, "kind": kind, "plugins": scorers});
    format!("--config-text={config}")
}

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

fn adapters() -> Vec<String> {
    (0..ADAPTERS).map(|number| format!("lora-{number}")).collect()
}

/// Servers of these adapters, and a picker that has read all their pages.
async fn adapting(adapters: &[String], picker_args: &str) -> Stage {
    let args = format!("--time-scale 5 --max-loras {SLOTS} --lora {}", adapters.join(" --lora "));
    let stage = Stage::with(SERVERS, &args, picker_args, duplex).await;
    known(&stage.picker, SERVERS).await;
    stage
}

/// The share of requests for adapters, from so many clients, that found theirs on the server.
async fn share_found(picker_args: &str, workers: usize, requests: usize) -> f64 {
    let adapters = adapters();
    let stage = adapting(&adapters, picker_args).await;
    let body = |number: usize| unlike(&adapters[number % ADAPTERS], number);
    let mut bodies: Vec<_> = (0..requests).map(body).collect();
    fastrand::Rng::with_seed(3).shuffle(&mut bodies);
    let answers = send_all(stage.client(), workers, bodies).await;
    assert!(answers.iter().all(is_whole));
    at_rest(&stage.picker).await;
    found(&stage.fleet.servers).await as f64 / requests as f64
}

/// Waits until no page shows that anything waits, which one read while an adapter was loaded does.
async fn calm(picker: &Lodesman) {
    let calm = eventually(SOON, async || {
        let page = page(picker).await?;
        let queues: Vec<_> = series(&page, "llm_d_epp_per_endpoint_queue_size").collect();
        ensure!(queues.iter().all(|line| value(line) == "0"), "{queues:?}");
        Ok(())
    });
    calm.await.unwrap();
}

#[tokio::test]
async fn adapter_returns_to_the_server_that_has_just_loaded_it() {
    let adapters = adapters();
    let stage = adapting(&adapters, "--refresh-metrics-interval=50ms").await;
    for adapter in &adapters {
        let mut answers = Vec::new();
        for number in 0..5 {
            answers.extend(send_all(stage.client(), 1, vec![unlike(adapter, number)]).await);
            calm(&stage.picker).await;
        }
        let tally = tally(&answers);
        assert_eq!(tally.len(), 1, "{adapter} {tally:?}");
    }
    at_rest(&stage.picker).await;
}

#[tokio::test]
async fn adapters_are_seldom_loaded_again() {
    let share = share_found("", 1, 120).await;
    // A random server has it for a third of the requests.
    assert!(share > 0.7, "{share}");
}

#[tokio::test]
async fn adapters_are_loaded_less_often_in_a_crowd_than_by_load_alone() {
    let with = share_found("", 6, 240).await;
    let without = share_found(&by_load_alone(), 6, 240).await;
    assert!(with > 1.3 * without, "{with} instead of {without}");
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

/// How many of these found a prompt of `tokens` in a cache, but for its last block.
fn hits(answers: &[Answer], tokens: u64) -> usize {
    answers.iter().filter(|answer| cached(answer) + 16 > tokens).count()
}

#[tokio::test]
async fn prefix_returns_to_its_server_until_that_is_overloaded() {
    let stage = Stage::with(SERVERS, "--time-scale 5 --max-num-seqs 8", "", duplex).await;
    known(&stage.picker, SERVERS).await;
    let prefix = "All hands on deck. ".repeat(100);
    let tokens = prefix.len() as u64 / 4;
    let calm = (0..20).map(|number| beginning(&prefix, number, 4)).collect();
    let answers = send_all(stage.client(), 1, calm).await;
    assert_eq!((tally(&answers).len(), hits(&answers, tokens)), (1, 19));
    // Twice as many at a time as all servers together can run.
    let storm = (20..532).map(|number| beginning(&prefix, number, 30)).collect();
    let answers = send_all(stage.client(), 64, storm).await;
    let (tally, hits) = (tally(&answers), hits(&answers, tokens));
    let mean = answers.len() / SERVERS;
    assert!(tally.len() == SERVERS && tally.values().all(|count| *count < 2 * mean), "{tally:?}");
    assert!(hits > answers.len() * 9 / 10, "{hits}");
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
    let envoy = Envoy::start(&duplex(&picker, &fleets[0])).await.unwrap();
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

// FR-165
#[tokio::test]
async fn model_that_no_server_has_is_a_servers_to_refuse() {
    let (_fleets, picker, envoy) = two_models().await;
    let answer = envoy.client().post(CHAT, &unlike("falcon", 0)).await.unwrap();
    assert_eq!(answer.status, 404);
    assert!(answer.header("x-sim-server").is_some(), "{}", answer.text());
    ended(&picker, "upstream_4xx", 1).await;
    at_rest(&picker).await;
}
