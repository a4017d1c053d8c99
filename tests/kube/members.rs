//! Pods come, change and go while requests flow.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{bail, ensure};
use http::Request;
use lodesman_e2e::chat::{Clients, ask};
use lodesman_e2e::kube::{Kubelet, objects};
use lodesman_e2e::{Body, Cluster, Namespace, eventually};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::site::{
    POOL, Site, cluster, servers_at, until_endpoints, until_ready, until_state, until_sum,
    until_warned, until_well,
};
use super::stage::{CHAT, SOON, at_rest, chat, is_whole, unlike};

/// How many endpoints may be chosen.
const READY: &str = "llm_d_epp_ready_endpoints";

#[tokio::test]
async fn pool_may_come_before_its_pods() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::new(cluster, 2).await;
    site.apply_pool().await;
    let picker = site.picker("").await;
    until_ready(&picker).await;
    let envoy = site.envoy(&picker).await;
    let refused = envoy.client().post(CHAT, &chat(1, false)).await.unwrap();
    assert_eq!(refused.status, 503, "a pool without pods refuses");
    site.run(0).await;
    site.run(1).await;
    until_endpoints(&picker, [site.endpoint(0), site.endpoint(1)]).await;
    assert!(is_whole(&envoy.client().post(CHAT, &chat(1, false)).await.unwrap()));
}

// FR-101
#[tokio::test]
async fn pods_of_another_label_are_no_endpoints() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::with_pods(cluster, 2).await;
    site.run_as("stranger", "other", site.fleet.servers[1].ip()).await;
    let picker = site.synced_picker("").await;
    let labels = json!({"metadata": {"labels": {"app": "other"}}});
    site.namespace.merge(objects::POD, "pod-0", &labels).await.unwrap();
    until_endpoints(&picker, [site.endpoint(1)]).await;
}

#[tokio::test]
async fn selector_changes_under_load_without_a_failed_request() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::new(cluster, 4).await;
    site.apply_pool().await;
    for (at, server) in site.fleet.servers.iter().enumerate() {
        let app = if at < 2 { POOL } else { "next" };
        site.run_as(&format!("pod-{at}"), app, server.ip()).await;
    }
    let picker = site.picker("").await;
    until_endpoints(&picker, [site.endpoint(0), site.endpoint(1)]).await;
    let envoy = site.envoy(&picker).await;
    let mut load = Clients::start(envoy.client(), "sim", 4);
    load.next(40).await.unwrap();
    let selector = json!({"spec": {"selector": {"matchLabels": {"app": "next"}}}});
    site.namespace.merge(objects::POOL, POOL, &selector).await.unwrap();
    until_endpoints(&picker, [site.endpoint(2), site.endpoint(3)]).await;
    assert!(load.next(40).await.unwrap().iter().all(|at| site.fleet.servers[2..].contains(at)));
    load.finish().await.unwrap();
    at_rest(&picker).await;
}

// FR-103
#[tokio::test]
async fn port_changes_under_load_without_a_failed_request() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::with_pods(cluster, 2).await;
    let SocketAddr::V4(first) = site.fleet.servers[0] else { panic!("no IPv4") };
    let next = servers_at(*first.ip(), 2).await;
    let picker = site.synced_picker("").await;
    let envoy = site.envoy(&picker).await;
    let mut load = Clients::start(envoy.client(), "sim", 4);
    load.next(40).await.unwrap();
    let pool = objects::pool(POOL, &[next.servers[0].port()]);
    site.namespace.apply(&pool).await.unwrap();
    until_endpoints(&picker, [0, 1].map(|at| (site.endpoint(at).0, next.servers[at]))).await;
    assert!(load.next(40).await.unwrap().iter().all(|at| next.servers.contains(at)));
    load.finish().await.unwrap();
    at_rest(&picker).await;
}

#[tokio::test]
async fn every_target_port_is_an_endpoint_of_its_own() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::with_pods(cluster, 1).await;
    let SocketAddr::V4(first) = site.fleet.servers[0] else { panic!("no IPv4") };
    let second = servers_at(*first.ip(), 1).await;
    let pool = objects::pool(POOL, &[site.port(), second.servers[0].port()]);
    site.namespace.apply(&pool).await.unwrap();
    let picker = site.picker("").await;
    let rank_1 = ("pod-0-rank-1".to_owned(), second.servers[0]);
    until_endpoints(&picker, [site.endpoint(0), rank_1.clone()]).await;
    for key in ["llm-d.ai/active-ports", "inference.networking.k8s.io/active-ports"] {
        let annotate = |value: Value| json!({"metadata": {"annotations": {key: value}}});
        let set = async |value| {
            site.namespace.merge(objects::POD, "pod-0", &annotate(value)).await.unwrap();
        };
        set(json!(rank_1.1.port().to_string())).await;
        until_endpoints(&picker, [rank_1.clone()]).await;
        set(json!("")).await;
        until_endpoints(&picker, []).await;
        set(Value::Null).await;
        until_endpoints(&picker, [site.endpoint(0), rank_1.clone()]).await;
    }
}

