//! What our CRDs accept, refuse and fill in.

use kube::Error;
use lodesman_e2e::Namespace;
use lodesman_e2e::kube::objects::{
    LEGACY_OBJECTIVE, LEGACY_POOL, LEGACY_REWRITE, MODEL, OBJECTIVE, POOL, REWRITE, legacy_pool,
    model, object, objective, pool, rewrite,
};
use serde_json::{Value, json};

use super::site::cluster;

/// `object` with `value` at `path`; without a value, without what is there.
fn with(mut object: Value, path: &str, value: Option<Value>) -> Value {
    let (parent, key) = path.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap();
    match (parent, value) {
        (Value::Array(items), Some(value)) => items.push(value),
        (parent, Some(value)) => parent[key] = value,
        (parent, None) => drop(parent.as_object_mut().unwrap().remove(key)),
    }
    object
}

fn anew(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.remove("name");
    metadata.insert("generateName".to_owned(), json!("x-"));
    object
}

/// The object as the server keeps it.
async fn accepted(namespace: &Namespace<'_>, object: Value) -> Value {
    let shown = object.to_string();
    let made = namespace.create_object(&anew(object)).await.unwrap();
    serde_json::to_value(made.unwrap_or_else(|error| panic!("{shown}: {error}"))).unwrap()
}

/// Why the server refuses an object as invalid.
async fn refused(namespace: &Namespace<'_>, object: Value) -> String {
    let shown = object.to_string();
    match namespace.create_object(&anew(object)).await.unwrap() {
        Err(Error::Api(status)) if status.code == 422 => status.message,
        other => panic!("{shown}: {other:?}"),
    }
}

#[tokio::test]
async fn pool_gets_its_defaults() {
    let Some(cluster) = cluster().await else { return };
    let namespace = cluster.namespace().await.unwrap();
    let made = accepted(&namespace, pool("p", &[8000])).await;
    assert_eq!(made["spec"]["appProtocol"], "http");
    let picker = json!({
        "group": "", "kind": "Service", "name": "p", "port": {"number": 9002}, "failureMode": "FailClose",
    });
    assert_eq!(made["spec"]["endpointPickerRef"], picker);
    let made = accepted(&namespace, legacy_pool("p", 8000)).await;
    let picker = json!({"group": "", "kind": "Service", "name": "p", "failureMode": "FailClose"});
    assert_eq!(made["spec"]["extensionRef"], picker);
}

#[tokio::test]
async fn pools_that_make_sense_are_accepted() {
    let Some(cluster) = cluster().await else { return };
    let namespace = cluster.namespace().await.unwrap();
    let good = pool("p", &[8000]);
    let picker = |picker: Value| with(good.clone(), "/spec/endpointPickerRef", Some(picker));
    for object in [
        with(good.clone(), "/spec/appProtocol", Some(json!("kubernetes.io/h2c"))),
        with(good.clone(), "/spec/endpointPickerRef", None),
        picker(json!({"name": "p", "group": "x.example", "kind": "Picker"})),
        picker(json!({"name": "p", "port": {"number": 1}, "failureMode": "FailOpen"})),
        pool("p", &[8000, 8001, 8002, 8003, 8004, 8005, 8006, 8007]),
        with(good.clone(), "/spec/selector/matchLabels/not a key", Some(json!("x"))),
        with(legacy_pool("p", 8000), "/spec/extensionRef/portNumber", Some(json!(9002))),
    ] {
        accepted(&namespace, object).await;
    }
    let made = accepted(&namespace, with(good, "/spec/ours", Some(json!(1)))).await;
    assert_eq!(made["spec"].get("ours"), None, "what the schema does not know is left out");
}

#[tokio::test]
async fn pools_that_make_no_sense_are_refused() {
    let Some(cluster) = cluster().await else { return };
    let namespace = cluster.namespace().await.unwrap();
    let good = pool("p", &[8000]);
    let picker = |picker: Value| with(good.clone(), "/spec/endpointPickerRef", Some(picker));
    let port = "port is required when kind is 'Service'";
    let mut labels = serde_json::Map::new();
    labels.extend((0..65).map(|n| (format!("k{n}"), json!("v"))));
    for (object, reason) in [
        (picker(json!({"name": "p"})), port),
        (picker(json!({"name": "p", "kind": "Service"})), port),
        (picker(json!({"name": "", "port": {"number": 1}})), "name"),
        (picker(json!({"name": "p", "port": {"number": 0}})), "number"),
        (
            picker(json!({"name": "p", "port": {"number": 1}, "failureMode": "FailClosed"})),
            "failureMode",
        ),
        (pool("p", &[8000, 8000]), "port number must be unique"),
        (pool("p", &[1, 2, 3, 4, 5, 6, 7, 8, 9]), "targetPorts"),
        (pool("p", &[]), "targetPorts"),
        (pool("p", &[0]), "number"),
        (with(good.clone(), "/spec/targetPorts", None), "targetPorts"),
        (with(good.clone(), "/spec/selector", None), "selector"),
        (with(good.clone(), "/spec/selector/matchLabels", Some(json!({}))), "matchLabels"),
        (with(good.clone(), "/spec/selector/matchLabels", Some(labels.into())), "matchLabels"),
        (
            with(good.clone(), "/spec/selector/matchLabels/a", Some(json!("no value"))),
            "matchLabels",
        ),
        (with(good.clone(), "/spec/appProtocol", Some(json!("https"))), "appProtocol"),
        (
            with(legacy_pool("p", 8000), "/spec/targetPortNumber", Some(json!(65536))),
            "targetPortNumber",
        ),
        (with(legacy_pool("p", 8000), "/spec/extensionRef/name", None), "name"),
    ] {
        let message = refused(&namespace, object).await;
        assert!(message.contains(reason), "{reason}: {message}");
    }
}

