//! Every metrics page of the pool is broken in one way.

use anyhow::ensure;
use lodesman_e2e::{Lodesman, eventually};
use serde_json::json;

use super::{Scene, counted};
use crate::envoy::stage::{SOON, order, page, series, total, unlike, value};
use crate::envoy::traffic::{send_all, tally};

const FAILED: &str = "lodesman_scrape_errors_total";

/// A page that is older than this does not count.
const FRESH: f64 = 2.0;

/// Requests go on while all pages are of `kind`, which the metrics call `reason`, and pages that are well again are read.
async fn goes_on(kind: &str, reason: &str) {
    let mut scene = Scene::start(3, "").await;
    let asked = scene.stage.fleet.servers[0];
    let label = format!("reason=\"{reason}\"");
    let before = total(scene.picker(), FAILED, &label).await.unwrap();
    order(asked, json!({"kind": kind, "all": true})).await;
    counted(scene.picker(), FAILED, &label, before + 3).await;
    scene.load.pass(60).await;
    until_stale(scene.picker()).await;
    let spread: Vec<_> = (0..60).map(|number| unlike(number, 4, true)).collect();
    let spread = tally(&send_all(scene.stage.client(), 6, spread).await);
    let fair = |count: &usize| (5..=40).contains(count);
    assert!(spread.len() == 3 && spread.values().all(fair), "own counts decide: {spread:?}");
    order(asked, json!({"kind": "none", "all": true})).await;
    until_fresh(scene.picker()).await;
    scene.load.pass(20).await;
    scene.unharmed().await;
}

async fn ages(picker: &Lodesman) -> anyhow::Result<Vec<f64>> {
    let page = page(picker).await?;
    let ages = series(&page, "lodesman_metrics_staleness_seconds").map(value);
    Ok(ages.map(str::parse).collect::<Result<_, _>>()?)
}

async fn until_stale(picker: &Lodesman) {
    let stale = eventually(SOON, async || {
        let ages = ages(picker).await?;
        ensure!(ages.iter().all(|age| *age > FRESH), "{ages:?}");
        Ok(())
    });
    stale.await.unwrap();
}

async fn until_fresh(picker: &Lodesman) {
    let fresh = eventually(SOON, async || {
        let ages = ages(picker).await?;
        ensure!(ages.len() == 3 && ages.iter().all(|age| *age < FRESH), "{ages:?}");
        Ok(())
    });
    fresh.await.unwrap();
}

#[tokio::test]
async fn load_goes_on_while_every_page_hangs() {
    goes_on("metrics-hanging", "timeout").await;
}

#[tokio::test]
async fn load_goes_on_while_every_page_is_an_error() {
    goes_on("metrics-error-500", "status").await;
}

#[tokio::test]
async fn load_goes_on_while_no_page_can_be_read() {
    goes_on("metrics-garbage", "nothing_known").await;
}

#[tokio::test]
async fn load_goes_on_while_no_page_ends() {
    goes_on("metrics-endless", "timeout").await;
}

#[tokio::test]
async fn server_whose_page_says_idle_for_ever_draws_no_herd() {
    let scene = Scene::start(3, "").await;
    let frozen = scene.stage.fleet.servers[0];
    order(frozen, json!({"kind": "metrics-frozen"})).await;
    let many: Vec<_> = (0..90).map(|number| unlike(number, 16, true)).collect();
    let spread = tally(&send_all(scene.stage.client(), 12, many).await);
    let drawn = spread.get(&frozen).copied().unwrap_or_default();
    assert!(drawn < 60, "own counts outweigh a page: {spread:?}");
    order(frozen, json!({"kind": "none"})).await;
    scene.unharmed().await;
}
