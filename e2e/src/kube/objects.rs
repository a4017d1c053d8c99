//! The objects of an inference gateway, as a user would write them.

use serde_json::{Value, json};

use super::namespace::Kind;

/// InferencePool v1.
pub const POOL: Kind<'_> = ("inference.networking.k8s.io/v1", "InferencePool");
/// InferencePool v1alpha2.
pub const LEGACY_POOL: Kind<'_> = ("inference.networking.x-k8s.io/v1alpha2", "InferencePool");
/// InferenceObjective of today's group.
pub const OBJECTIVE: Kind<'_> = ("llm-d.ai/v1alpha2", "InferenceObjective");
/// InferenceObjective of the group before.
pub const LEGACY_OBJECTIVE: Kind<'_> =
    ("inference.networking.x-k8s.io/v1alpha2", "InferenceObjective");
/// InferenceModelRewrite of today's group.
pub const REWRITE: Kind<'_> = ("llm-d.ai/v1alpha2", "InferenceModelRewrite");
/// InferenceModelRewrite of the group before.
pub const LEGACY_REWRITE: Kind<'_> =
    ("inference.networking.x-k8s.io/v1alpha2", "InferenceModelRewrite");
/// InferenceModel.
pub const MODEL: Kind<'_> = ("inference.networking.x-k8s.io/v1alpha2", "InferenceModel");
/// Pod.
pub const POD: Kind<'_> = ("v1", "Pod");
/// Lease.
pub const LEASE: Kind<'_> = ("coordination.k8s.io/v1", "Lease");
/// Role.
pub const ROLE: Kind<'_> = ("rbac.authorization.k8s.io/v1", "Role");
/// Event.
pub const EVENT: Kind<'_> = ("events.k8s.io/v1", "Event");

/// An object of `kind`.
pub fn object((api_version, kind): Kind<'_>, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// A pool of the pods with the label `app: NAME` on `ports`, with a picker Service of that name.
pub fn pool(name: &str, ports: &[u16]) -> Value {
    let ports: Vec<Value> = ports.iter().map(|port| json!({"number": port})).collect();
    let spec = json!({
        "selector": {"matchLabels": {"app": name}},
        "targetPorts": ports,
        "endpointPickerRef": {"name": name, "port": {"number": 9002}},
    });
    object(POOL, name, &spec)
}

/// The same of the version before, which knows one port.
pub fn legacy_pool(name: &str, port: u16) -> Value {
    let spec = json!({
        "selector": {"app": name},
        "targetPortNumber": port,
        "extensionRef": {"name": name},
    });
    object(LEGACY_POOL, name, &spec)
}

/// An objective of a priority for a pool.
pub fn objective(kind: Kind<'_>, name: &str, pool: &str, priority: i32) -> Value {
    object(kind, name, &json!({"priority": priority, "poolRef": {"name": pool}}))
}

/// A rewrite of the model `from` to one or more models with weights.
pub fn rewrite(kind: Kind<'_>, name: &str, pool: &str, from: &str, to: &[(&str, u32)]) -> Value {
    let targets = to.iter().map(|(model, weight)| json!({"modelRewrite": model, "weight": weight}));
    let spec = json!({
        "poolRef": {"name": pool},
        "rules": [{
            "matches": [{"model": {"type": "Exact", "value": from}}],
            "targets": targets.collect::<Vec<_>>(),
        }],
    });
    object(kind, name, &spec)
}

/// An InferenceModel with a criticality.
pub fn model(name: &str, pool: &str, model: &str, criticality: &str) -> Value {
    let spec = json!({"modelName": model, "criticality": criticality, "poolRef": {"name": pool}});
    object(MODEL, name, &spec)
}