#[tokio::test]
async fn address_may_pass_from_one_pod_to_the_next() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::with_pods(cluster, 1).await;
    let picker = site.synced_picker("").await;
    let envoy = site.envoy(&picker).await;
    let address = site.fleet.servers[0];
    // The new pod is seen before the end of the old one: the newest ready pod has the address.
    create_younger(&site, "heir", "pod-0").await;
    site.kubelet.start("heir", &[address.ip()], true).await.unwrap();
    until_endpoints(&picker, [("heir-rank-0".to_owned(), address)]).await;
    site.kubelet.end("pod-0").await.unwrap();
    // One of the same name, and the other way round: the old pod ends first.
    site.kubelet.end("heir").await.unwrap();
    until_endpoints(&picker, []).await;
    site.run_as("heir", POOL, address.ip()).await;
    until_endpoints(&picker, [("heir-rank-0".to_owned(), address)]).await;
    assert!(is_whole(&envoy.client().post(CHAT, &chat(1, false)).await.unwrap()));
    at_rest(&picker).await;
}

/// Creates a pod that is younger than another one; ages are counted in seconds.
async fn create_younger(site: &Site<'_>, name: &str, than: &str) {
    let age = async |name: &str| {
        let pod = site.namespace.read(objects::POD, name).await?;
        anyhow::Ok(pod.metadata.creation_timestamp)
    };
    let younger = eventually(SOON, async || {
        site.kubelet.create(name, &json!({"labels": {"app": POOL}})).await?;
        if age(name).await? > age(than).await? {
            return Ok(());
        }
        site.kubelet.end(name).await?;
        bail!("{name} is as old as {than}")
    });
    younger.await.unwrap();
}

// FR-101
#[tokio::test]
async fn pod_that_is_not_ready_gets_no_request_until_it_is() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::with_pods(cluster, 2).await;
    let picker = site.synced_picker("").await;
    let envoy = site.envoy(&picker).await;
    let mut load = Clients::start(envoy.client(), "sim", 4);
    load.next(20).await.unwrap();
    site.kubelet.set_ready("pod-0", false).await.unwrap();
    until_endpoints(&picker, [site.endpoint(1)]).await;
    assert!(load.next(20).await.unwrap().iter().all(|at| *at == site.fleet.servers[1]));
    site.kubelet.set_ready("pod-0", true).await.unwrap();
    until_endpoints(&picker, [site.endpoint(0), site.endpoint(1)]).await;
    load.reach(site.fleet.servers[0]).await.unwrap();
    load.finish().await.unwrap();
    at_rest(&picker).await;
}

// FR-153
#[tokio::test]
async fn pool_that_selects_no_pod_is_warned_of_until_it_does() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::new(cluster, 1).await;
    site.apply_pool().await;
    let picker = site.picker("").await;
    until_warned(&picker, "no ready pod matches app=").await;
    let told = eventually(SOON, async || {
        let events = site.namespace.list(objects::EVENT).await?;
        let about =
            |event: &Value| event["reason"] == "NoPods" && event["regarding"]["name"] == POOL;
        ensure!(events.iter().any(|event| about(&event.data)), "none of {} events", events.len());
        Ok(())
    });
    told.await.unwrap();
    site.run(0).await;
    until_endpoints(&picker, [site.endpoint(0)]).await;
    until_well(&picker).await;
}

#[tokio::test]
async fn pod_without_an_address_is_no_endpoint() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::new(cluster, 1).await;
    site.apply_pool().await;
    let picker = site.picker("").await;
    site.kubelet.create("pod-0", &json!({"labels": {"app": POOL}})).await.unwrap();
    site.kubelet.set_ready("pod-0", true).await.unwrap();
    until_sum(&picker, READY, &[], 0.0).await;
    site.kubelet.start("pod-0", &[site.fleet.servers[0].ip()], true).await.unwrap();
    until_endpoints(&picker, [site.endpoint(0)]).await;
}