#[tokio::test]
async fn objects_name_a_pool_and_get_its_kind() {
    let Some(cluster) = cluster().await else { return };
    let namespace = cluster.namespace().await.unwrap();
    let stable = "inference.networking.k8s.io";
    let legacy = "inference.networking.x-k8s.io";
    for (object, group) in [
        (objective(OBJECTIVE, "o", "p", -1), stable),
        (objective(LEGACY_OBJECTIVE, "o", "p", 7), stable),
        (rewrite(REWRITE, "r", "p", "a", &[("b", 1)]), stable),
        (rewrite(LEGACY_REWRITE, "r", "p", "a", &[("b", 1_000_000)]), stable),
        (model("m", "p", "a", "Sheddable"), legacy),
    ] {
        let made = accepted(&namespace, object).await;
        let expected = json!({"group": group, "kind": "InferencePool", "name": "p"});
        assert_eq!(made["spec"]["poolRef"], expected, "{made}");
    }
}

#[tokio::test]
async fn objects_that_make_no_sense_are_refused() {
    let Some(cluster) = cluster().await else { return };
    let namespace = cluster.namespace().await.unwrap();
    let no_pool = |kind| object(kind, "o", &json!({}));
    let weights = json!([{"name": "a", "weight": 1}, {"name": "b"}]);
    let heavy = with(model("m", "p", "a", "Critical"), "/spec/targetModels", Some(weights));
    let matching = json!([{"model": {"type": "Prefix", "value": "a"}}]);
    let rewriting = || rewrite(REWRITE, "r", "p", "a", &[("b", 1)]);
    for (object, reason) in [
        (no_pool(OBJECTIVE), "poolRef"),
        (no_pool(LEGACY_OBJECTIVE), "poolRef"),
        (no_pool(REWRITE), "poolRef"),
        (no_pool(LEGACY_REWRITE), "poolRef"),
        (no_pool(MODEL), "poolRef"),
        (
            with(objective(OBJECTIVE, "o", "p", 0), "/spec/priority", Some(json!(1_i64 << 31))),
            "priority",
        ),
        (rewrite(REWRITE, "r", "p", "a", &[]), "targets"),
        (rewrite(REWRITE, "r", "p", "a", &[("b", 0)]), "weight"),
        (rewrite(REWRITE, "r", "p", "a", &[("b", 1_000_001)]), "weight"),
        (rewrite(REWRITE, "r", "p", "", &[("b", 1)]), "value"),
        (with(rewriting(), "/spec/rules/0/matches", Some(matching)), "type"),
        (heavy, "Weights should be set for all models, or none of the models"),
        (model("m", "p", "a", "Important"), "criticality"),
    ] {
        let message = refused(&namespace, object).await;
        assert!(message.contains(reason), "{reason}: {message}");
    }
}

#[tokio::test]
async fn model_keeps_its_name() {
    let Some(cluster) = cluster().await else { return };
    let namespace = cluster.namespace().await.unwrap();
    namespace.apply(&model("m", "p", "a", "Critical")).await.unwrap();
    let error = namespace.apply(&model("m", "p", "b", "Critical")).await.unwrap_err();
    assert!(format!("{error:#}").contains("modelName is immutable"), "{error:#}");
}

#[tokio::test]
async fn status_is_written_apart_from_the_spec() {
    let Some(cluster) = cluster().await else { return };
    let namespace = cluster.namespace().await.unwrap();
    for (kind, object) in [
        (POOL, pool("p", &[8000])),
        (LEGACY_POOL, legacy_pool("p", 8000)),
        (OBJECTIVE, objective(OBJECTIVE, "p", "p", 1)),
        (REWRITE, rewrite(REWRITE, "p", "p", "a", &[("b", 1)])),
        (MODEL, model("p", "p", "a", "Critical")),
    ] {
        namespace.apply(&object).await.unwrap();
        let before = namespace.read(kind, "p").await.unwrap();
        let status = json!({"status": {"conditions": []}});
        namespace.merge(kind, "p", &status).await.unwrap();
        let after = namespace.read(kind, "p").await.unwrap();
        assert_eq!(before.data["status"], after.data["status"], "{kind:?}");
        assert_eq!(before.metadata.generation, after.metadata.generation, "{kind:?}");
    }
}
