//! Replicas and their lease.

use std::time::Duration;

use anyhow::{Result, ensure};
use lodesman_e2e::kube::objects::LEASE;
use lodesman_e2e::{Client, Lodesman, eventually};

use super::site::{POOL, Site, cluster, until_ready, until_unready};
use super::stage::SOON;

/// Time for a lease to run out and be taken: 15 s, and 2 s between two attempts.
const TAKEN_OVER: Duration = Duration::from_secs(40);
/// Less than that: the lease was given up.
const HANDED_OVER: Duration = Duration::from_secs(10);

/// Two replicas of which the leader alone is ready; the leader first.
async fn two(site: &Site<'_>, args: &[&str]) -> [Lodesman; 2] {
    let of = |replica| {
        let args = [&["--pool-name", POOL, "--ha-enable-leader-election"], args].concat();
        async move { site.picker_of(&args, replica).await }
    };
    let first = of("first").await;
    until_ready(&first).await;
    let second = of("second").await;
    until_unready(&second, "leads").await;
    [first, second]
}

async fn ready(picker: &Lodesman) -> Result<()> {
    let answer = Client::http1(picker.metrics).get("/readyz").await?;
    ensure!(answer.status == 200, "{}", answer.text());
    Ok(())
}

/// Who holds the lease.
async fn holder(site: &Site<'_>) -> String {
    let name = format!("epp-{}-{POOL}.llm-d.ai", site.namespace.name);
    let lease = site.namespace.read(LEASE, &name).await.unwrap();
    lease.data["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn lease_of_a_killed_leader_is_taken_over() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::with_pods(cluster, 1).await;
    let [mut leader, follower] = two(&site, &[]).await;
    let before = holder(&site).await;
    leader.process.kill().unwrap();
    eventually(TAKEN_OVER, async || ready(&follower).await).await.unwrap();
    assert_ne!(holder(&site).await, before);
}

#[tokio::test]
async fn lease_of_a_leader_that_ends_passes_on_at_once() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::with_pods(cluster, 1).await;
    let [mut leader, follower] = two(&site, &["--drain-timeout", "1s"]).await;
    leader.process.terminate().unwrap();
    eventually(HANDED_OVER, async || ready(&follower).await).await.unwrap();
    assert!(leader.process.wait(SOON).await.unwrap().success());
}

#[tokio::test]
async fn leader_that_was_frozen_does_not_lead_when_it_wakes() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::with_pods(cluster, 1).await;
    let [leader, follower] = two(&site, &[]).await;
    leader.process.freeze().unwrap();
    eventually(TAKEN_OVER, async || ready(&follower).await).await.unwrap();
    leader.process.thaw().unwrap();
    until_unready(&leader, "leads").await;
    ready(&follower).await.unwrap();
}

// FR-114
#[tokio::test]
async fn without_election_every_replica_serves_and_one_holds_the_lease() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::with_pods(cluster, 1).await;
    let args = ["--pool-name", POOL];
    let [mut first, second] = [site.picker_of(&args, "1").await, site.picker_of(&args, "2").await];
    until_ready(&first).await;
    until_ready(&second).await;
    let held = eventually(SOON, async || {
        ensure!(!holder(&site).await.is_empty(), "nobody holds the lease");
        Ok(())
    });
    held.await.unwrap();
    // Losing it is no reason to end.
    first.process.kill().unwrap();
    ready(&second).await.unwrap();
}
