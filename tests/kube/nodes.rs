//! Pods leave with their nodes, where these may be read.

use std::net::IpAddr;

use serde_json::json;

use super::site::{
    POOL, Site, manifest, own_cluster, until_endpoints, until_ready, until_state, until_sum,
    until_watch,
};

/// How many endpoints may be chosen.
const READY: &str = "llm_d_epp_ready_endpoints";

#[tokio::test]
async fn pods_drain_when_their_node_is_cordoned_or_about_to_be_removed() {
    let Some(cluster) = own_cluster(&[]).await else { return };
    let site = Site::new(&cluster, 3).await;
    let kubectl = async |args: &[&str], input: &str| cluster.kubectl(args, input).await.unwrap();
    site.apply_pool().await;
    for at in 0..3 {
        let (name, node) = (format!("pod-{at}"), format!("node-{at}"));
        let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}});
        kubectl(&["apply", "--filename", "-"], &object.to_string()).await;
        let ips: [IpAddr; 1] = [site.fleet.servers[at].ip()];
        site.kubelet.create_on(&node, &name, &json!({"labels": {"app": POOL}})).await.unwrap();
        site.kubelet.start(&name, &ips, true).await.unwrap();
    }
    let picker = site.picker("--watch-nodes").await;
    until_watch(&picker, "nodes", "forbidden").await;
    until_endpoints(&picker, [0, 1, 2].map(|at| site.endpoint(at))).await;
    until_ready(&picker).await;
    let rights = std::fs::read_to_string(manifest("components/nodes/rbac.yaml")).unwrap();
    let ours = format!("namespace: {}", site.namespace.name);
    let rights = rights.replace("namespace: default", &ours);
    assert!(rights.contains(&ours), "{rights}");
    kubectl(&["apply", "--filename", "-"], &rights).await;
    until_watch(&picker, "nodes", "following").await;
    kubectl(&["cordon", "node-0"], "").await;
    until_state(&picker, "pod-0-rank-0", "draining", "node_cordoned").await;
    until_sum(&picker, READY, &[], 2.0).await;
    kubectl(&["cordon", "node-1"], "").await;
    until_sum(&picker, READY, &[], 3.0).await;
    kubectl(&["uncordon", "node-0"], "").await;
    until_state(&picker, "pod-1-rank-0", "draining", "node_cordoned").await;
    kubectl(&["taint", "node", "node-2", "ToBeDeletedByClusterAutoscaler=1:NoSchedule"], "").await;
    until_state(&picker, "pod-2-rank-0", "draining", "node_removed").await;
    until_sum(&picker, READY, &[], 1.0).await;
}
