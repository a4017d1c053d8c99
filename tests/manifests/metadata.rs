//! The namespace of metadata in which the picker tells what requests took is one that the gateway takes.

use lodesman_e2e::kube::Cluster;
use serde_json::{Value, json};

use super::chart::{PRESETS, template, values};
use super::objects::{Objects, arguments};
use super::render::kustomize;

const FLAG: &str = "--response-metadata-namespace=";

/// Where the picker tells it.
fn told(objects: &Objects) -> String {
    let (_, picker) = objects.pickers().next().unwrap();
    let args = arguments(picker);
    let given = args.iter().rev().find_map(|arg| arg.strip_prefix(FLAG));
    given.unwrap_or("lodesman").to_owned()
}

/// The namespaces that the gateway takes; Istio's is no part of its manifests.
fn taken(objects: &Objects) -> Vec<Value> {
    if let Some(policy) = objects.of("EnvoyExtensionPolicy").next() {
        return policy.list("/spec/extProc/0/metadata/writableNamespaces").to_vec();
    }
    let file = objects.of("ConfigMap").find_map(|map| map.0["data"]["envoy.yaml"].as_str());
    let Some(file) = file else { return vec![json!("envoy.lb")] };
    let envoy: Value = serde_saphyr::from_str(file).unwrap();
    let manager = &envoy["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0];
    let filter = &manager["typed_config"]["http_filters"][0]["typed_config"];
    let taken = &filter["metadata_options"]["receiving_namespaces"]["untyped"];
    taken.as_array().unwrap().clone()
}

fn is_taken(objects: &Objects, what: &str) {
    let (told, taken) = (told(objects), taken(objects));
    assert!(taken.contains(&json!(told)), "{what}: {told} of {taken:?}");
    assert!(taken.contains(&json!("envoy.lb")), "{what}: the choice of {taken:?}");
}

#[tokio::test]
async fn what_the_picker_tells_is_taken_by_each_gateway() {
    let Some(cluster) = Cluster::shared().await else { return };
    for preset in PRESETS {
        is_taken(&kustomize(cluster, &format!("overlays/{preset}")).await, preset);
        let Some(chart) = template(&["-f", &values(preset)]).await else { continue };
        is_taken(&chart, preset);
    }
}

#[tokio::test]
async fn another_namespace_of_the_chart_is_that_of_both() {
    let preset = values("envoy-gateway");
    let args = ["-f", &preset, "--set", "gateway.metadataNamespace=ai"];
    let Some(chart) = template(&args).await else { return };
    assert_eq!(told(&chart), "ai");
    assert_eq!(taken(&chart), [json!("envoy.lb"), json!("ai")]);
}
