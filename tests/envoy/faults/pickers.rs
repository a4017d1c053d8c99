//! The picker, or the gateway before it, stands still or dies.

use std::time::Duration;

use lodesman_e2e::Envoy;

use super::Scene;
use crate::envoy::chaos::streams;
use crate::envoy::stage::{Stage, duplex};

/// How long the picker stands still each time.
const STILL: Duration = Duration::from_millis(100);

#[tokio::test]
async fn picker_that_stutters_costs_no_request() {
    let mut scene = Scene::start(2, "").await;
    for _ in 0..10 {
        scene.picker().process.freeze().unwrap();
        tokio::time::sleep(STILL).await;
        scene.picker().process.thaw().unwrap();
        scene.load.pass(8).await;
    }
    scene.unharmed().await;
}

#[tokio::test]
async fn gateway_that_is_killed_leaves_nothing_behind_at_the_picker() {
    let stage = Stage::with(2, "--time-scale 2", "", duplex).await;
    let mut scene = Scene::on(stage).await;
    let doomed = Envoy::start(&duplex(&scene.stage.picker, &scene.stage.fleet)).await.unwrap();
    let open = streams(&doomed, 8).await;
    drop(doomed);
    for stream in open {
        assert!(stream.collect().await.broken.is_some());
    }
    scene.load.pass(40).await;
    scene.unharmed().await;
}
