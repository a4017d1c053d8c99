//! Plays the scenarios on a cluster that is there; see [`lodesman_e2e::scenarios`] and `e2e/kind.sh`.
#![expect(clippy::print_stderr, reason = "a command-line program")]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use lodesman_e2e::kube::{Cluster, Namespace};
use lodesman_e2e::scenarios::{Scenario, World};

/// Plays the scenarios on a cluster where `manifests/try` of its gateway is applied.
#[derive(Debug, Parser)]
#[command(name = "scenarios")]
struct Cli {
    /// The cluster
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// Where the manifests were applied
    #[arg(long, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,
    /// Where the gateway takes requests
    #[arg(long, value_name = "IP:PORT")]
    gateway: SocketAddr,
}

#[tokio::main]
async fn main() -> ExitCode {
    match play(Cli::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("scenarios: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all went well.
async fn play(cli: Cli) -> Result<bool> {
    let cluster = Cluster::existing(cli.kubeconfig);
    let client = cluster.client().await?;
    let namespace = Namespace { name: cli.namespace, client, cluster: &cluster };
    let gateways = [cli.gateway, cli.gateway];
    let world = World { namespace: &namespace, gateways, subset: None };
    world.at_peace().await?;
    let mut good = true;
    for scenario in Scenario::ALL {
        let played = scenario.play(&world).await;
        good &= played.is_ok();
        match played {
            Ok(()) => eprintln!("{scenario:?}: good"),
            Err(error) => eprintln!("{scenario:?}: {error:#}"),
        }
    }
    Ok(good)
}
