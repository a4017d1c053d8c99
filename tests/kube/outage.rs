//! The API server goes away and comes back, and requests go on.

use std::env;
use std::net::SocketAddr;
use std::time::Duration;

use lodesman_e2e::chat::Clients;
use lodesman_e2e::kube::Server;
use lodesman_e2e::{Cluster, Lodesman};

use super::site::{Site, cluster, own_cluster, until_endpoints, until_ready, until_sum};
use super::stage::at_rest;

/// Whether the API server answers.
const CONNECTED: &str = "lodesman_control_plane_connected";

/// How long it is away: `LODESMAN_OUTAGE_SECONDS`, 20 unless set.
fn outage() -> Duration {
    let seconds = env::var("LODESMAN_OUTAGE_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(20))
}

/// Requests without pause while `away` and then `back` are done to the server; afterwards changes are seen.
async fn goes_on(
    cluster: &Cluster,
    time: Duration,
    away: impl AsyncFnOnce(&Server),
    back: impl AsyncFnOnce(&Server),
) {
    let server = cluster.server().unwrap();
    let site = Site::new(cluster, 3).await;
    site.apply_pool().await;
    site.run(0).await;
    site.run(1).await;
    let picker = site.picker("").await;
    let two: [(String, SocketAddr); 2] = [site.endpoint(0), site.endpoint(1)];
    until_endpoints(&picker, two.clone()).await;
    let envoy = site.envoy(&picker).await;
    let mut load = Clients::start(envoy.client(), "sim", 4);
    load.next(20).await.unwrap();
    away(server).await;
    load.last(time).await.unwrap();
    until_ready(&picker).await;
    until_endpoints(&picker, two.clone()).await;
    back(server).await;
    site.run(2).await;
    until_endpoints(&picker, two.into_iter().chain([site.endpoint(2)])).await;
    until_sum(&picker, CONNECTED, &[], 1.0).await;
    load.reach(site.fleet.servers[2]).await.unwrap();
    load.finish().await.unwrap();
    at_rest(&picker).await;
}

#[tokio::test]
async fn no_request_fails_while_the_api_server_is_stopped() {
    let Some(cluster) = own_cluster(&[]).await else { return };
    let stop = async |server: &Server| server.stop().await.unwrap();
    let resume = async |server: &Server| server.resume().await.unwrap();
    goes_on(&cluster, outage(), stop, resume).await;
}

#[tokio::test]
async fn no_request_fails_when_the_api_server_is_killed_and_has_forgotten_the_past() {
    let Some(cluster) = own_cluster(&[]).await else { return };
    let kill = async |server: &Server| server.kill().await.unwrap();
    let resume = async |server: &Server| {
        // Watches that go on from where they were are now answered with 410 Gone.
        server.compact().await.unwrap();
        server.resume().await.unwrap();
    };
    goes_on(&cluster, Duration::from_secs(2), kill, resume).await;
}

#[tokio::test]
async fn no_request_fails_while_the_api_server_hangs() {
    let Some(cluster) = own_cluster(&[]).await else { return };
    let freeze = async |server: &Server| server.freeze().await.unwrap();
    let thaw = async |server: &Server| server.thaw().await.unwrap();
    goes_on(&cluster, outage(), freeze, thaw).await;
}

#[tokio::test]
async fn picker_that_starts_while_the_api_server_is_away_waits_for_it_alive() {
    let Some(cluster) = own_cluster(&[]).await else { return };
    let site = Site::with_pods(&cluster, 1).await;
    let server = cluster.server().unwrap();
    server.stop().await.unwrap();
    let mut picker: Lodesman = site.picker("").await;
    until_sum(&picker, CONNECTED, &[], 0.0).await;
    assert!(picker.process.exited().unwrap().is_none());
    server.resume().await.unwrap();
    until_endpoints(&picker, [site.endpoint(0)]).await;
    until_ready(&picker).await;
}

// FR-099
#[tokio::test]
async fn connections_to_the_api_server_that_are_cut_lose_nothing() {
    let Some(cluster) = cluster().await else { return };
    let mut site = Site::with_pods(cluster, 2).await;
    let relay = site.account.relayed().await.unwrap();
    let picker = site.synced_picker("").await;
    let envoy = site.envoy(&picker).await;
    let mut load = Clients::start(envoy.client(), "sim", 2);
    for _ in 0..4 {
        load.next(10).await.unwrap();
        // What changes about the time of the cut is in no watch, or in the first one after it.
        relay.cut();
        site.kubelet.set_ready("pod-0", false).await.unwrap();
        relay.cut();
        until_endpoints(&picker, [site.endpoint(1)]).await;
        site.kubelet.set_ready("pod-0", true).await.unwrap();
        relay.cut();
        until_endpoints(&picker, [site.endpoint(0), site.endpoint(1)]).await;
    }
    load.finish().await.unwrap();
}