// FR-120
#[tokio::test]
async fn terminating_pod_ends_its_answers_and_gets_no_more() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::with_pods(cluster, 2).await;
    let picker = site.synced_picker("").await;
    let envoy = site.envoy(&picker).await;
    let mut open = Vec::new();
    for number in 0..4 {
        // Some three seconds long.
        let ask = unlike(number, 8_000, true).to_string();
        let request = Request::post(CHAT).body(Body::full(ask)).unwrap();
        let mut response = envoy.client().send(request).await.unwrap();
        response.chunk().await.unwrap().unwrap();
        open.push(response);
    }
    site.kubelet.terminate("pod-0").await.unwrap();
    until_state(&picker, "pod-0-rank-0", "draining", "pod_deleted").await;
    for number in 0..10 {
        let server = ask(envoy.client(), "sim", 10 + number).await.unwrap();
        assert_eq!(server, site.fleet.servers[1]);
    }
    let mut places = Vec::new();
    for response in open {
        let answer = response.collect().await;
        assert!(is_whole(&answer), "{:?}", answer.broken);
        places.push(answer.header("x-sim-server").unwrap().to_owned());
    }
    assert!(places.contains(&site.fleet.servers[0].to_string()), "none was open there: {places:?}");
    site.kubelet.end("pod-0").await.unwrap();
    until_endpoints(&picker, [site.endpoint(1)]).await;
    at_rest(&picker).await;
}

#[tokio::test]
async fn pod_drains_by_its_annotation_or_when_it_is_about_to_be_disrupted() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::with_pods(cluster, 2).await;
    let picker = site.synced_picker("").await;
    let envoy = site.envoy(&picker).await;
    let annotate = async |value: Value| {
        let patch = json!({"metadata": {"annotations": {"lodesman.dev/drain": value}}});
        site.namespace.merge(objects::POD, "pod-0", &patch).await.unwrap();
    };
    for value in ["true", "2100-01-01T00:00:00Z"] {
        annotate(json!(value)).await;
        until_state(&picker, "pod-0-rank-0", "draining", "annotation").await;
        for number in 0..4 {
            let server = ask(envoy.client(), "sim", number).await.unwrap();
            assert_eq!(server, site.fleet.servers[1]);
        }
        annotate(json!("2020-01-01T00:00:00Z")).await;
        until_sum(&picker, READY, &[], 2.0).await;
    }
    annotate(json!("soon")).await;
    until_warned(&picker, "pod pod-0: annotation lodesman.dev/drain=").await;
    annotate(Value::Null).await;
    until_well(&picker).await;
    site.kubelet.set_disrupted("pod-0").await.unwrap();
    until_state(&picker, "pod-0-rank-0", "draining", "disruption_target").await;
    until_sum(&picker, READY, &[], 1.0).await;
}

#[tokio::test]
async fn pool_that_drains_as_a_whole_is_still_served() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::with_pods(cluster, 1).await;
    let picker = site.synced_picker("").await;
    let envoy = site.envoy(&picker).await;
    site.kubelet.terminate("pod-0").await.unwrap();
    until_sum(&picker, READY, &[], 0.0).await;
    assert!(is_whole(&envoy.client().post(CHAT, &chat(1, false)).await.unwrap()));
    site.kubelet.set_ready("pod-0", false).await.unwrap();
    let refused = eventually(SOON, async || {
        let answer = envoy.client().post(CHAT, &chat(1, false)).await?;
        ensure!(answer.status == 503, "{}", answer.status);
        Ok(())
    });
    refused.await.unwrap();
}

#[tokio::test]
async fn five_hundred_pods_are_endpoints_within_seconds_and_are_gone_as_fast() {
    const PODS: usize = 500;
    let Some(cluster) = cluster().await else { return };
    let site = Site::new(cluster, 1).await;
    site.apply_pool().await;
    let picker = site.picker("").await;
    until_ready(&picker).await;
    run_many(&site.kubelet, PODS).await;
    until_sum(&picker, READY, &[], PODS as f64).await;
    delete_pods(cluster, &site.namespace).await;
    until_sum(&picker, READY, &[], 0.0).await;
}

/// Runs so many pods where nobody listens, several at a time.
async fn run_many(kubelet: &Kubelet, count: usize) {
    let mut creators = JoinSet::new();
    for creator in 0..4 {
        let kubelet = kubelet.clone();
        let numbers = (creator..count).step_by(4);
        creators.spawn(async move {
            for at in numbers {
                let bits = u32::from(Ipv4Addr::new(127, 0, 2, 0)) + u32::try_from(at)?;
                let ip = Ipv4Addr::from_bits(bits).into();
                kubelet.run(&format!("pod-{at}"), &json!({"app": POOL}), &[ip]).await?;
            }
            anyhow::Ok(())
        });
    }
    creators.join_all().await.into_iter().for_each(Result::unwrap);
}

async fn delete_pods(cluster: &Cluster, namespace: &Namespace<'_>) {
    let all = ["delete", "pods", "--all", "--now", "--wait=false", "--namespace", &namespace.name];
    cluster.kubectl(&all, "").await.unwrap();
}
