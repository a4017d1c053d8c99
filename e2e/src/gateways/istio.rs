//! Istio: istiod reads objects, and a stock Envoy takes its configuration from it.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::cluster::Kubernetes;
use super::gateway::{Gateway, Mode};
use super::manifests::{Manifests, name, set};
use super::parts::Parts;
use super::site::{Site, World};
use super::subset;
use crate::process::Process;

/// Where istiod believes to be.
const SYSTEM: &str = "istio-system";
/// Of istiod, for proxies.
const XDS: ([u8; 4], u16) = ([127, 0, 0, 1], 15010);
/// The name of the proxy, and of the Service in front of it.
const PROXY: &str = "proxy";
/// Where the proxy believes to be.
const ADDRESS: &str = "10.77.3.1";
/// Where the proxy listens; the Gateway's port is that of the Service.
const LISTENER: u16 = 10_081;
/// How istiod names the filter that asks the picker.
const EXT_PROC: &str = "envoy.filters.http.ext_proc";
/// What istiod has for a proxy of its own but a stock Envoy does not know, switched off, and what is of no use here.
const ENVIRONMENT: [(&str, &str); 12] = [
    ("ENABLE_GATEWAY_API_INFERENCE_EXTENSION", "true"),
    ("PILOT_ENABLE_ALPN_FILTER", "false"),
    ("PILOT_ENABLE_METADATA_EXCHANGE", "false"),
    ("ENABLE_CA_SERVER", "false"),
    ("PILOT_CERT_PROVIDER", "none"),
    ("ENABLE_LEADER_ELECTION", "false"),
    ("INJECT_ENABLED", "false"),
    ("INJECTION_WEBHOOK_CONFIG_NAME", ""),
    ("VALIDATION_WEBHOOK_CONFIG_NAME", ""),
    ("POD_NAMESPACE", SYSTEM),
    ("POD_NAME", "istiod"),
    ("CLUSTER_ID", CLUSTER),
];
/// What istiod and the proxy call the cluster.
const CLUSTER: &str = "Kubernetes";

/// Starts a cluster, the servers, the picker, istiod and Envoy.
///
/// # Errors
/// When one of them does not start, or no request is placed in time.
pub(super) async fn start(parts: &Parts, mode: Mode) -> Result<Site> {
    let fleet = parts.fleet().await?;
    let directory = tempfile::Builder::new().prefix("istio-").tempdir()?;
    let home = directory.path();
    let mut kubernetes = Kubernetes::start(parts, "istio").await?;
    let mut objects = parts.objects("istio", mode).await?;
    expose(&mut objects, &kubernetes.namespace)?;
    let picker = kubernetes.deploy(parts, &objects, &fleet, home).await?;
    let plane = plane(parts, &kubernetes, home).await?;
    let bootstrap = home.join("bootstrap.json");
    let gateway = name(objects.one("Gateway")?)?;
    fs::write(&bootstrap, proxy(&kubernetes.namespace, gateway).to_string())?;
    let proxy = parts.proxy(&bootstrap, &home.join("admin"), &[])?;
    let site = Site {
        gateway: Gateway::Istio,
        mode,
        proxy: SocketAddr::from(([127, 0, 0, 1], LISTENER)),
        admin: home.join("admin"),
        processes: vec![plane, proxy],
        world: World::Kubernetes(Box::new(kubernetes)),
        objects,
        fleet,
        picker,
        _directory: directory,
    };
    site.settled().await
}

/// Says that the Gateway's proxy is there already, behind a Service: istiod then makes none.
fn expose(objects: &mut Manifests, namespace: &str) -> Result<()> {
    let mut gateway = objects.one("Gateway")?.clone();
    let host = format!("{PROXY}.{namespace}.svc.cluster.local");
    set(&mut gateway, "/spec/addresses", json!([{"type": "Hostname", "value": host}]))?;
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": PROXY},
        "spec": {
            "selector": {"gateway.networking.k8s.io/gateway-name": name(&gateway)?},
            "ports": [{"name": "http", "port": objects.listener()?, "targetPort": LISTENER}],
        },
    });
    objects.put(service);
    objects.put(gateway);
    Ok(())
}

