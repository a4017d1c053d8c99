//! What the machine gives runs short, or is wrong.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;
use http::Request;
use lodesman_e2e::client::Answer;
use lodesman_e2e::envoy::{ExtProc, Tls};
use lodesman_e2e::{Body, Envoy, Lodesman, eventually};
use serde_json::Value;

use super::{Scene, counted};
use crate::envoy::drain::at_once;
use crate::envoy::stage::{
    CHAT, SOON, Stage, binary, chat, duplex, fleet, is_whole, memory, original_dst, outcomes, page,
    picker, series, total, unlike,
};

/// A stage whose picker `command` starts, with 20 times faster servers.
async fn staged(servers: usize, command: Command, args: &[&str]) -> Stage {
    let fleet = fleet(servers, "--time-scale 20").await;
    let endpoints: Vec<_> = fleet.servers.iter().map(ToString::to_string).collect();
    let endpoints = endpoints.join(",");
    let args = [&["--endpoints", &endpoints], args].concat();
    let picker = Lodesman::launch(command, args).await.unwrap();
    let envoy = Envoy::start(&duplex(&picker, &fleet)).await.unwrap();
    Stage { fleet, picker, envoy }
}

#[tokio::test]
async fn low_limit_of_file_descriptors_costs_no_page_and_no_request() {
    let mut command = Command::new("sh");
    // Each of 60 servers has a connection of its own for its page.
    command.args(["-c", "ulimit -S -n 48; exec \"$0\" \"$@\""]).arg(binary());
    let mut scene = Scene::on(staged(60, command, &["--probe=false"]).await).await;
    let read = eventually(SOON, async || {
        let page = page(scene.picker()).await?;
        let read = series(&page, "lodesman_metrics_staleness_seconds").count();
        ensure!(read == 60, "{read} pages");
        Ok(())
    });
    read.await.unwrap();
    assert_eq!(total(scene.picker(), "lodesman_scrape_errors_total", "").await.unwrap(), 0);
    scene.load.pass(100).await;
    scene.unharmed().await;
}

#[tokio::test]
async fn full_disk_under_the_recorder_costs_no_request() {
    let mut scene = Scene::start(2, "--record-trace /dev/full").await;
    counted(scene.picker(), "lodesman_recorded_requests_total", "result=\"failed\"", 0).await;
    assert_eq!(total(scene.picker(), "lodesman_recording", "").await.unwrap(), 0);
    scene.load.pass(60).await;
    scene.unharmed().await;
}

/// The library that steps clocks; none where it is not installed, which is an error where `CI` is `true`.
fn faketime() -> Option<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/faketime.sh");
    let output = Command::new(script).output().unwrap();
    assert!(output.status.success() || std::env::var("CI").as_deref() != Ok("true"), "{output:?}");
    let path = String::from_utf8(output.stdout).unwrap();
    output.status.success().then(|| path.trim().into())
}

#[tokio::test]
async fn clock_that_steps_back_and_forth_disturbs_nothing() {
    let Some(library) = faketime() else { return };
    let directory = tempfile::tempdir().unwrap();
    let clock = directory.path().join("clock");
    let step = |by: &str| {
        fs::write(directory.path().join("next"), by).unwrap();
        fs::rename(directory.path().join("next"), &clock).unwrap();
    };
    step("+0");
    let mut command = Command::new(binary());
    command
        .env("LD_PRELOAD", library)
        .env("FAKETIME_TIMESTAMP_FILE", &clock)
        .envs([("FAKETIME_NO_CACHE", "1"), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")]);
    let stage = staged(2, command, &["--decision-log", "100"]).await;
    let mut scene = Scene::on(stage).await;
    for by in ["+2d", "-3d", "+40y", "+0"] {
        step(by);
        scene.load.pass(60).await;
        let ready = total(scene.picker(), "llm_d_epp_ready_endpoints", "").await.unwrap();
        assert_eq!(ready, 2, "after a step of {by}");
    }
    scene.unharmed().await;
}

/// A chat request with a prompt of so many bytes.
fn long(number: usize, bytes: usize) -> Value {
    let mut ask = unlike(number, 2, false);
    ask["messages"][0]["content"] = format!("{number} {}", "harbor ".repeat(bytes / 7)).into();
    ask
}

#[tokio::test]
async fn bodies_beyond_the_budget_are_shed_and_small_ones_go_on() {
    let scene = Scene::start(2, "--body-budget 4MiB").await;
    let idle = memory(scene.picker());
    let client = scene.stage.client();
    let uploads = (0..120).map(|number| async move {
        let body = Body::full(long(number, 1 << 20).to_string());
        client.send(Request::post(CHAT).body(body).unwrap()).await.unwrap().collect().await
    });
    let answers = at_once(uploads).await;
    let most = memory(scene.picker());
    let shed: Vec<&Answer> = answers.iter().filter(|answer| answer.status == 429).collect();
    let served = answers.iter().filter(|answer| is_whole(answer)).count();
    assert_eq!(served + shed.len(), answers.len(), "served or shed, no third");
    assert!(served > 0 && shed.iter().all(|answer| answer.header("retry-after").is_some()));
    // The budget, what may have been received and not read (16 MiB a connection), and what the allocator has yet to give back.
    assert!(most < idle + (64 << 10), "{idle} KiB idle, {most} KiB after 120 MB");
    assert!(outcomes(scene.picker(), "shed").await.unwrap() >= shed.len());
    scene.unharmed().await;
}

/// A picker's certificate and its key, as a Secret that is mounted has them.
fn certify(directory: &Path) {
    let key = rcgen::KeyPair::generate().unwrap();
    let names = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    fs::write(directory.join("tls.key"), key.serialize_pem()).unwrap();
    fs::write(directory.join("tls.crt"), names.self_signed(&key).unwrap().pem()).unwrap();
}

#[tokio::test]
async fn certificate_that_changes_or_breaks_costs_no_request() {
    let secret = tempfile::tempdir().unwrap();
    certify(secret.path());
    let fleet = fleet(2, "--time-scale 20").await;
    let args = format!("--secure-serving --cert-path {}", secret.path().display());
    let picker = picker(&fleet.servers, &args).await;
    let mut filter = ExtProc::full_duplex(picker.ext_proc);
    filter.picker.tls = Some(Tls::default());
    let config = original_dst(filter);
    let envoy = Envoy::start(&config).await.unwrap();
    let mut scene = Scene::on(Stage { fleet, picker, envoy }).await;
    fs::write(secret.path().join("tls.crt"), "no certificate").unwrap();
    counted(scene.picker(), "lodesman_tls_reload_total", "result=\"error\"", 0).await;
    scene.load.pass(20).await;
    certify(secret.path());
    counted(scene.picker(), "lodesman_tls_reload_total", "result=\"success\"", 0).await;
    scene.load.pass(20).await;
    // Connections of their own, by the new certificate.
    let other = Envoy::start(&config).await.unwrap();
    assert!(is_whole(&other.client().post(CHAT, &chat(1, true)).await.unwrap()));
    scene.unharmed().await;
}
