//! The binary over two model servers that differ in what they tell.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::routing::get;
use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue};
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_client::ExternalProcessorClient;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    HttpBody, HttpHeaders, ProcessingRequest, ProcessingResponse,
};
use lodesman_e2e::{Client, Lodesman, eventually};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

use super::volume::Volume;

/// How long a condition is waited for; generous, as the machine may be busy.
pub(super) const SOON: Duration = Duration::from_secs(20);

/// Waiting requests and used share of the KV cache, on the usual page and on the other one.
const LOADS: [[(u32, f32); 2]; 2] = [[(0, 0.9), (9, 0.1)], [(9, 0.1), (0, 0.9)]];

const REFUSED: &str =
    "lodesman_config_reload_total{namespace=\"default\",pool=\"epp\",result=\"error\"}";

pub(super) struct Rig {
    pub(super) lodesman: Lodesman,
    channel: Channel,
    pods: Vec<SocketAddr>,
    _servers: JoinSet<()>,
}

/// An open stream.
pub(super) struct Stream {
    sender: mpsc::Sender<ProcessingRequest>,
    replies: Streaming<ProcessingResponse>,
}

impl Rig {
    /// A picker with the configuration of this volume, once it has read its servers; a flag names them.
    pub(super) async fn over(volume: &Volume) -> Self {
        Self::start(volume, None).await
    }

    /// The same, with the servers in this file.
    pub(super) async fn listed(volume: &Volume, file: &Path) -> Self {
        Self::start(volume, Some(file)).await
    }

    async fn start(volume: &Volume, listing: Option<&Path>) -> Self {
        let (mut servers, mut pods) = (JoinSet::new(), Vec::new());
        for [usual, other] in LOADS {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            pods.push(listener.local_addr().unwrap());
            let pages = Router::new()
                .route("/metrics", get(async move || page(usual)))
                .route("/other", get(async move || page(other)));
            servers.spawn(async move { axum::serve(listener, pages).await.unwrap() });
        }
        let list: Vec<String> = pods.iter().map(ToString::to_string).collect();
        let file = volume.file().display().to_string();
        let mut args = vec!["--secure-serving=false", "--config-file", &file];
        let endpoints = format!("--endpoints={}", list.join(","));
        match listing {
            Some(path) => {
                let entry = |pod: &SocketAddr| json!({"name": pod.to_string(), "address": pod.ip().to_string(), "port": pod.port()});
                let entries: Vec<Value> = pods.iter().map(entry).collect();
                fs::write(path, json!({"endpoints": entries}).to_string()).unwrap();
            }
            None => args.push(&endpoints),
        }
        let binary = Path::new(env!("CARGO_BIN_EXE_lodesman"));
        let lodesman = Lodesman::start(binary, args).await.unwrap();
        let endpoint = Endpoint::from_shared(format!("http://{}", lodesman.ext_proc)).unwrap();
        let channel = endpoint.connect().await.unwrap();
        let rig = Self { lodesman, channel, pods, _servers: servers };
        rig.until("two servers are read", async || {
            let read = rig.lines("lodesman_metrics_staleness_seconds{").await?;
            ensure!(read.len() == 2, "{read:?}");
            Ok(())
        })
        .await;
        rig
    }

    /// Waits until an attempt succeeds.
    async fn until(&self, what: &str, attempt: impl AsyncFnMut() -> Result<()>) {
        if let Err(error) = eventually(SOON, attempt).await {
            panic!("{what}: {error:#}");
        }
    }

    /// Waits until this version of the configuration is in force.
    pub(super) async fn adopts(&self, generation: u32) {
        self.counts("lodesman_config_generation{", generation.into()).await;
    }

    /// Waits until so many versions were refused.
    pub(super) async fn refuses(&self, versions: u32) {
        self.counts(REFUSED, versions.into()).await;
    }

    /// Waits until a request is placed on this server, from 0.
    pub(super) async fn places_on(&self, server: usize) {
        self.until("placed", async || {
            let placed = self.placed("hi").await?;
            ensure!(placed == server, "on {placed}");
            Ok(())
        })
        .await;
    }

    /// Waits until the values of this family sum up to this.
    pub(super) async fn counts(&self, family: &str, value: f64) {
        self.until(family, async || {
            let sum = self.sum(family).await?;
            ensure!((sum - value).abs() < 1e-6, "{sum} instead of {value}");
            Ok(())
        })
        .await;
    }

