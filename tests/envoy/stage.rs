//! Starts what a test looks at: simulated servers, pickers, Envoy.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lodesman_e2e::client::Answer;
use lodesman_e2e::envoy::{Destination, ExtProc, Pool};
use lodesman_e2e::{Client, Envoy, EnvoyConfig, Fleet, Lodesman, eventually};
use serde_json::{Value, json};

/// Enough for anything that happens at all, on a busy machine too.
pub(super) const SOON: Duration = Duration::from_secs(20);

/// The path of the chat API.
pub(super) const CHAT: &str = "/v1/chat/completions";

/// What is 0 when no request is under way.
const RESTING: [&str; 5] = [
    "llm_d_epp_inflight_requests",
    "llm_d_epp_inflight_tokens",
    "llm_d_epp_request_running",
    "lodesman_streams_inflight",
    "lodesman_body_bytes_buffered",
];

/// Simulated servers, a picker for them, and an Envoy that does as the picker says.
pub(super) struct Stage {
    pub(super) fleet: Fleet,
    pub(super) picker: Lodesman,
    pub(super) envoy: Envoy,
}

impl Stage {
    /// Full duplex in both directions and `ORIGINAL_DST` by header, over servers that are 50 times
    /// faster than real ones.
    pub(super) async fn start(servers: usize) -> Self {
        Self::with(servers, "--time-scale 50", "", duplex).await
    }

    pub(super) async fn with(
        servers: usize,
        server_args: &str,
        picker_args: &str,
        config: impl FnOnce(&Lodesman, &Fleet) -> EnvoyConfig,
    ) -> Self {
        let fleet = fleet(servers, server_args).await;
        let picker = picker(&fleet.servers, picker_args).await;
        let envoy = Envoy::start(&config(&picker, &fleet)).await.unwrap();
        Self { fleet, picker, envoy }
    }

    pub(super) fn client(&self) -> Client {
        self.envoy.client()
    }
}

/// Full duplex in both directions and `ORIGINAL_DST` by header.
pub(super) fn duplex(picker: &Lodesman, _: &Fleet) -> EnvoyConfig {
    original_dst(ExtProc::full_duplex(picker.ext_proc))
}

/// Goes where the header says that `filter` sets.
pub(super) fn original_dst(filter: ExtProc) -> EnvoyConfig {
    EnvoyConfig::picked(filter, Pool::OriginalDst(Destination::Header))
}

pub(super) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_lodesman"))
}

pub(super) async fn fleet(servers: usize, args: &str) -> Fleet {
    Fleet::start(binary(), servers, args.split_whitespace()).await.unwrap()
}

/// A picker for `endpoints` that is ready.
pub(super) async fn picker(endpoints: &[SocketAddr], args: &str) -> Lodesman {
    let endpoints: Vec<String> = endpoints.iter().map(SocketAddr::to_string).collect();
    let endpoints = ["--endpoints".to_owned(), endpoints.join(",")];
    picker_of(endpoints.into_iter().chain(args.split_whitespace().map(str::to_owned))).await
}

/// A picker with `args` alone that is ready.
pub(super) async fn picker_of(args: impl IntoIterator<Item = String>) -> Lodesman {
    launched(Command::new(binary()), args).await
}

/// The same, with an environment of its own.
pub(super) async fn launched(command: Command, args: impl IntoIterator<Item = String>) -> Lodesman {
    let picker = Lodesman::launch(command, args).await.unwrap();
    let ready = eventually(SOON, async || {
        let answer = Client::http1(picker.metrics).get("/readyz").await?;
        ensure!(answer.status == 200, "{} {}", answer.status, answer.text());
        Ok(())
    });
    ready.await.unwrap();
    picker
}

/// The configuration whose endpoints stand in a file that is watched.
pub(super) fn watching(endpoints: &Path) -> String {
    let file =
        json!({"type": "file-discovery", "parameters": {"path": endpoints, "watchFile": true}});
    json!({
        "apiVersion": "llm-d.ai/v1alpha1",
        "kind": "EndpointPickerConfig",
        "plugins": [file],
        "dataLayer": {"discovery": {"pluginRef": "file-discovery"}},
    })
    .to_string()
}

