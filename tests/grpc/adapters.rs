//! Adapters, by what the servers' pages tell of them.

use std::net::SocketAddr;

use super::rig::{Load, Rig};
use super::stream::COMPLETIONS;

/// The adapter that is asked for; clients know it as `sql-lora`.
const T: &str = "sql-lora-1fdg2";

/// Weights by which adapters count as they do in the reference's tests.
const WEIGHTED: &str = "\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins: [{type: queue-scorer}, {type: kv-cache-utilization-scorer}, {type: lora-affinity-scorer}]
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: lora-affinity-scorer, weight: 3}
";

/// A request for the adapter to servers with these loads: where it goes. The server is asked for the adapter by its own
/// name, and for nothing else than was asked.
async fn placed(loads: &[Load]) -> (Rig, SocketAddr) {
    placed_by(&[], loads).await
}

/// The same with flags.
async fn placed_by(flags: &[&str], loads: &[Load]) -> (Rig, SocketAddr) {
    let rig = Rig::of(loads, flags).await;
    let mut stream = rig.stream().await;
    let body = r#"{"max_tokens":100,"model":"sql-lora","prompt":"test","temperature":0}"#;
    stream.post(COMPLETIONS, &[("x-llm-d-model-name-rewrite", T)]).last(body);
    let address = stream.placed().await;
    let want = body.replace("sql-lora", T);
    assert_eq!(String::from_utf8_lossy(&stream.relayed(want.len()).await), want);
    rig.counts("llm_d_epp_request_total{", &[&format!("target_model_name=\"{T}\"")], 1).await;
    (rig, address)
}

#[tokio::test]
async fn the_adapter_is_resident_on_the_least_loaded_endpoint() {
    let (rig, address) = placed(&[
        Load::new(0, 0.2).adapting(&["foo", "bar"]),
        Load::new(0, 0.1).adapting(&["foo", T]),
        Load::new(10, 0.2).adapting(&["foo", "bar"]),
    ])
    .await;
    assert_eq!(address, rig.pods[1]);
}

#[tokio::test]
async fn a_resident_adapter_counts_more_than_a_free_cache() {
    let (rig, address) = placed(&[
        Load::new(10, 0.2).adapting(&["foo", "bar"]),
        Load::new(10, 0.4).adapting(&["foo", T]),
        Load::new(10, 0.3).adapting(&["foo"]),
    ])
    .await;
    assert_eq!(address, rig.pods[1]);
}

#[tokio::test]
async fn a_resident_adapter_on_a_queue_is_worth_more_than_an_empty_queue_on_a_full_cache() {
    let (rig, address) = placed_by(
        &["--config-text", WEIGHTED],
        &[
            Load::new(6, 0.2).adapting(&["foo", "bar", T]),
            Load::new(0, 0.85).adapting(&["foo"]),
            Load::new(10, 0.9).adapting(&["foo"]),
        ],
    )
    .await;
    assert_eq!(address, rig.pods[0]);
}
