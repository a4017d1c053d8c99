//! The real KEDA, which scales simulated model servers by what Lodesman tells it, under load through a real Envoy.
//!
//! Everything runs as plain processes in namespaces of its own, which `e2e/keda/run.sh` makes: pods have addresses of their
//! own there, the fixed ports of KEDA collide with nothing, and a file stands for the cluster's DNS.

mod aggregation;
mod authority;
mod pool;
mod programs;
mod scenes;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;

use pool::Pool;
use programs::Keda;

use crate::kube::{Cluster, Namespace, Node};
use crate::lodesman::binary;

/// The network of the pods; the file `e2e/keda/hosts` has the picker's address.
const PODS: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 0);

/// With what it is tried.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Folder of KEDA's programs, as e2e/keda/build.sh prints it
    #[arg(long, value_name = "DIR")]
    pub keda: PathBuf,
    /// Lodesman's binary, if not the one beside this program
    #[arg(long, value_name = "FILE")]
    pub lodesman: Option<PathBuf>,
}

/// Starts a cluster with KEDA and a pool without a replica, and plays all scenes; says what it does and what it sees.
///
/// # Errors
/// When a part does not start or ends, there are not the replicas that the load needs, or a request fails.
pub async fn run(options: &Options, say: impl Fn(&str)) -> Result<()> {
    let binary = options.lodesman.clone().map_or_else(binary, Ok)?;
    say("starting Kubernetes and KEDA");
    let (cluster, mut keda) = Box::pin(Keda::start(&options.keda)).await?;
    let played = keda.while_alive(Box::pin(play(&cluster, &binary, &say))).await;
    played.with_context(|| keda.complaints())
}

/// Plays all scenes with a pool in the namespace `default`.
async fn play(cluster: &Cluster, binary: &Path, say: &impl Fn(&str)) -> Result<()> {
    let (name, client) = ("default".to_owned(), cluster.client().await?);
    let namespace = Namespace { name, client, cluster };
    let node = Node::new(&namespace, binary, PODS);
    let picker = node.pickers().into_iter().next().context("no place for a picker")?;
    let scenes = async {
        say("starting Lodesman and Envoy");
        let pool = Box::pin(Pool::start(&namespace, picker)).await?;
        scenes::play(&pool, say).await
    };
    tokio::select! {
        played = scenes => played,
        failed = node.run() => failed.context("the node"),
    }
}
