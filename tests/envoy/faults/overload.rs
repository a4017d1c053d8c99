//! More is asked than the servers can bear.

use anyhow::ensure;
use lodesman_e2e::eventually;

use super::Scene;
use crate::envoy::stage::{SOON, Stage, duplex, is_whole, page, series, total, unlike, value};
use crate::envoy::traffic::{send_all, tally};

/// Servers that answer two at a time.
const SMALL: &str = "--time-scale 20 --max-num-seqs 2";

/// The share of decisions that took no longer than `bound` seconds, as the histogram has it.
fn within(page: &str, bound: &str) -> f64 {
    const FAMILY: &str = "lodesman_decision_duration_seconds";
    let of = |family: &str, label: &str| -> f64 {
        let mut lines = series(page, family).filter(|line| line.contains(label));
        value(lines.next().unwrap()).parse().unwrap()
    };
    of(&format!("{FAMILY}_bucket"), &format!("le=\"{bound}\"")) / of(&format!("{FAMILY}_count"), "")
}

#[tokio::test]
async fn three_times_what_servers_can_bear_waits_in_their_queues_evenly() {
    let mut scene = Scene::on(Stage::with(3, SMALL, "", duplex).await).await;
    let many: Vec<_> = (0..180).map(|number| unlike(number, 16, true)).collect();
    let answers = send_all(scene.stage.client(), 18, many).await;
    assert!(answers.iter().all(is_whole));
    let spread = tally(&answers);
    assert!(spread.values().all(|count| (30..=100).contains(count)), "{spread:?}");
    let shown = page(scene.picker()).await.unwrap();
    assert!(within(&shown, "0.05") >= 0.99, "decisions are in time under load");
    scene.load.pass(20).await;
    scene.unharmed().await;
}

#[tokio::test]
async fn picker_without_time_to_decide_takes_the_least_loaded_and_recovers() {
    // No decision is made within a nanosecond, so each is degraded.
    let args = "--decision-deadline 1ns";
    let mut scene = Scene::on(Stage::with(3, SMALL, args, duplex).await).await;
    let many: Vec<_> = (0..60).map(|number| unlike(number, 8, true)).collect();
    let spread = tally(&send_all(scene.stage.client(), 9, many).await);
    assert!(spread.values().all(|count| (10..=30).contains(count)), "by load alone: {spread:?}");
    let rung = eventually(SOON, async || {
        let degraded = total(scene.picker(), "lodesman_degraded_decisions_total", "deadline");
        let degraded = degraded.await?;
        ensure!(degraded >= 60, "{degraded}");
        Ok(())
    });
    rung.await.unwrap();
    scene.load.pass(20).await;
    scene.unharmed().await;
}
