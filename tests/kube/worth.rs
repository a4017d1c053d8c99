//! Pods are told what they are worth.

use anyhow::{Context as _, ensure};
use lodesman_e2e::client::Answer;
use lodesman_e2e::{Client, eventually};
use serde_json::json;

use super::site::{Site, cluster, until_logged};
use super::stage::{CHAT, SOON, is_whole};

const POD: (&str, &str) = ("v1", "Pod");
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// What a pod is told; none when it is told nothing.
async fn cost(site: &Site<'_>, pod: &str) -> anyhow::Result<i32> {
    let pod = site.namespace.read(POD, pod).await?;
    let annotations = pod.metadata.annotations.context("no annotation")?;
    Ok(annotations.get(COST).context("no cost")?.parse()?)
}

/// A request whose prompt fills many blocks of a cache.
async fn ask(client: Client) -> Answer {
    let content = "Where is the nearest harbor? ".repeat(400);
    let messages = [json!({"role": "user", "content": content})];
    let ask = json!({"model": "sim", "max_tokens": 1, "messages": messages});
    client.post(CHAT, &ask).await.unwrap()
}

#[tokio::test]
async fn pod_with_the_warmer_cache_costs_more_and_one_that_drains_nothing() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::with_pods(cluster, 2).await;
    let args = ["--pool-name", super::site::POOL, "--pod-deletion-cost-interval", "1s"];
    let mut picker = site.picker_of(&args, "one").await;
    until_logged(&mut picker, &["deletion cost not written", "forbidden"]).await;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "worth"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}],
    });
    site.namespace.apply(&role).await.unwrap();
    site.bind("worth").await;
    let envoy = site.envoy(&picker).await;
    let answer = ask(envoy.client()).await;
    assert!(is_whole(&answer), "{}", answer.text());
    let server = answer.header("x-sim-server").unwrap();
    let warm = usize::from(site.fleet.servers[1].to_string() == server);
    let (warm, cold) = (format!("pod-{warm}"), format!("pod-{}", 1 - warm));
    let told = eventually(SOON, async || {
        let (warm, cold) = (cost(&site, &warm).await?, cost(&site, &cold).await?);
        ensure!(warm > cold && cold > 0, "{warm}, {cold}");
        Ok(())
    });
    told.await.unwrap();
    let drain = json!({"metadata": {"annotations": {"lodesman.dev/drain": "true"}}});
    site.namespace.merge(POD, &warm, &drain).await.unwrap();
    let told = eventually(SOON, async || {
        let warm = cost(&site, &warm).await?;
        ensure!(warm == 0, "{warm}");
        Ok(())
    });
    told.await.unwrap();
}
