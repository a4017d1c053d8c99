//! The demonstration: the same chat traffic over the same simulated fleet, first spread by Envoy's
//! round robin, then placed by Lodesman, each through a real Envoy.
//!
//! All figures are measured at the client in this very run.

mod answer;
mod gauges;
mod run;
mod screen;
mod summary;
mod traffic;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::client::Client;
use crate::envoy::{Destination, Envoy, EnvoyConfig, ExtProc, Policy, Pool};
use crate::lodesman::{Fleet, Lodesman, binary};
use crate::wait::eventually;
use run::Outcome;
use screen::Screen;
use traffic::Arrival;

/// From the start of the picker until it has seen its model servers.
const READY: Duration = Duration::from_secs(20);

/// What the demonstration shows.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Simulated model servers
    #[arg(long, default_value_t = 4)]
    pub servers: usize,
    /// A server that is slower than the others, counted from 0, and by how much; repeatable
    #[arg(long, value_name = "SERVER=FACTOR", default_value = "3=3")]
    pub slow: Vec<String>,
    /// How much faster than real time the servers and the traffic run
    #[arg(long, default_value_t = 10.0)]
    pub time_scale: f64,
    /// Length of the traffic in simulated seconds
    #[arg(long, default_value_t = 180.0)]
    pub seconds: f64,
    /// Conversations that begin in a simulated second, on average
    #[arg(long, default_value_t = 1.5)]
    pub rate: f64,
    /// Name of the base model
    #[arg(long, default_value = "llama")]
    pub model: String,
    /// Name of an adapter on it; repeatable
    #[arg(long, default_values_t = ["sql".to_owned(), "chat".to_owned()])]
    pub lora: Vec<String>,
    /// Seed of the traffic
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Lodesman's binary, if not the one beside this program
    #[arg(long, value_name = "FILE")]
    pub lodesman: Option<PathBuf>,
    /// Has Lodesman record the traffic for `lodesman replay`
    #[arg(long, value_name = "FILE")]
    pub record_trace: Option<PathBuf>,
    /// End after the summary instead of running on; also by the environment variable ONCE=1
    #[arg(long)]
    pub once: bool,
}

/// Runs the demonstration. Returns when it is done or, unless it is to run once, when one of its
/// parts ends; dropping the future stops everything.
///
/// # Errors
/// When a part does not start or ends by itself, or a request failed.
pub async fn run(options: &Options) -> Result<()> {
    let mut screen = Screen::new();
    let binary = options.lodesman.clone().map_or_else(binary, Ok)?;
    let arrivals = traffic::plan(options);
    screen.say(&format!(
        "{} requests of {} simulated seconds, {} times faster than real time, over {} simulated servers\n",
        arrivals.len(), options.seconds, options.time_scale, options.servers,
    ))?;
    let baseline = round_robin(options, &binary, &arrivals, &mut screen).await?;
    let (stage, outcome) = picked(options, &binary, &arrivals, &mut screen).await?;
    screen.say(&summary::table(options, &baseline, &outcome))?;
    for outcome in [&baseline, &outcome] {
        let reasons = outcome.failures.join("\n");
        ensure!(reasons.is_empty(), "requests failed by {}:\n{reasons}", outcome.title);
    }
    if options.once {
        return Ok(());
    }
    screen.say(&stage.invitation(options))?;
    stage.run_on().await
}

/// The parts of the run with Lodesman, which stay up after it.
struct Stage {
    fleet: Fleet,
    lodesman: Lodesman,
    envoy: Envoy,
}

async fn round_robin(
    options: &Options,
    binary: &Path,
    arrivals: &[Arrival],
    screen: &mut Screen,
) -> Result<Outcome> {
    screen.say("starting the servers and Envoy")?;
    let mut fleet = fleet(options, binary).await?;
    let pool = Pool::Static { endpoints: fleet.servers.clone(), policy: Policy::RoundRobin };
    let envoy = Envoy::start(&EnvoyConfig::plain(pool)).await?;
    let client = envoy.client();
    let scene = run::Scene { title: "round robin", client, servers: &fleet.servers, options };
    fleet.process.while_alive(scene.play(arrivals, screen)).await
}

