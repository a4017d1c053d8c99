//! A picker in this process, the servers that it watches, and what it counts.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use lodesman::app::{Addresses, App, Running};
use lodesman::config::Flags;
use lodesman::pool::{EndpointSpec, Event};
use lodesman_e2e::client::Answer;
use lodesman_e2e::{Client, eventually};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tonic::transport::{Channel, Endpoint};

use super::plugins;
use super::stream::Stream;

pub(crate) use self::pods::Load;
use self::pods::Pods;

mod pods;

/// How long a condition is waited for; generous, as the machine may be busy.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// What is charged to the budget for a held piece of 20 bytes: with what stands around it in its message the allocator takes
/// 96 bytes, a quarter is added, and 256 for its slice and its reply.
pub(crate) const HELD_20: usize = 96 + 24 + 256;

/// Three servers of which the second has the least to do.
pub(crate) const LOADS: [Load; 3] = [Load::new(3, 0.2), Load::new(0, 0.1), Load::new(10, 0.2)];

/// A picker that ends with this value.
pub(crate) struct Rig {
    pub(crate) addresses: Addresses,
    /// The endpoints in the order in which transcripts number them from 1.
    pub(crate) pods: Vec<SocketAddr>,
    channel: Channel,
    running: Option<Running>,
    runtimes: Vec<Runtime>,
    servers: Pods,
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    flags: Flags,
}

impl Rig {
    /// A picker over servers with these loads, once it has read them all.
    pub(crate) async fn of(loads: &[Load], args: &[&str]) -> Self {
        Self::read(loads, None, args).await
    }

    /// The same, with more that is known of the pool.
    pub(crate) async fn of_told(loads: &[Load], events: Vec<Event>, args: &[&str]) -> Self {
        Self::read(loads, Some(events), args).await
    }

    async fn read(loads: &[Load], told: Option<Vec<Event>>, args: &[&str]) -> Self {
        let servers = Pods::start(loads).await;
        let rig = Self::over(servers.addresses.clone(), servers, told, args).await;
        rig.holds("lodesman_metrics_staleness_seconds{", loads.len()).await;
        rig
    }

    /// A picker over so many endpoints of which nothing is known: nobody listens there.
    pub(crate) async fn blind(count: u8, args: &[&str]) -> Self {
        Self::listed(silent(count), None, args).await
    }

    /// The same, with more that is known of the pool.
    pub(crate) async fn told(count: u8, events: Vec<Event>, args: &[&str]) -> Self {
        Self::listed(silent(count), Some(events), args).await
    }

    /// A picker over these endpoints.
    pub(crate) async fn at(pods: Vec<SocketAddr>, args: &[&str]) -> Self {
        Self::listed(pods, None, args).await
    }

    async fn listed(pods: Vec<SocketAddr>, told: Option<Vec<Event>>, args: &[&str]) -> Self {
        let count = pods.len();
        let rig = Self::over(pods, Pods::default(), told, args).await;
        rig.counts("llm_d_epp_ready_endpoints{", &[], count).await;
        rig
    }

    /// A picker whose endpoints are not known yet.
    pub(crate) async fn unsynced(args: &[&str]) -> Self {
        Self::over(Vec::new(), Pods::default(), Some(Vec::new()), args).await
    }

    /// A picker that gets its endpoints from elsewhere: its arguments say from where.
    pub(crate) async fn elsewhere(args: &[&str]) -> Self {
        Self::over(Vec::new(), Pods::default(), None, args).await
    }

    /// A picker whose pool is `told` this before its endpoints, or has them from a flag.
    async fn over(
        pods: Vec<SocketAddr>,
        servers: Pods,
        told: Option<Vec<Event>>,
        args: &[&str],
    ) -> Self {
        plugins::panic_quietly();
        let list: Vec<String> = pods.iter().map(ToString::to_string).collect();
        let flagged = told.is_none() && !list.is_empty();
        let endpoints = flagged.then(|| format!("--endpoints={}", list.join(",")));
        // times and random ids are in no transcript
        let fixed = "lodesman --grpc-port=0 --grpc-health-port=0 --metrics-port=0 --admin-port=0 \
                     --secure-serving=false --response-metadata-namespace=none";
        let line = fixed.split_whitespace().chain(endpoints.as_deref()).chain(args.iter().copied());
        let flags = Line::try_parse_from(line).expect("good flags").flags;
        let runtimes = vec![runtime(2), runtime(1)];
        let [data, control] = [&runtimes[0], &runtimes[1]].map(|runtime| runtime.handle().clone());
        let app = App::new(flags).with_plugins(plugins::TABLE);
        let app = match told {
            Some(events) => app.with_source(source(events, &pods)),
            None => app,
        };
        let running = Box::pin(app.start(data, control)).await.expect("a start");
        let addresses = running.addresses;
        let url = format!("http://127.0.0.1:{}", addresses.grpc.port());
        let endpoint = Endpoint::from_shared(url).expect("a URL").tcp_nodelay(true);
        let channel = endpoint.connect().await.expect("a connection");
        let running = Some(running);
        Self { addresses, pods, channel, running, runtimes, servers }
    }

