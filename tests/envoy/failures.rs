//! What a gateway's clients see when pickers stop, die or hang.

use std::process::Command;
use std::time::Duration;

use anyhow::ensure;
use http::Request;
use lodesman_e2e::envoy::{BodyMode, Destination, ExtProc, HealthCheck, Mode, Picker, Pool};
use lodesman_e2e::{Body, Client, Envoy, EnvoyConfig, Fleet, Lodesman, eventually};

use super::stage::{
    CHAT, SOON, Stage, at_rest, binary, chat, duplex, fleet, is_honest, is_whole, original_dst,
    picker, watching,
};
use super::traffic::Load;

const CHECK: HealthCheck = HealthCheck { interval: Duration::from_millis(200) };

/// Fails over to round robin over the servers when the health check finds no picker.
fn failing_over(picker: &Lodesman, fleet: &Fleet) -> EnvoyConfig {
    let mut filter = ExtProc::full_duplex(picker.ext_proc);
    filter.picker.health_check = Some(CHECK);
    filter.failure_mode_allow = true;
    let destinations = vec![Destination::Metadata, Destination::Header];
    let pool = Pool::OverrideHost { endpoints: fleet.servers.clone(), destinations };
    EnvoyConfig::picked(filter, pool)
}

/// Two pickers behind one Envoy that asks the other when one refuses.
async fn replicated(fleet: &Fleet, health_check: Option<HealthCheck>) -> ([Lodesman; 2], Envoy) {
    let pickers = [picker(&fleet.servers, "").await, picker(&fleet.servers, "").await];
    let mut filter = ExtProc::full_duplex(pickers[0].ext_proc);
    filter.picker = Picker::new(pickers.each_ref().map(|picker| picker.ext_proc));
    filter.picker.health_check = health_check;
    filter.retries = 3;
    let config = EnvoyConfig::picked(filter, Pool::OriginalDst(Destination::Header));
    let envoy = Envoy::start(&config).await.unwrap();
    (pickers, envoy)
}

/// Sends a signal to a process.
fn signal(picker: &Lodesman, name: &str) {
    let id = picker.process.id().to_string();
    assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
}

// FR-018
#[tokio::test]
async fn gateway_goes_on_alone_when_its_picker_is_killed() {
    let mut stage = Stage::with(2, "--time-scale 50", "", failing_over).await;
    let mut load = Load::start(stage.client(), 4);
    load.pass(40).await;
    stage.picker.process.kill().unwrap();
    load.recover(40).await;
    let answers = load.stop().await;
    assert!(answers.iter().all(is_honest));
    assert!(answers[..40].iter().all(is_whole), "nothing fails before");
}

#[tokio::test]
async fn killed_picker_cuts_only_the_answers_that_it_carries() {
    let fleet = fleet(1, "--time-scale 5").await;
    let full_duplex = Mode::with_body(BodyMode::FullDuplexStreamed);
    for (response, harmed) in [(full_duplex, true), (Mode::HEADERS, false)] {
        let mut picker = picker(&fleet.servers, "").await;
        let filter = ExtProc::new(Picker::new([picker.ext_proc]), full_duplex, response);
        let envoy = Envoy::start(&original_dst(filter)).await.unwrap();
        let request = Request::post(CHAT).body(Body::full(chat(100, true).to_string())).unwrap();
        let mut open = envoy.client().send(request).await.unwrap();
        open.chunk().await.unwrap().unwrap();
        picker.process.kill().unwrap();
        let answer = open.collect().await;
        assert_eq!(answer.broken.is_some(), harmed, "{}", answer.text());
        assert_eq!(answer.text().ends_with("data: [DONE]\n\n"), !harmed, "{}", answer.text());
    }
}

// FR-115
#[tokio::test]
async fn other_picker_takes_over_when_one_is_killed() {
    let fleet = fleet(2, "--time-scale 50").await;
    let ([mut killed, survivor], envoy) = replicated(&fleet, None).await;
    let mut load = Load::start(envoy.client(), 4);
    load.pass(40).await;
    killed.process.kill().unwrap();
    load.recover(40).await;
    assert!(load.stop().await.iter().all(is_honest));
    for _ in 0..20 {
        assert!(is_whole(&envoy.client().post(CHAT, &chat(1, false)).await.unwrap()));
    }
    at_rest(&survivor).await;
}

// FR-115
#[tokio::test]
async fn rolling_restart_fails_no_request() {
    let fleet = fleet(2, "--time-scale 50").await;
    let ([mut leaving, staying], envoy) = replicated(&fleet, Some(CHECK)).await;
    let mut load = Load::start(envoy.client(), 4);
    load.pass(40).await;
    leaving.process.terminate().unwrap();
    let ended = leaving.process.wait(2 * SOON).await.unwrap();
    load.pass(40).await;
    assert!(ended.success(), "{ended}");
    let answers = load.stop().await;
    let failed = answers.iter().filter(|answer| !is_whole(answer)).count();
    assert_eq!(failed, 0, "of {}", answers.len());
    at_rest(&staying).await;
}

