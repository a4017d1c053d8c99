//! Model servers that are scaled by what Lodesman tells KEDA, while they are asked through a real Envoy.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;
use http::Request;
use lodesman_e2e::client::Answer;
use lodesman_e2e::envoy::ExtProc;
use lodesman_e2e::wait::now;
use lodesman_e2e::{Body, Envoy, Fleet, Lodesman, eventually};
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tonic::Code;

use super::keda::{IsActive, Keda};
use super::stage::{
    CHAT, SOON, at_rest, chat, fleet, is_whole, original_dst, picker_of, requests_at, total,
    unlike, watching,
};
use super::traffic::{Load, tally};

/// The most replicas.
const MOST: usize = 4;

/// Between two polls: KEDA's least is a second, and nothing here depends on it.
const POLL: Duration = Duration::from_millis(200);

/// Model servers of which some are in use, and Lodesman and Envoy before them.
struct Scaled {
    fleet: Fleet,
    picker: Lodesman,
    envoy: Envoy,
    keda: SocketAddr,
    file: PathBuf,
    _directory: TempDir,
}

impl Scaled {
    /// `configuration` goes into the file's section `lodesman`.
    async fn start(servers: usize, configuration: serde_json::Value) -> Self {
        let fleet = fleet(MOST, "--time-scale 10").await;
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("endpoints.yaml");
        list(&file, &fleet.servers[..servers]);
        let mut document: serde_json::Value = serde_json::from_str(&watching(&file)).unwrap();
        document["lodesman"] = configuration;
        let args = ["--config-text".to_owned(), document.to_string(), "--keda-port=0".to_owned()];
        let picker = picker_of(args).await;
        // in this mode Envoy waits for a reply for as long as its route allows
        let message_timeout = Some(Duration::from_millis(200));
        let filter = ExtProc { message_timeout, ..ExtProc::full_duplex(picker.ext_proc) };
        let envoy = Envoy::start(&original_dst(filter)).await.unwrap();
        let keda = picker.keda.expect("a port for KEDA");
        let keda = ([127, 0, 0, 1], keda.port()).into();
        Self { fleet, picker, envoy, keda, file, _directory: directory }
    }

    /// Uses so many servers from now on.
    async fn scale(&self, servers: usize) {
        list(&self.file, &self.fleet.servers[..servers]);
        let taken = eventually(SOON, async || {
            let ready = total(&self.picker, "llm_d_epp_ready_endpoints", "").await?;
            ensure!(ready == servers, "{ready} of {servers} endpoints");
            Ok(())
        });
        taken.await.unwrap();
    }

    /// Scales by what KEDA is told; to how many, where that changes anything.
    async fn step(&self, keda: &Keda, now: usize) -> Option<usize> {
        let next = keda.poll().await.unwrap().replicas(now, MOST);
        if next == now {
            return None;
        }
        self.scale(next).await;
        Some(next)
    }

    /// Scales by what KEDA is told until there are so many servers; the numbers on the way.
    async fn follow(&self, keda: &Keda, from: usize, to: usize) -> Vec<usize> {
        let mut way = vec![from];
        let mut polls = tokio::time::interval(POLL);
        let reach = async {
            while way[way.len() - 1] != to {
                polls.tick().await;
                let now = way[way.len() - 1];
                way.extend(self.step(keda, now).await);
            }
        };
        let reached = tokio::time::timeout(SOON * 2, reach).await;
        assert!(reached.is_ok(), "{way:?}");
        way
    }
}

/// Writes the list of servers at once.
fn list(file: &Path, servers: &[SocketAddr]) {
    let entry = |server: &SocketAddr| {
        let (ip, port) = (server.ip(), server.port());
        json!({"name": format!("pod-{ip}"), "address": ip, "port": port})
    };
    let text = json!({"endpoints": servers.iter().map(entry).collect::<Vec<_>>()}).to_string();
    let new = file.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, file).unwrap();
}

#[tokio::test]
async fn a_ramp_scales_from_none_up_and_back_to_none_without_a_failed_request() {
    let scaled = Scaled::start(0, json!({"hold": {}})).await;
    let trigger = [("metric", "running"), ("target", "4"), ("window", "1s")];
    let keda = Keda::of(scaled.keda, &trigger);
    let client = scaled.envoy.client();
    let few = Load::of(client, 3, &chat(200, true));
    let mut more = Load::of(client, 13, &chat(200, true));
    let up = scaled.follow(&keda, 0, MOST).await;
    more.pass(40).await;
    let mut answers = more.stop().await;
    answers.extend(few.stop().await);
    let down = scaled.follow(&keda, MOST, 0).await;
    assert!(answers.iter().all(is_whole), "{:?}", answers.iter().find(|answer| !is_whole(answer)));
    assert_eq!(tally(&answers).len(), MOST, "every replica was used");
    assert!(up.is_sorted() && down.iter().rev().is_sorted(), "{up:?} {down:?}");
    // what is in flight is told by endpoint
    scaled.scale(1).await;
    at_rest(&scaled.picker).await;
}

#[tokio::test]
async fn the_first_request_for_an_empty_pool_is_pushed_at_once() {
    let scaled = Scaled::start(0, json!({})).await;
    let keda = Keda::of(scaled.keda, &[("metric", "queue"), ("window", "2s")]);
    let mut push = keda.push().await;
    assert_eq!(push.message().await.unwrap(), Some(IsActive { result: false }));
    let answer = scaled.envoy.client().post(CHAT, &chat(4, true)).await.unwrap();
    assert_eq!(answer.status, 503, "{}", answer.text());
    let woken = tokio::time::timeout(Duration::from_secs(1), push.message()).await;
    assert_eq!(woken.expect("at once").unwrap(), Some(IsActive { result: true }));
    assert!(keda.poll().await.unwrap().active);
    let asleep = tokio::time::timeout(SOON, push.message()).await;
    assert_eq!(asleep.expect("after the window").unwrap(), Some(IsActive { result: false }));
}