    /// A new stream on the one connection of this rig.
    pub(crate) async fn stream(&self) -> Stream {
        Stream::open(self.channel.clone(), &self.pods).await.expect("a stream")
    }

    /// The connection.
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Lets the servers tell nothing any more, and waits until what they told is stale.
    pub(crate) async fn fall_silent(&self) {
        self.servers.fall_silent();
        self.counts("llm_d_epp_per_endpoint_queue_size{", &[], 0).await;
    }

    /// Hands the picker over, to be stopped by the test.
    pub(crate) fn running(&mut self) -> Running {
        self.running.take().expect("not taken yet")
    }

    /// A page of the metrics port.
    pub(crate) async fn page(&self, path: &str) -> Result<Answer> {
        Client::http1((Ipv4Addr::LOCALHOST, self.addresses.metrics.port()).into()).get(path).await
    }

    /// The admin port.
    pub(crate) fn admin(&self) -> Client {
        Client::http1((Ipv4Addr::LOCALHOST, self.addresses.admin.port()).into())
    }

    /// Waits until the picker says that it is ready.
    pub(crate) async fn ready(&self) {
        let attempt = async || {
            let page = self.page("/readyz").await?;
            ensure!(page.status == 200, "not ready: {}", page.text());
            Ok(())
        };
        eventually(SOON, attempt).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Waits until the lines of the metrics page that begin with `name` and have all `labels` sum up to `value`.
    pub(crate) async fn counts(&self, name: &str, labels: &[&str], value: usize) {
        self.page_has(name, labels, |lines| {
            let sum: f64 = lines.iter().filter_map(|line| last_number(line)).sum();
            (!lines.is_empty() || value == 0) && (sum - value as f64).abs() < 1e-6
        })
        .await;
    }

    /// Waits until so many lines of the metrics page begin with `name`.
    async fn holds(&self, name: &str, count: usize) {
        self.page_has(name, &[], |lines| lines.len() == count).await;
    }

    async fn page_has(&self, name: &str, labels: &[&str], good: impl Fn(&[&str]) -> bool) {
        let attempt = async || {
            let page = self.page("/metrics").await?.text();
            let of = |line: &&str| {
                line.starts_with(name) && labels.iter().all(|label| line.contains(label))
            };
            let lines: Vec<&str> = page.lines().filter(of).collect();
            if !good(&lines) {
                let prefix = name.split('{').next().unwrap_or(name);
                let seen: Vec<_> = page.lines().filter(|line| line.starts_with(prefix)).collect();
                bail!("{name} {labels:?} is: {seen:#?}");
            }
            Ok(())
        };
        eventually(SOON, attempt).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Waits until the request that has just ended is accounted for: one outcome, nothing in flight.
    pub(crate) async fn ends(&self, outcome: &str) {
        self.counts("lodesman_request_outcomes_total{", &[&format!("\"{outcome}\"")], 1).await;
        self.idle().await;
    }

    /// Waits until nothing is in flight, held or running.
    pub(crate) async fn idle(&self) {
        for name in [
            "llm_d_epp_inflight_requests{",
            "llm_d_epp_request_running{",
            "lodesman_body_bytes_buffered{",
            "lodesman_streams_inflight{",
        ] {
            self.counts(name, &[], 0).await;
        }
    }

    /// The number of an endpoint of this rig, from 1.
    pub(crate) fn number(&self, address: SocketAddr) -> Result<usize> {
        let at = self.pods.iter().position(|pod| *pod == address);
        at.map(|at| at + 1).with_context(|| format!("{address} is no endpoint"))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.runtimes.drain(..).for_each(Runtime::shutdown_background);
    }
}

/// So many addresses where nobody listens.
fn silent(count: u8) -> Vec<SocketAddr> {
    let address = |n| SocketAddr::from((Ipv4Addr::new(127, 0, 1, n), 1));
    (1..=count).map(address).collect()
}

/// A source that tells this and then the endpoints, if there are any.
fn source(mut events: Vec<Event>, pods: &[SocketAddr]) -> mpsc::Receiver<Event> {
    let spec = |&address: &SocketAddr| EndpointSpec {
        name: address.to_string(),
        namespace: "default".to_owned(),
        uid: String::new(),
        address,
        other_ips: Vec::new(),
        labels: BTreeMap::new(),
    };
    if !pods.is_empty() {
        events.push(Event::Endpoints(pods.iter().map(spec).collect()));
    }
    let (sender, queue) = mpsc::channel(events.len().max(1));
    for event in events {
        sender.try_send(event).expect("room for all");
    }
    queue
}

/// The flag that gives this configuration, without its two header lines.
pub(crate) fn config(text: &str) -> String {
    format!("--config-text=apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n{text}")
}

/// The flag of a configuration whose endpoints stand in a file.
pub(crate) fn discovery(path: &Path, watch: bool) -> String {
    let path = path.display();
    config(&format!(
        "plugins: [{{name: file, type: file-discovery, parameters: {{path: \"{path}\", watchFile: {watch}}}}}]\n\
         dataLayer: {{discovery: {{pluginRef: file}}}}\n"
    ))
}

fn runtime(threads: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(threads).enable_all().build().expect("a runtime")
}

fn last_number(line: &str) -> Option<f64> {
    line.rsplit(' ').next()?.parse().ok()
}
