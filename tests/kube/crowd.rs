//! A namespace with far more pods than the pool has.

use std::fs;

use lodesman_e2e::kube::Kubelet;
use serde_json::json;
use tokio::task::JoinSet;

use super::site::{Site, cluster};

/// Pods beside the pool.
const OTHERS: usize = 5_000;

/// Pods of the pool.
const MEMBERS: usize = 100;

/// The most that the picker may ever have taken of memory, in KiB.
const RESIDENT: u64 = 64 << 10;

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_pods_beside_a_pool_of_a_hundred_take_no_memory() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::with_pods(cluster, MEMBERS).await;
    let mut creating = JoinSet::new();
    for worker in 0..10 {
        let kubelet = site.kubelet.clone();
        creating.spawn(create(kubelet, (worker..OTHERS).step_by(10)));
    }
    creating.join_all().await;
    let picker = site.synced_picker("").await;
    let status = fs::read_to_string(format!("/proc/{}/status", picker.process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < RESIDENT, "{peak} KiB");
}

async fn create(kubelet: Kubelet, numbers: impl Iterator<Item = usize>) {
    let metadata = json!({"labels": {"app": "other"}});
    for number in numbers {
        kubelet.create(&format!("other-{number}"), &metadata).await.unwrap();
    }
}
