//! What takes time by itself: events with pauses, scraping, replies while it goes on.

use std::time::Duration;

use anyhow::Result;

use super::compare::{Rounds, alternate};
use super::figure::{Figure, Unit};
use super::lab::{Lab, Server, Setup};
use crate::wait::now;

/// How long an idle server is watched.
const WATCHED: Duration = Duration::from_secs(20);
/// Response events of a request.
const EVENTS: usize = 100;

/// CPU of an event: that of requests with events less that of requests without, among the events.
pub(super) async fn events(lab: &Lab) -> Result<Vec<Figure>> {
    let real = Setup::real(16).with("--refresh-metrics-interval 1s");
    let servers = [lab.null().await?, lab.real(real).await?];
    let (requests, rounds) = (lab.scaled(1_000), lab.few_rounds());
    let load = format!("--requests {requests} --streams 32");
    let without = alternate(lab, &servers, &load, rounds).await?;
    let load = format!("{load} --events {EVENTS} --gap-ms 5");
    let with = alternate(lab, &servers, &load, rounds).await?;
    let cost = |server: usize| {
        let (with, without) = (with.get(server), without.get(server));
        let (with, without) = (with.map(Rounds::cpu_us), without.map(Rounds::cpu_us));
        let pairs = with.unwrap_or_default().into_iter().zip(without.unwrap_or_default());
        pairs.map(|(with, without)| (with - without) / EVENTS as f64).collect::<Vec<_>>()
    };
    let (null, real) = (cost(0), cost(1));
    let ratios: Vec<f64> = real.iter().zip(&null).map(|(real, null)| real / null).collect();
    Ok(vec![
        Figure::new("real / null", Unit::Ratio, ratios),
        Figure::new("CPU null", Unit::Us, null),
        Figure::new("CPU real", Unit::Us, real),
    ])
}

/// The time to the header reply at 500 requests a second, while all endpoints are scraped as often as can be.
pub(super) async fn replies(lab: &Lab) -> Result<Vec<Figure>> {
    let real = Setup::real(100).with("--refresh-metrics-interval 50ms");
    let servers = [lab.null().await?, lab.real(real).await?];
    let load = format!("--rate 500 --requests {}", lab.scaled(2_500));
    let rounds = alternate(lab, &servers, &load, lab.few_rounds()).await?;
    let mut figures = Vec::new();
    if let [null, real] = rounds.as_slice() {
        figures.push(real.against(null, |rounds| rounds.reply_us(99)));
    }
    for percent in [99, 50] {
        let figure = |rounds: &Rounds| {
            let name = format!("p{percent} {}", rounds.name);
            Figure::new(name, Unit::Us, rounds.reply_us(percent))
        };
        figures.extend(rounds.iter().rev().map(figure));
    }
    Ok(figures)
}

/// CPU and memory of a server without requests.
pub(super) async fn idle(lab: &Lab, args: &'static str) -> Result<Vec<Figure>> {
    let server = lab.real(Setup::real(100).with(args)).await?;
    let watched = if lab.quick { WATCHED / 10 } else { WATCHED };
    settle(&server).await?;
    let (before, started) = (server.usage()?, now());
    tokio::time::sleep(watched).await;
    let (after, elapsed) = (server.usage()?, started.elapsed());
    let cores = after.since(&before).cpu.as_secs_f64() / elapsed.as_secs_f64();
    Ok(vec![
        Figure::new("CPU", Unit::Cores, [cores]),
        Figure::new("resident memory", Unit::MiB, [mib(after.resident_bytes)]),
    ])
}

/// Lets what a warm-up has left behind pass: endpoints are scraped more often while they have requests.
async fn settle(server: &Server) -> Result<()> {
    let second = Duration::from_secs(1);
    for _ in 0..2 {
        tokio::time::sleep(second).await;
    }
    server.usage().map(drop)
}

pub(super) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
