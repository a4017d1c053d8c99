//! Loads that rise and fall, and the replicas that follow.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::pool::{Pool, Replicas};
use crate::chat::{Clients, ask};
use crate::scenarios::MODEL;
use crate::wait::now;

/// Clients that are more than two replicas can bear.
const MANY: usize = 12;
/// Replicas that they get at least.
const SOME: i32 = 3;
/// Longest time until the first replica is wanted; a poll of KEDA's seldom comes so soon.
const PUSHED: Duration = Duration::from_secs(2);

/// Plays all scenes, and says what is seen of each.
///
/// # Errors
/// When there are not the replicas that a load needs, or a request fails.
pub(super) async fn play(pool: &Pool, say: &impl Fn(&str)) -> Result<()> {
    wake(pool, "the first request", say).await?;
    let many = Clients::start(pool.client(), MODEL, MANY);
    let (up, took) = pool.reach(|replicas| replicas.ready >= SOME).await?;
    say(&row(&format!("{MANY} clients"), [1, up.ready], &seconds(took)));
    let mut answers = 2 + many.answers();
    many.finish().await?;
    let one = Clients::start(pool.client(), MODEL, 1);
    let (_, took) = pool.reach(|replicas| replicas.wanted == 1).await?;
    say(&row("one client", [up.ready, 1], &seconds(took)));
    answers += one.answers();
    one.finish().await?;
    // A pod that terminates still answers where there is no other.
    let none = |replicas: Replicas| replicas.wanted == 0 && replicas.pods == 0;
    let (_, took) = pool.reach(none).await?;
    say(&row("no client", [1, 0], &seconds(took)));
    wake(pool, "a request again", say).await?;
    say(&format!("more than {answers} requests, and all were answered"));
    Ok(())
}

/// The first request for a pool without replicas.
async fn wake(pool: &Pool, what: &str, say: &impl Fn(&str)) -> Result<()> {
    let woken = pool.reach(|replicas| replicas.wanted > 0);
    let ((_, woken), answered) = tokio::try_join!(woken, answer(pool))?;
    ensure!(woken < PUSHED, "a replica is wanted after {}, not at once", seconds(woken));
    let took = format!("{}, answered after {}", seconds(woken), seconds(answered));
    say(&row(what, [0, 1], &took));
    Ok(())
}

/// How long a request takes.
async fn answer(pool: &Pool) -> Result<Duration> {
    let began = now();
    ask(pool.client(), MODEL, 0).await?;
    Ok(began.elapsed())
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn row(what: &str, [from, to]: [i32; 2], took: &str) -> String {
    format!("  {what:<17}  {from} → {to}  {took}")
}