// FR-116
#[tokio::test]
async fn drain_serves_new_requests_and_lets_open_answers_end() {
    let mut stage = Stage::with(2, "--decode-step-ms 20", "--drain-timeout 4s", duplex).await;
    let request = Request::post(CHAT).body(Body::full(chat(300, true).to_string())).unwrap();
    let mut open = stage.client().send(request).await.unwrap();
    open.chunk().await.unwrap().unwrap();
    signal(&stage.picker, "-HUP");
    let metrics = Client::http1(stage.picker.metrics);
    let unready = eventually(SOON, async || {
        let answer = metrics.get("/readyz").await?;
        ensure!(answer.status == 503, "{}", answer.status);
        Ok(())
    });
    unready.await.unwrap();
    for _ in 0..5 {
        assert!(is_whole(&stage.client().post(CHAT, &chat(1, false)).await.unwrap()));
    }
    let closing = |lines: &[&str]| lines.iter().any(|line| line.contains("closing")).then_some(());
    stage.picker.process.find(SOON, closing).await.unwrap();
    let answer = open.collect().await;
    assert_eq!(answer.broken, None, "{}", answer.text());
    assert!(answer.text().ends_with("data: [DONE]\n\n"), "{}", answer.text());
    assert!(stage.picker.process.wait(SOON).await.unwrap().success());
}

#[tokio::test]
async fn hung_picker_is_left_out_and_taken_back() {
    let stage = Stage::with(2, "--time-scale 50", "", |picker, fleet| EnvoyConfig {
        idle_timeout: Some(Duration::from_secs(2)),
        ..failing_over(picker, fleet)
    })
    .await;
    signal(&stage.picker, "-STOP");
    // Nothing but the idle timeout ends a request that is told to a hung picker in full duplex.
    let caught = stage.client().post(CHAT, &chat(1, false)).await.unwrap();
    assert!(is_honest(&caught), "{} {}", caught.status, caught.text());
    let alone = eventually(SOON, async || {
        let healthy = stage.envoy.stat("cluster.epp.membership_healthy").await?;
        ensure!(healthy == Some(0), "{healthy:?} healthy pickers");
        Ok(())
    });
    alone.await.unwrap();
    assert!(is_whole(&stage.client().post(CHAT, &chat(1, false)).await.unwrap()));
    signal(&stage.picker, "-CONT");
    let back = eventually(SOON, async || {
        let healthy = stage.envoy.stat("cluster.epp.membership_healthy").await?;
        ensure!(healthy == Some(1), "{healthy:?} healthy pickers");
        Ok(())
    });
    back.await.unwrap();
    assert!(is_whole(&stage.client().post(CHAT, &chat(1, false)).await.unwrap()));
    at_rest(&stage.picker).await;
}

#[tokio::test]
async fn picker_that_knows_no_endpoints_yet_steps_aside_where_that_can_help() {
    let directory = tempfile::tempdir().unwrap();
    let endpoints = directory.path().join("endpoints.yaml");
    let args = ["--failure-mode", "FailOpen", "--config-text", &watching(&endpoints)];
    let picker = Lodesman::start(binary(), args).await.unwrap();
    let fleet = fleet(1, "--time-scale 50").await;
    let mut filter = ExtProc::full_duplex(picker.ext_proc);
    filter.failure_mode_allow = true;
    let destinations = vec![Destination::Metadata];
    let pool = Pool::OverrideHost { endpoints: fleet.servers.clone(), destinations };
    let envoy = Envoy::start(&EnvoyConfig::picked(filter, pool)).await.unwrap();
    assert_eq!(envoy.client().get("/v1/models").await.unwrap().status, 200);
    let refused = envoy.client().post(CHAT, &chat(1, false)).await.unwrap();
    assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (503, Some("1")));
    let (ip, port) = (fleet.servers[0].ip(), fleet.servers[0].port());
    let text = format!("endpoints: [{{name: a, address: {ip}, port: {port}}}]");
    std::fs::write(&endpoints, text).unwrap();
    let served = eventually(SOON, async || {
        let answer = envoy.client().post(CHAT, &chat(1, false)).await?;
        ensure!(is_whole(&answer), "{} {}", answer.status, answer.text());
        Ok(())
    });
    served.await.unwrap();
    at_rest(&picker).await;
}

#[tokio::test]
async fn second_signal_ends_a_drain_at_once_and_that_is_told() {
    let fleet = fleet(1, "").await;
    let mut picker = picker(&fleet.servers, "--drain-timeout 1h").await;
    for (name, told) in [("-TERM", "draining"), ("-INT", "second signal")] {
        signal(&picker, name);
        let line = |lines: &[&str]| lines.iter().any(|line| line.contains(told)).then_some(());
        picker.process.find(SOON, line).await.unwrap();
    }
    assert!(picker.process.wait(SOON).await.unwrap().success());
}
