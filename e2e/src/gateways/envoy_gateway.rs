//! Envoy Gateway: what both of its ways to run have in common.

pub(super) mod files;
pub(super) mod kubernetes;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::manifests::{Manifests, set};
use super::picker;
use super::subset;

/// The controller that a `GatewayClass` names.
const CONTROLLER: &str = "gateway.envoyproxy.io/gatewayclass-controller";
/// Its own API.
const API: &str = "gateway.envoyproxy.io/v1alpha1";
/// The Gateway API.
const GATEWAY_API: &str = "gateway.networking.k8s.io/v1";

/// A configuration of the program, of which the rest is `provider`.
///
/// Lua stands for whatever a user may have to tell a subset of the endpoints.
fn configuration(provider: &Value) -> Value {
    json!({
        "apiVersion": API,
        "kind": "EnvoyGateway",
        "gateway": {"controllerName": CONTROLLER},
        "extensionApis": {"enableBackend": true, "enableLua": true},
        "provider": provider,
    })
}

/// The policy that names the picker, with a filter before it that takes the subset from `header`.
pub(super) fn with_subset(objects: &Manifests, header: &str) -> Result<Vec<Value>> {
    let mut policy = objects.one("EnvoyExtensionPolicy")?.clone();
    let read = policy.pointer_mut("/spec/extProc/0/metadata/accessibleNamespaces");
    let read = read.and_then(Value::as_array_mut).context("the policy shows no metadata")?;
    read.push(json!(subset::NAMESPACE));
    let filter = json!([{"type": "Inline", "inline": subset::script(header)}]);
    set(&mut policy, "/spec/lua", filter)?;
    Ok(vec![policy])
}

/// The policy that names the picker, by a Backend whose certificate is not checked.
pub(super) fn with_tls(objects: &Manifests) -> Result<Vec<Value>> {
    let mut policy = objects.one("EnvoyExtensionPolicy")?.clone();
    let address = picker::address();
    let name = "picker-by-tls";
    let backend = json!({
        "apiVersion": API,
        "kind": "Backend",
        "metadata": {"name": name},
        "spec": {
            "endpoints": [{"ip": {"address": address.ip(), "port": address.port()}}],
            "tls": {"insecureSkipVerify": true},
        },
    });
    let references = policy.pointer_mut("/spec/extProc/0/backendRefs");
    *references.context("the policy refers to nothing")? =
        json!([{"group": "gateway.envoyproxy.io", "kind": "Backend", "name": name}]);
    Ok(vec![backend, policy])
}