    pub(super) async fn sum(&self, family: &str) -> Result<f64> {
        let lines = self.lines(family).await?;
        Ok(lines.iter().filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }

    async fn lines(&self, begin: &str) -> Result<Vec<String>> {
        let page = Client::http1(self.lodesman.metrics).get("/metrics").await?.text();
        Ok(page.lines().filter(|line| line.starts_with(begin)).map(str::to_owned).collect())
    }

    /// What the admin port says of the configuration.
    pub(super) async fn configuration(&self) -> Value {
        let page = Client::http1(self.lodesman.admin).get("/debug/config").await.unwrap();
        serde_json::from_str(&page.text()).unwrap()
    }

    /// Opens a stream.
    pub(super) async fn stream(&self) -> Result<Stream> {
        let (sender, queue) = mpsc::channel(8);
        let mut client = ExternalProcessorClient::new(self.channel.clone());
        let replies = client.process(ReceiverStream::new(queue)).await?.into_inner();
        Ok(Stream { sender, replies })
    }

    /// Asks for a prompt: which server gets it, from 0.
    pub(super) async fn placed(&self, prompt: &str) -> Result<usize> {
        self.placed_of("", prompt).await
    }

    /// The same for a session.
    pub(super) async fn placed_of(&self, session: &str, prompt: &str) -> Result<usize> {
        let mut stream = self.stream().await?;
        stream.ask_of(session, prompt).await?;
        self.at(&stream.reply().await?)
    }

    /// The server that a reply names.
    pub(super) fn at(&self, reply: &ProcessingResponse) -> Result<usize> {
        let address: SocketAddr =
            destination(reply).with_context(|| format!("not placed: {reply:?}"))?.parse()?;
        self.pods.iter().position(|pod| *pod == address).context("no endpoint of ours")
    }
}

impl Stream {
    /// Sends a chat request.
    pub(super) async fn ask(&mut self, prompt: &str) -> Result<()> {
        self.ask_of("", prompt).await
    }

    async fn ask_of(&mut self, session: &str, prompt: &str) -> Result<()> {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": prompt}]});
        let pairs =
            [(":method", "POST"), (":path", "/v1/chat/completions"), ("x-session-id", session)];
        let body = HttpBody {
            body: body.to_string().into_bytes(),
            end_of_stream: true,
            ..HttpBody::default()
        };
        self.tell(Request::RequestHeaders(headers(&pairs))).await?;
        self.tell(Request::RequestBody(body)).await
    }

    /// Sends the head of an answer.
    pub(super) async fn answer(&mut self) -> Result<()> {
        self.tell(Request::ResponseHeaders(headers(&[(":status", "200")]))).await
    }

    async fn tell(&self, request: Request) -> Result<()> {
        let message = ProcessingRequest { request: Some(request), ..ProcessingRequest::default() };
        Ok(self.sender.send(message).await?)
    }

    /// The next reply.
    pub(super) async fn reply(&mut self) -> Result<ProcessingResponse> {
        timeout(SOON, self.replies.message()).await??.context("the stream has ended")
    }
}

/// The status that a reply refuses the request with.
pub(super) fn status(reply: &ProcessingResponse) -> Option<i32> {
    let Some(Response::ImmediateResponse(refusal)) = &reply.response else { return None };
    Some(refusal.status.as_ref()?.code)
}

fn destination(reply: &ProcessingResponse) -> Option<String> {
    let Some(Response::RequestHeaders(headers)) = &reply.response else { return None };
    let mutation = headers.response.as_ref()?.header_mutation.as_ref()?;
    let mut set = mutation.set_headers.iter().filter_map(|option| option.header.as_ref());
    let header = set.find(|header| header.key == "x-gateway-destination-endpoint")?;
    String::from_utf8(header.raw_value.clone()).ok()
}

fn headers(pairs: &[(&str, &str)]) -> HttpHeaders {
    let header = |&(key, value): &(&str, &str)| HeaderValue {
        key: key.to_owned(),
        raw_value: value.as_bytes().to_vec(),
        ..HeaderValue::default()
    };
    let headers = Some(HeaderMap { headers: pairs.iter().map(header).collect() });
    HttpHeaders { headers, ..HttpHeaders::default() }
}

fn page((waiting, kv_usage): (u32, f32)) -> String {
    format!(
        "vllm:num_requests_waiting {waiting}\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc {kv_usage}\n"
    )
}
