//! Model servers are replaced, die and vanish.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::world::SEEN;
use super::{MODEL, SERVERS, World};
use crate::chat::{self, Clients, ask};
use crate::wait::eventually;

/// Longest time until a client learns that its server died.
const LEARNED: Duration = Duration::from_secs(10);

/// Tokens of an answer that takes a quarter of a minute.
const LONG: usize = 750;

/// A rollout of the model servers costs no request.
pub(super) async fn roll(world: &World<'_>) -> Result<()> {
    let before = world.servers().await?;
    let mut clients = Clients::start(world.gateway(), MODEL, 4);
    clients.next(20).await?;
    world.kubectl(&format!("rollout restart {SERVERS}")).await?;
    world.rolled_out(SERVERS).await?;
    let replaced = eventually(SEEN, async || {
        let places = clients.next(20).await?;
        ensure!(places.iter().all(|it| !before.contains(&it.ip())), "old servers still answer");
        Ok(())
    });
    replaced.await?;
    clients.finish().await
}

/// A server that is killed breaks its own answers, at once, and no others.
pub(super) async fn killed(world: &World<'_>) -> Result<()> {
    let mut open = Vec::new();
    for number in 0..6 {
        open.push(chat::open(world.gateway(), MODEL, number, LONG).await?);
    }
    let pods = world.pods().await?;
    let (victim, ip) = pods.first().context("no pod")?;
    world.kubectl(&format!("delete pod {victim} --grace-period=0 --force --wait=false")).await?;
    let (mut broken, mut whole) = (0, 0);
    for response in open {
        let place = response.headers.get("x-sim-server").context("no server")?.to_str()?.to_owned();
        if place.starts_with(&format!("{ip}:")) {
            let answer = tokio::time::timeout(LEARNED, response.collect()).await;
            let answer = answer.context("the client is left to wait")?;
            ensure!(answer.broken.is_some(), "taken for whole: {}", answer.text());
            broken += 1;
        } else {
            chat::server(&response.collect().await)?;
            whole += 1;
        }
    }
    ensure!(broken > 0 && whole > 0, "{broken} broken, {whole} whole");
    world.at_peace().await
}

/// Without servers requests are refused, at once and in so many words; with one they are answered.
pub(super) async fn scale_to_zero(world: &World<'_>) -> Result<()> {
    let replicas = world.servers().await?.len();
    world.kubectl(&format!("scale {SERVERS} --replicas=0")).await?;
    let refused = eventually(SEEN, async || {
        let answer = world.gateway().post(chat::PATH, &chat::request(MODEL, 0, 1)).await?;
        ensure!(answer.status == 503, "{} {}", answer.status, answer.text());
        ensure!(answer.header("retry-after").is_some(), "no retry-after");
        Ok(())
    });
    refused.await?;
    world.kubectl(&format!("scale {SERVERS} --replicas=1")).await?;
    eventually(SEEN, async || ask(world.gateway(), MODEL, 1).await.map(drop)).await?;
    world.kubectl(&format!("scale {SERVERS} --replicas={replicas}")).await?;
    world.at_peace().await
}
