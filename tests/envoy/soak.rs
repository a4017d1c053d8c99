//! Load with churn for as long as is asked for, and what memory that takes.

use std::env;
use std::time::Duration;

use http::Request;
use lodesman_e2e::client::Answer;
use lodesman_e2e::wait::now;
use lodesman_e2e::{Body, Client, Envoy};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::chaos::Manner;
use super::churn::{Mount, listing};
use super::stage::{
    CHAT, at_rest, duplex, fleet, is_whole, memory, most_memory, picker_of, unlike, watching,
};
use super::traffic::Load;

const SERVERS: usize = 8;

/// KiB of bodies that may be held.
const BUDGET: usize = 16 << 10;

/// KiB that the index of prefixes may take: 64 bytes for each of the blocks below, over all servers.
const INDEX: usize = SERVERS * 4_000 * 64 / 1024;

/// KiB that may have been received and not read: the window of the gateway's connection.
const WINDOW: usize = 16 << 10;

/// How long: `LODESMAN_SOAK_SECONDS`, 15 unless set.
fn how_long() -> Duration {
    let seconds = env::var("LODESMAN_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(15))
}

/// Endpoints in a file, and a small index of prefixes.
fn config(mount: &Mount) -> String {
    let mut config: Value = serde_json::from_str(&watching(&mount.path())).unwrap();
    let parameters = json!({"lruCapacityPerServer": 4_000, "autoTune": false});
    let index = json!({"type": "approx-prefix-cache-producer", "parameters": parameters});
    config["plugins"].as_array_mut().unwrap().push(index);
    config.to_string()
}

/// A prompt of 1 MB like no other.
async fn upload(client: Client, number: usize) -> Answer {
    let mut ask = unlike(number, 1, false);
    ask["messages"][0]["content"] = format!("{number} {}", "harbor ".repeat(150_000)).into();
    let request = Request::post(CHAT).body(Body::full(ask.to_string())).unwrap();
    client.send(request).await.unwrap().collect().await
}

/// A round of clients that send much, send garbage, or leave; uploads that were neither served nor shed.
async fn churn(client: Client, round: usize) -> Vec<Answer> {
    let mut manners = JoinSet::new();
    for manner in [Manner::SendsGarbage, Manner::AbortsItsRequest, Manner::LeavesTheAnswer] {
        (0..4).for_each(|_| drop(manners.spawn(manner.play(client))));
    }
    let mut uploads = JoinSet::new();
    for number in 0..24 {
        uploads.spawn(upload(client, round * 24 + number));
    }
    let answers = uploads.join_all().await;
    assert!(manners.join_all().await.iter().all(|right| *right), "in round {round}");
    answers.into_iter().filter(|it| !is_whole(it) && it.status != 429).collect()
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "the figure that is asked for")]
async fn soak_with_churn_stays_within_the_memory_that_it_may_take() {
    let fleet = fleet(SERVERS, "--time-scale 50").await;
    let mut mount = Mount::new(&listing(&fleet.servers));
    let args = ["--config-text".to_owned(), config(&mount), "--body-budget=16MiB".to_owned()];
    let picker = picker_of(args).await;
    let envoy = Envoy::start(&duplex(&picker, &fleet)).await.unwrap();
    let mut load = Load::start(envoy.client(), 4);
    load.pass(200).await;
    let settled = memory(&picker);
    let may = (settled + BUDGET + INDEX + WINDOW) * 11 / 10;
    let (end, mut round) = (now() + how_long(), 0);
    while now() < end {
        let from = round % (SERVERS / 2);
        mount.swap(&listing(&fleet.servers[from..from + SERVERS / 2]));
        let lost = churn(envoy.client(), round).await;
        assert!(lost.is_empty(), "{lost:?}");
        let most = most_memory(&picker);
        assert!(most <= may, "{most} KiB of {may} after {round} rounds; {settled} at first");
        round += 1;
    }
    let most = most_memory(&picker);
    eprintln!("{round} rounds: {settled} KiB at first, {most} at most, {may} allowed");
    let answers = load.stop().await;
    // While uploads have all of the budget, small requests are shed too.
    let failed = answers.iter().filter(|it| !is_whole(it) && it.status != 429);
    let failed: Vec<_> = failed.map(|it| (it.status, it.text(), &it.broken)).collect();
    assert!(failed.is_empty(), "{} of {}: {failed:#?}", failed.len(), answers.len());
    at_rest(&picker).await;
}