/// A chat request of one short message.
pub(super) fn chat(max_tokens: usize, stream: bool) -> Value {
    json!({
        "model": "sim",
        "max_tokens": max_tokens,
        "stream": stream,
        "messages": [{"role": "user", "content": "Where is the nearest harbor?"}],
    })
}

/// A chat request whose prompt begins unlike that of any other number, so that no cache draws it anywhere.
pub(super) fn unlike(number: usize, max_tokens: usize, stream: bool) -> Value {
    let mut request = chat(max_tokens, stream);
    request["messages"][0]["content"] = json!(format!("{number}. Where is it?"));
    request
}

/// Whether an answer is what a server says to a chat request, whole.
pub(super) fn is_whole(answer: &Answer) -> bool {
    let text = answer.text();
    let ended = text.ends_with("data: [DONE]\n\n")
        || answer.json().is_ok_and(|json| json.get("choices").is_some());
    answer.status == 200 && answer.broken.is_none() && ended
}

/// Whether a client can take an answer for what it is: whole, or seen to have failed.
pub(super) fn is_honest(answer: &Answer) -> bool {
    is_whole(answer) || answer.status.is_server_error() || answer.broken.is_some()
}

/// The latest requests that reached a simulated server through a gateway, oldest first; a picker's own bear no id.
pub(super) async fn requests_at(server: SocketAddr) -> Vec<Value> {
    let answer = Client::http1(server).get("/sim/requests").await.unwrap().json().unwrap();
    let requests = answer.as_array().unwrap().iter();
    requests.filter(|request| request["headers"]["x-request-id"].is_string()).cloned().collect()
}

/// Orders a fault of a simulated server.
pub(super) async fn order(server: SocketAddr, fault: Value) {
    let answer = Client::http1(server).post("/sim/fault", &fault).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// The sum over the series of `family`, a whole number, in whose labels `label` stands.
pub(super) async fn total(picker: &Lodesman, family: &str, label: &str) -> Result<usize> {
    let page = page(picker).await?;
    let values = series(&page, family).filter(|line| line.contains(label)).map(value);
    values.map(|value| value.parse::<usize>().with_context(|| format!("{family} {value}"))).sum()
}

/// How many requests ended with `outcome`.
pub(super) async fn outcomes(picker: &Lodesman, outcome: &str) -> Result<usize> {
    total(picker, "lodesman_request_outcomes_total", &format!("outcome=\"{outcome}\"")).await
}

/// Waits until so many requests have ended with `outcome`.
pub(super) async fn ended(picker: &Lodesman, outcome: &str, count: usize) {
    let ended = eventually(SOON, async || {
        let seen = outcomes(picker, outcome).await?;
        ensure!(seen == count, "{seen} have ended as {outcome}, not {count}");
        Ok(())
    });
    ended.await.unwrap();
}

/// Waits until nothing is under way: every request, stream and byte is given back.
pub(super) async fn at_rest(picker: &Lodesman) {
    let rest = eventually(SOON, async || {
        let page = page(picker).await?;
        ensure!(series(&page, RESTING[0]).next().is_some(), "no endpoint on the page");
        let all = RESTING.iter().flat_map(|family| series(&page, family));
        let held: Vec<_> = all.filter(|line| value(line) != "0").collect();
        ensure!(held.is_empty(), "{held:?}");
        Ok(())
    });
    rest.await.unwrap();
}

/// The resident memory of a picker in KiB.
pub(super) fn memory(picker: &Lodesman) -> usize {
    kibibytes(picker, "VmRSS:")
}

/// The most resident memory that a picker has had in KiB.
pub(super) fn most_memory(picker: &Lodesman) -> usize {
    kibibytes(picker, "VmHWM:")
}

fn kibibytes(picker: &Lodesman, key: &str) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", picker.process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The metrics page of a picker.
pub(super) async fn page(picker: &Lodesman) -> Result<String> {
    Ok(Client::http1(picker.metrics).get("/metrics").await?.text())
}

/// The lines of a family.
pub(super) fn series<'a>(page: &'a str, family: &str) -> impl Iterator<Item = &'a str> {
    page.lines().filter(move |line| {
        line.strip_prefix(family).is_some_and(|rest| rest.starts_with(['{', ' ']))
    })
}

/// The value of a line.
pub(super) fn value(line: &str) -> &str {
    line.rsplit_once(' ').map_or(line, |(_, value)| value)
}