async fn picked(
    options: &Options,
    binary: &Path,
    arrivals: &[Arrival],
    screen: &mut Screen,
) -> Result<(Stage, Outcome)> {
    screen.say("starting the servers afresh, Lodesman and Envoy")?;
    let mut fleet = fleet(options, binary).await?;
    let endpoints: Vec<String> = fleet.servers.iter().map(SocketAddr::to_string).collect();
    let mut args = vec![OsString::from("--endpoints"), endpoints.join(",").into()];
    if let Some(file) = &options.record_trace {
        args.extend(["--record-trace".into(), file.into()]);
    }
    let mut lodesman = Lodesman::start(binary, args).await?;
    let ready = eventually(READY, async || {
        let answer = Client::http1(lodesman.metrics).get("/readyz").await?;
        ensure!(answer.status.is_success(), "{} {}", answer.status, answer.text());
        Ok(())
    });
    let ready = lodesman.process.while_alive(ready).await;
    ready.with_context(|| format!("Lodesman is not ready:\n{}", lodesman.process.output()))?;
    let pool = Pool::OriginalDst(Destination::Header);
    let config = EnvoyConfig::picked(ExtProc::full_duplex(lodesman.ext_proc), pool);
    let envoy = Envoy::start(&config).await?;
    let client = envoy.client();
    let scene = run::Scene { title: "Lodesman", client, servers: &fleet.servers, options };
    let playing = fleet.process.while_alive(scene.play(arrivals, screen));
    let outcome = lodesman.process.while_alive(playing).await?;
    Ok((Stage { fleet, lodesman, envoy }, outcome))
}

async fn fleet(options: &Options, binary: &Path) -> Result<Fleet> {
    let mut args = vec!["--address".to_owned(), "127.0.1.1".to_owned()];
    let scale = options.time_scale.to_string();
    let single = [("--model", &options.model), ("--time-scale", &scale)];
    let adapters = options.lora.iter().map(|name| ("--lora", name));
    let slow = options.slow.iter().map(|server| ("--slow", server));
    for (flag, value) in single.into_iter().chain(adapters).chain(slow) {
        args.extend([flag.to_owned(), value.clone()]);
    }
    Fleet::start(binary, options.servers, args).await
}

impl Stage {
    /// What to try next.
    fn invitation(&self, options: &Options) -> String {
        let body = serde_json::json!({
            "model": options.model,
            "stream": true,
            "max_tokens": 20,
            "messages": [{"role": "user", "content": "Where is the nearest harbor?"}],
        });
        format!(
            "\nEverything is still running. Send a request of your own:\n\n  \
             curl -N http://{envoy}/v1/chat/completions \\\n    \
             -H 'content-type: application/json' \\\n    -d '{body}'\n\n\
             Envoy    http://{envoy}\n\
             metrics  http://{metrics}/metrics\n\
             admin    http://{admin}/\n\
             servers  {servers}\n\nStop with Ctrl-C.",
            envoy = self.envoy.address(),
            metrics = self.lodesman.metrics,
            admin = self.lodesman.admin,
            servers = addresses(&self.fleet.servers),
        )
    }

    /// Keeps everything running; returns only when a part ends.
    async fn run_on(mut self) -> Result<()> {
        let Self { fleet, lodesman, envoy } = &mut self;
        let envoy = envoy.process().while_alive(std::future::pending());
        fleet.process.while_alive(lodesman.process.while_alive(envoy)).await
    }
}

fn addresses(servers: &[SocketAddr]) -> String {
    servers.iter().map(|server| format!("http://{server}")).collect::<Vec<_>>().join(" ")
}