/// Starts istiod.
async fn plane(parts: &Parts, kubernetes: &Kubernetes, directory: &Path) -> Result<Process> {
    let system = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}});
    kubernetes.apply(&[system]).await?;
    kubernetes.write_kubeconfig(directory).await?;
    let xds = SocketAddr::from(XDS).to_string();
    let mesh = directory.join("mesh.yaml");
    let settings = json!({"enableAutoMtls": false, "defaultConfig": {"discoveryAddress": xds}});
    fs::write(&mesh, settings.to_string())?;
    let mut command = Command::new(parts.planes.join("pilot-discovery"));
    command
        .args(["discovery", "--namespace", SYSTEM, "--grpcAddr", &xds])
        .args(["--httpAddr", "127.0.0.1:15080", "--monitoringAddr", "127.0.0.1:15014"])
        .args(["--httpsAddr", "", "--secureGRPCAddr", "", "--ctrlz_port", "0"])
        .arg("--profile=false")
        .arg("--kubeconfig")
        .arg(directory.join("kubeconfig"))
        .arg("--meshConfig")
        .arg(mesh)
        .envs(ENVIRONMENT)
        .current_dir(directory);
    Process::spawn(command)
}

/// What the proxy of a Gateway starts with.
fn proxy(namespace: &str, gateway: &str) -> Value {
    let xds = SocketAddr::from(XDS);
    let socket = |address: SocketAddr| json!({"socket_address": {"address": address.ip(), "port_value": address.port()}});
    let http2 = json!({"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }});
    json!({
        "node": {
            "id": format!("router~{ADDRESS}~{PROXY}.{namespace}~{namespace}.svc.cluster.local"),
            "cluster": format!("{PROXY}.{namespace}"),
            "metadata": {
                "CLUSTER_ID": CLUSTER,
                "NAMESPACE": namespace,
                "NAME": PROXY,
                "ISTIO_VERSION": "1.31.0",
                "INSTANCE_IPS": ADDRESS,
                "SERVICE_ACCOUNT": "default",
                "LABELS": {"gateway.networking.k8s.io/gateway-name": gateway},
            },
        },
        "admin": {"address": socket(SocketAddr::from(([127, 0, 0, 1], 0)))},
        "dynamic_resources": {
            "lds_config": {"ads": {}},
            "cds_config": {"ads": {}},
            "ads_config": {
                "api_type": "DELTA_GRPC",
                "set_node_on_first_message_only": true,
                "transport_api_version": "V3",
                "grpc_services": [{"envoy_grpc": {"cluster_name": "istiod"}}],
            },
        },
        "static_resources": {"clusters": [{
            "name": "istiod",
            "type": "STATIC",
            "connect_timeout": "5s",
            "typed_extension_protocol_options": http2,
            "load_assignment": {
                "cluster_name": "istiod",
                "endpoints": [{"lb_endpoints": [{"endpoint": {"address": socket(xds)}}]}],
            },
        }]},
    })
}

/// Filters for the proxy: one takes the subset from `header` before the picker is asked, the other shows it to the
/// picker.
pub(super) fn with_subset(header: &str) -> Vec<Value> {
    let script = subset::script(header);
    let lua = json!({
        "name": "envoy.filters.http.lua",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
            "default_source_code": {"inline_string": script},
        },
    });
    let shown = json!({
        "name": EXT_PROC,
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
            "metadata_options": {"forwarding_namespaces": {"untyped": [subset::NAMESPACE]}},
        },
    });
    let manager = "envoy.filters.network.http_connection_manager";
    let place = json!({"context": "GATEWAY", "listener": {"filterChain": {
        "filter": {"name": manager, "subFilter": {"name": EXT_PROC}},
    }}});
    let patch = |operation: &str, value: Value| {
        json!({
            "applyTo": "HTTP_FILTER",
            "match": place,
            "patch": {"operation": operation, "value": value},
        })
    };
    let patches = [patch("INSERT_BEFORE", lua), patch("MERGE", shown)];
    vec![json!({
        "apiVersion": "networking.istio.io/v1alpha3",
        "kind": "EnvoyFilter",
        "metadata": {"name": "subset"},
        "spec": {"configPatches": patches},
    })]
}

/// The rule for the connections to the picker, with this instead of its TLS settings.
pub(super) fn with_tls(objects: &Manifests, tls: Value) -> Result<Vec<Value>> {
    let mut rule = objects.one("DestinationRule")?.clone();
    *rule.pointer_mut("/spec/trafficPolicy/tls").context("the rule says nothing of TLS")? = tls;
    Ok(vec![rule])
}
