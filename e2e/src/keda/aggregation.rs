//! How the API server comes to ask KEDA's adapter for external metrics.

use std::net::Ipv4Addr;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The API server as the adapter knows it.
pub(super) const FRONT_PROXY: &str = "front-proxy";
/// Where KEDA is.
pub(super) const NAMESPACE: &str = "keda";
/// The host of the adapter's Service.
pub(super) const HOST: &str = "keda-metrics-apiserver.keda.svc";
/// Its address: an `EndpointSlice` may not have one of loopback.
pub(super) const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 4, 1);
/// Its port.
pub(super) const PORT: u16 = 6443;
/// The name of the API.
pub(super) const API: &str = "v1beta1.external.metrics.k8s.io";

/// Flags of the API server, which has the certificate in a folder.
pub(super) fn flags(certificates: &Path) -> [String; 8] {
    let file = |flag: &str, name: &str| format!("--{flag}={}", certificates.join(name).display());
    [
        "--enable-aggregator-routing".to_owned(),
        file("proxy-client-cert-file", "tls.crt"),
        file("proxy-client-key-file", "tls.key"),
        file("requestheader-client-ca-file", "ca.crt"),
        format!("--requestheader-allowed-names={FRONT_PROXY}"),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
    ]
}

/// What makes the adapter, whose certificate is of this authority, the server of the API.
pub(super) fn objects(authority: &str) -> Value {
    let service = HOST.split('.').next();
    let metadata = json!({
        "name": service,
        "namespace": NAMESPACE,
        "labels": {"kubernetes.io/service-name": service},
    });
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"ports": [{"name": "https", "port": 443, "targetPort": PORT}]},
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": PORT}],
        "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": true}}],
    });
    let api = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": API},
        "spec": {
            "group": "external.metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"name": metadata.get("name"), "namespace": NAMESPACE},
            "caBundle": STANDARD.encode(authority),
        },
    });
    json!({"apiVersion": "v1", "kind": "List", "items": [namespace, service, slice, api]})
}
