//! The pool, its kind and the picker come and go.

use lodesman_e2e::Cluster;
use lodesman_e2e::chat::Clients;
use lodesman_e2e::kube::objects;

use super::site::{
    POOL, Site, cluster, install_crds, until_endpoints, until_ready, until_unready, until_warned,
    until_watch, until_well,
};
use super::stage::{CHAT, chat, is_whole};

// FR-112
#[tokio::test]
async fn pods_may_come_before_their_pool() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::new(cluster, 2).await;
    site.run(0).await;
    site.run(1).await;
    let picker = site.picker("").await;
    until_unready(&picker, &format!("{}/{POOL}", site.namespace.name)).await;
    site.apply_pool().await;
    until_endpoints(&picker, [site.endpoint(0), site.endpoint(1)]).await;
    until_ready(&picker).await;
}

#[tokio::test]
async fn pool_deleted_and_made_again_is_no_outage() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::with_pods(cluster, 2).await;
    let picker = site.synced_picker("").await;
    let envoy = site.envoy(&picker).await;
    let mut load = Clients::start(envoy.client(), "sim", 2);
    load.next(10).await.unwrap();
    site.namespace.delete(objects::POOL, POOL).await.unwrap();
    until_warned(&picker, "InferencePool").await;
    load.next(20).await.unwrap();
    site.apply_pool().await;
    until_well(&picker).await;
    load.next(20).await.unwrap();
    load.finish().await.unwrap();
}

#[tokio::test]
async fn kinds_may_be_installed_after_the_picker() {
    let Some(cluster) = Cluster::start(&[]).await.unwrap() else { return };
    let site = Site::new(&cluster, 1).await;
    site.run(0).await;
    let picker = site.picker("").await;
    until_watch(&picker, "inferencepools.inference.networking.k8s.io", "absent").await;
    until_unready(&picker, POOL).await;
    install_crds(&cluster).await;
    site.apply_pool().await;
    until_endpoints(&picker, [site.endpoint(0)]).await;
    until_ready(&picker).await;
    let envoy = site.envoy(&picker).await;
    assert!(is_whole(&envoy.client().post(CHAT, &chat(1, false)).await.unwrap()));
}

#[tokio::test]
async fn legacy_pool_is_served_where_it_is_chosen() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::new(cluster, 1).await;
    site.run(0).await;
    let rights = serde_json::json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "legacy"},
        "rules": [{
            "apiGroups": ["inference.networking.x-k8s.io"],
            "resources": ["inferencepools"],
            "resourceNames": [POOL],
            "verbs": ["list", "watch"],
        }],
    });
    site.namespace.apply(&rights).await.unwrap();
    site.bind("legacy").await;
    site.namespace.apply(&objects::legacy_pool(POOL, site.port())).await.unwrap();
    let picker = site.synced_picker("--pool-group inference.networking.x-k8s.io").await;
    let envoy = site.envoy(&picker).await;
    assert!(is_whole(&envoy.client().post(CHAT, &chat(1, false)).await.unwrap()));
}

#[tokio::test]
async fn pods_are_served_by_a_selector_alone() {
    let Some(cluster) = Cluster::start(&[]).await.unwrap() else { return };
    let site = Site::new(&cluster, 2).await;
    let ports = site.port().to_string();
    let args = ["--endpoint-selector", "app=llm", "--endpoint-target-ports", &ports];
    let picker = site.picker_of(&args, "x").await;
    until_ready(&picker).await;
    site.run(0).await;
    site.run_as("stranger", "other", site.fleet.servers[1].ip()).await;
    until_endpoints(&picker, [site.endpoint(0)]).await;
    let envoy = site.envoy(&picker).await;
    assert!(is_whole(&envoy.client().post(CHAT, &chat(1, false)).await.unwrap()));
}
