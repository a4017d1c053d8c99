//! The world as processes: a real API server with the controllers of Deployments, a node that runs pods as
//! processes, and a real Envoy for each failure mode as the gateway.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Scenario, World};
use crate::envoy::{Destination, Envoy, EnvoyConfig, ExtProc, HealthCheck, Picker, Pool};
use crate::kube::assets::manifests;
use crate::kube::{Cluster, Node};

/// What a rollout needs of kube-controller-manager.
pub const CONTROLLERS: [&str; 3] =
    ["deployment-controller", "replicaset-controller", "garbage-collector-controller"];
/// From one look at a picker's health to the next, as in the manifests.
const CHECK: HealthCheck = HealthCheck { interval: Duration::from_secs(1) };
/// The port of the model servers in the manifests.
const PORT: u16 = 8000;
/// How many model servers there are in the manifests; the node gives them its first addresses.
const SERVERS: u8 = 3;

/// Plays a scenario in a namespace of its own of a cluster with our CRDs and [`CONTROLLERS`], where `binary`
/// is what runs.
///
/// # Errors
/// Those of the scenario, and when a part of the world fails.
pub async fn play(scenario: Scenario, cluster: &Cluster, binary: &Path) -> Result<()> {
    let namespace = cluster.namespace().await?;
    let network = Ipv4Addr::new(127, fastrand::u8(16..=239), fastrand::u8(..), 0);
    let node = Node::new(&namespace, binary, network);
    let closing = Envoy::start(&gateway(&node, network, false)).await?;
    let open = Envoy::start(&gateway(&node, network, true)).await?;
    let gateways = [closing.address(), open.address()];
    let [a, b, c, _] = network.octets();
    let only = Ipv4Addr::new(a, b, c, SERVERS);
    let hint = serde_json::json!([format!("{only}:{PORT}")]);
    let partial = EnvoyConfig { subset_hint: Some(hint), ..gateway(&node, network, false) };
    let partial = Envoy::start(&partial).await?;
    let subset = Some((partial.address(), only.into()));
    for folder in ["base", "models/sim"] {
        let path = manifests(folder);
        let apply = ["apply", "--namespace", &namespace.name, "--kustomize", &path];
        cluster.kubectl(&apply, "").await?;
    }
    let world = World { namespace: &namespace, gateways, subset };
    let scene = async {
        world.at_peace().await.context("at the start")?;
        scenario.play(&world).await
    };
    tokio::select! {
        played = scene => played,
        failed = node.run() => failed.context("the node"),
    }
}

/// A gateway that asks all pickers that are well, and goes wherever in the pool they say.
fn gateway(node: &Node<'_>, network: Ipv4Addr, open: bool) -> EnvoyConfig {
    let mut filter = ExtProc::full_duplex(([127, 0, 0, 1], 0).into());
    filter.picker = Picker::new(node.pickers());
    filter.picker.health_check = Some(CHECK);
    filter.retries = 3;
    filter.failure_mode_allow = open;
    let pool = if open {
        // On its own it can only know where servers may be.
        let [a, b, c, _] = network.octets();
        let endpoints = (1..=SERVERS).map(|d| (Ipv4Addr::new(a, b, c, d), PORT).into()).collect();
        Pool::OverrideHost { endpoints, destinations: vec![Destination::Metadata] }
    } else {
        Pool::OriginalDst(Destination::Header)
    };
    EnvoyConfig::picked(filter, pool)
}
