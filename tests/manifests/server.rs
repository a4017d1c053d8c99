//! A real API server's opinion.

use lodesman_e2e::kube::Cluster;
use serde_json::{Value, json};

use super::chart::{PRESETS, template, values};
use super::objects::Objects;
use super::render::{INSTALLS, OLDER, customized, documented, kustomize};

/// Groups that the server of the tests knows.
const KNOWN: [&str; 6] = [
    "",
    "apps",
    "policy",
    "rbac.authorization.k8s.io",
    "inference.networking.k8s.io",
    "inference.networking.x-k8s.io",
];

async fn refusal(cluster: &Cluster, namespace: &str, objects: &[Value]) -> Option<String> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let how = ["apply", "--server-side", "--dry-run=server", "--namespace", namespace, "-f", "-"];
    cluster.kubectl(&how, &list).await.err().map(|error| format!("{error:#}"))
}

fn known(objects: &Objects) -> Vec<Value> {
    let known = objects.0.iter().filter(|object| KNOWN.contains(&object.group()));
    known.map(|object| object.0.clone()).collect()
}

async fn with_crds(cluster: &Cluster) {
    let crds = kustomize(cluster, "crds").await;
    let list: Vec<_> = crds.0.into_iter().map(|object| object.0).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": list}).to_string();
    cluster.kubectl(&["apply", "--server-side", "-f", "-"], &list).await.unwrap();
    let wait = ["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"];
    cluster.kubectl(&wait, "").await.unwrap();
}

#[tokio::test]
async fn the_server_takes_all_manifests_and_no_field_is_unknown() {
    let Some(cluster) = Cluster::shared().await else { return };
    with_crds(cluster).await;
    let namespace = cluster.namespace().await.unwrap().name;
    for folder in INSTALLS.into_iter().chain(["models/sim", "models/vllm"]) {
        let objects = known(&kustomize(cluster, folder).await);
        assert_eq!(refusal(cluster, &namespace, &objects).await, None, "{folder}");
    }
    let older = known(&customized(cluster, OLDER).await);
    assert_eq!(refusal(cluster, &namespace, &older).await, None);
    for preset in PRESETS {
        let Some(objects) = template(&["-f", &values(preset)]).await else { return };
        assert_eq!(refusal(cluster, &namespace, &known(&objects)).await, None, "{preset}");
    }
    let unknown = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "bad"}, "field": 1});
    assert!(refusal(cluster, &namespace, &[unknown]).await.is_some());
}

#[tokio::test]
async fn examples_in_the_documents_are_objects_that_the_server_takes() {
    let Some(cluster) = Cluster::shared().await else { return };
    with_crds(cluster).await;
    let namespace = cluster.namespace().await.unwrap().name;
    let examples = documented("docs/migration.md").into_iter();
    let objects = examples.flat_map(|yaml| Objects::parse(&yaml).0);
    let objects = objects.filter(|object| object.kind().starts_with("Inference"));
    let objects: Vec<_> = objects.map(|object| object.0).collect();
    assert_eq!(objects.len(), 3, "{objects:?}");
    assert_eq!(refusal(cluster, &namespace, &objects).await, None);
}

#[tokio::test]
async fn the_documented_swap_fits_a_deployment_of_the_references() {
    let Some(cluster) = Cluster::shared().await else { return };
    let swap = documented("docs/migration.md").into_iter().find(|yaml| yaml.contains("CONTAINER"));
    let base = kustomize(cluster, "base").await;
    let mut old = base.of("Deployment").next().unwrap().0.clone();
    old["spec"]["strategy"] = json!({"type": "Recreate"});
    let container = &mut old["spec"]["template"]["spec"]["containers"][0];
    container["name"] = json!("CONTAINER");
    container["lifecycle"] = json!({"preStop": {"exec": {"command": ["sh", "-c", "sleep 9"]}}});
    let how = ["patch", "--local", "-o", "json", "-f", "-", "-p", &swap.unwrap()];
    let new = cluster.kubectl(&how, &old.to_string()).await.unwrap();
    let new = &Objects::parse(&new).0[0];
    assert_eq!(new.text("/spec/strategy/type"), "RollingUpdate");
    let container = new.container("CONTAINER").unwrap();
    assert_eq!(container["image"], "registry.example/lodesman:0.1.0");
    assert_eq!(container["lifecycle"], Value::Null);
    assert_eq!(container["args"], old["spec"]["template"]["spec"]["containers"][0]["args"]);
}

#[tokio::test]
async fn our_pods_are_allowed_where_pods_are_restricted() {
    let Some(cluster) = Cluster::shared().await else { return };
    let namespace = cluster.namespace().await.unwrap().name;
    let label = "pod-security.kubernetes.io/enforce=restricted";
    cluster.kubectl(&["label", "namespace", &namespace, label], "").await.unwrap();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "lodesman", "namespace": namespace}});
    cluster.kubectl(&["apply", "-f", "-"], &account.to_string()).await.unwrap();
    for folder in ["base", "overlays/standalone", "overlays/standalone-service", "models/sim"] {
        let objects = kustomize(cluster, folder).await;
        for deployment in objects.of("Deployment") {
            let mut pod = deployment.0["spec"]["template"].clone();
            pod["apiVersion"] = json!("v1");
            pod["kind"] = json!("Pod");
            pod["metadata"]["name"] = json!(deployment.name());
            assert_eq!(refusal(cluster, &namespace, &[pod]).await, None, "{folder}");
        }
    }
    let plain = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"},
        "spec": {"containers": [{"name": "x", "image": "x"}]}});
    assert!(refusal(cluster, &namespace, &[plain]).await.is_some());
}
