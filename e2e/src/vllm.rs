//! Two real vLLM servers behind a real Envoy: round robin against Lodesman, by the engines' own figures.
//!
//! The model is tiny and its weights are random: answers are nonsense, and everything else is real. What each part shows
//! is a claim that holds or does not; times are shown, and not judged.

mod adapter;
mod adapters;
mod claim;
mod gateway;
mod gauges;
mod outage;
mod play;
mod prefixes;
mod server;
mod site;
mod tokens;
mod traffic;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;

use crate::lodesman::binary;
use claim::Report;
use gateway::Gateways;
use server::Server;
use site::Site;

/// What is run.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// The program `vllm`, as `e2e/vllm/install.sh` prints it
    #[arg(long, value_name = "FILE")]
    pub vllm: PathBuf,
    /// Lodesman's binary, if not the one beside this program
    #[arg(long, value_name = "FILE")]
    pub lodesman: Option<PathBuf>,
    /// Seed of the traffic
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Runs all parts, tells by `say` what it does and what came out. Dropping the future stops everything.
///
/// # Errors
/// When a part cannot be run, a request fails that should not, or a claim does not hold.
pub async fn run(options: &Options, say: impl Fn(&str)) -> Result<()> {
    let binary = options.lodesman.clone().map_or_else(binary, Ok)?;
    let site = Site::new(&options.vllm)?;
    say("starting two vLLM servers (a minute or two)");
    let mut servers = Box::pin(site.servers()).await?;
    let addresses = servers.each_ref().map(Server::address);
    say("starting Lodesman and two Envoys");
    let gateways = Gateways::start(&binary, &addresses).await?;
    let mut report = Report::default();
    say("requests that share system prompts");
    prefixes::show(&gateways, &servers, options.seed, &mut report).await?;
    say("requests for adapters");
    adapters::show(&gateways, &servers, options.seed, &mut report).await?;
    say("a queue at both servers");
    gauges::show(&gateways, &addresses, &mut report).await?;
    say("killing a server and starting it again (a minute)");
    outage::show(&gateways, &site, &mut servers, &mut report).await?;
    say(&report.to_string());
    let broken = report.broken();
    ensure!(broken == 0, "{broken} claims do not hold");
    Ok(())
}

/// The addresses as a list on a command line.
fn list(servers: &[SocketAddr]) -> String {
    servers.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",")
}