#[tokio::test]
async fn a_bad_trigger_is_refused_by_key_value_and_fix() {
    let scaled = Scaled::start(1, json!({})).await;
    let keda = Keda::of(scaled.keda, &[("metric", "cpu")]);
    let refused = keda.poll().await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let told = "metric: \"cpu\" is no metric, give one of queue, saturation, running, tokens, \
                replicas, qps";
    assert_eq!(refused.message(), told);
    let unknown: Result<IsActive, _> = keda.call("StreamMetricSpec", IsActive::default()).await;
    assert_eq!(unknown.unwrap_err().code(), Code::Unimplemented, "as KEDA allows");
}

/// Sends requests one after the other, each once the one before it waits; its answers come later.
#[derive(Default)]
struct Waiting(JoinSet<(usize, Answer)>);

impl Waiting {
    /// One more, which is held.
    async fn send(&mut self, scaled: &Scaled) {
        let (client, number) = (scaled.envoy.client(), self.0.len());
        let before = held_bytes(scaled).await.unwrap();
        let body = Body::full(unlike(number, 4, true).to_string());
        let request = Request::post(CHAT).header("x-request-id", number.to_string());
        let request = request.body(body).unwrap();
        self.0.spawn(async move { (number, client.send(request).await.unwrap().collect().await) });
        let held = eventually(SOON, async || {
            let bytes = held_bytes(scaled).await?;
            ensure!(bytes > before, "{bytes} bytes are held");
            Ok(())
        });
        held.await.unwrap();
    }

    /// All answers, in the order of the requests.
    async fn answers(self) -> Vec<Answer> {
        let mut all = self.0.join_all().await;
        all.sort_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, answer)| answer).collect()
    }
}

async fn held_bytes(scaled: &Scaled) -> anyhow::Result<usize> {
    total(&scaled.picker, "lodesman_body_bytes_buffered", "").await
}

/// Waits until so many requests that came without an endpoint have ended as this.
async fn became(scaled: &Scaled, result: &str, count: usize) {
    let label = format!("result=\"{result}\"");
    let ended = eventually(SOON, async || {
        let seen = total(&scaled.picker, "lodesman_held_requests_total", &label).await?;
        ensure!(seen == count, "{seen} have ended as {result}");
        Ok(())
    });
    ended.await.unwrap();
}

#[tokio::test]
async fn requests_for_an_empty_pool_wait_and_are_served_in_order_by_its_first_endpoint() {
    let scaled = Scaled::start(0, json!({"hold": {}})).await;
    let keda = Keda::of(scaled.keda, &[("metric", "replicas")]);
    let mut push = keda.push().await;
    assert_eq!(push.message().await.unwrap(), Some(IsActive { result: false }));
    let mut waiting = Waiting::default();
    waiting.send(&scaled).await;
    let woken = tokio::time::timeout(Duration::from_secs(1), push.message()).await;
    assert_eq!(woken.expect("at once").unwrap(), Some(IsActive { result: true }));
    for _ in 1..20 {
        waiting.send(&scaled).await;
    }
    let needed = eventually(SOON, async || {
        let value = keda.poll().await?.value;
        ensure!(value >= 1.0, "{value} are needed");
        Ok(())
    });
    needed.await.unwrap();
    scaled.scale(1).await;
    let answers = waiting.answers().await;
    assert!(answers.iter().all(is_whole), "{:?}", answers.iter().find(|answer| !is_whole(answer)));
    let served = requests_at(scaled.fleet.servers[0]).await;
    let served: Vec<usize> = served
        .iter()
        .map(|request| request["headers"]["x-request-id"].as_str().unwrap().parse().unwrap())
        .collect();
    // those that are let go together may overtake each other on their way
    let in_order = served.iter().enumerate().all(|(at, number)| at.abs_diff(*number) < 5);
    assert!(served.len() == 20 && in_order, "{served:?}");
    became(&scaled, "released", 20).await;
    at_rest(&scaled.picker).await;
}

// FR-072
#[tokio::test]
async fn more_than_may_wait_are_refused_and_who_goes_away_makes_room() {
    let scaled = Scaled::start(0, json!({"hold": {"maxRequests": 2}})).await;
    let (mut first, mut others) = (Waiting::default(), Waiting::default());
    first.send(&scaled).await;
    others.send(&scaled).await;
    let refused = scaled.envoy.client().post(CHAT, &chat(4, true)).await.unwrap();
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(refused.header("x-llm-d-request-dropped-reason"), Some("rejected-no-endpoints"));
    let after: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&after), "{after}");
    became(&scaled, "full", 1).await;
    drop(first);
    became(&scaled, "left", 1).await;
    others.send(&scaled).await;
    scaled.scale(1).await;
    assert!(others.answers().await.iter().all(is_whole));
    at_rest(&scaled.picker).await;
}

#[tokio::test]
async fn a_request_that_waits_for_too_long_is_told_when_to_come_back() {
    let scaled = Scaled::start(0, json!({"hold": {"maxWait": "1s"}})).await;
    let began = now();
    let refused = scaled.envoy.client().post(CHAT, &chat(4, true)).await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (503, Some("5")));
    became(&scaled, "expired", 1).await;
    assert_eq!(held_bytes(&scaled).await.unwrap(), 0);
}
