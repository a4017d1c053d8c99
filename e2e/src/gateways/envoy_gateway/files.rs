//! Envoy Gateway without Kubernetes: it reads files and starts Envoy itself.
//!
//! The objects are those of the overlay. Services mean nothing there, so each reference to one becomes a reference to a
//! `Backend` of that name, which lists addresses.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{API, CONTROLLER, GATEWAY_API, configuration};
use crate::gateways::gateway::{Gateway, Mode};
use crate::gateways::manifests::{Manifests, name, set};
use crate::gateways::parts::Parts;
use crate::gateways::picker::{self, Picker, Start};
use crate::gateways::site::{Site, World};
use crate::process::Process;

/// Kinds of the overlay that it reads.
const READ: [&str; 6] = [
    "Backend",
    "BackendTrafficPolicy",
    "ClientTrafficPolicy",
    "EnvoyExtensionPolicy",
    "Gateway",
    "HTTPRoute",
];
/// All objects are in it.
const NAMESPACE: &str = "default";
/// Name of the settings of the proxy.
const PROXY: &str = "proxy";
/// What Envoy's version is called, so that the binary that is there is taken.
const ENVOY: &str = "1.40.0";

/// Starts the servers, the picker, Envoy Gateway and through it Envoy.
///
/// # Errors
/// When one of them does not start, or no request is placed in time.
pub(in crate::gateways) async fn start(parts: &Parts, mode: Mode) -> Result<Site> {
    let fleet = parts.fleet().await?;
    let endpoints: Vec<String> = fleet.servers.iter().map(SocketAddr::to_string).collect();
    let args = ["--endpoints", &endpoints.join(","), "--failure-mode", mode.name()];
    let picker = Picker::start(Start {
        binary: parts.lodesman.clone(),
        args: args.map(str::to_owned).to_vec(),
        environment: Vec::new(),
    })
    .await?;
    let directory = tempfile::Builder::new().prefix("envoy-gateway-").tempdir()?;
    let home = directory.path();
    let objects = parts.objects("envoy-gateway", mode).await?;
    let files = Files::new(home, &objects, &fleet.servers)?;
    files.write(&objects)?;
    let site = Site {
        gateway: Gateway::EnvoyGatewayFiles,
        mode,
        proxy: SocketAddr::from(([127, 0, 0, 1], objects.listener()?)),
        admin: home.join("admin"),
        processes: vec![plane(parts, home, &files.directory)?],
        world: World::Files(files),
        objects,
        fleet,
        picker,
        _directory: directory,
    };
    site.settled().await
}

/// The file that the control plane follows.
#[derive(Debug)]
pub(in crate::gateways) struct Files {
    directory: PathBuf,
    /// What the operator of a gateway brings.
    operator: Vec<Value>,
}

impl Files {
    fn new(home: &Path, objects: &Manifests, servers: &[SocketAddr]) -> Result<Self> {
        let directory = home.join("objects");
        fs::create_dir(&directory)?;
        let class = objects.one("Gateway")?.pointer("/spec/gatewayClassName");
        let proxy = json!({"group": "gateway.envoyproxy.io", "kind": "EnvoyProxy", "name": PROXY,
            "namespace": NAMESPACE});
        let admin = home.join("admin");
        let operator = vec![
            json!({
                "apiVersion": GATEWAY_API,
                "kind": "GatewayClass",
                "metadata": {"name": class},
                "spec": {"controllerName": CONTROLLER, "parametersRef": proxy},
            }),
            object(
                "EnvoyProxy",
                PROXY,
                &json!({
                    "provider": {"type": "Host", "host": {"envoyVersion": ENVOY}},
                    "concurrency": 1,
                    "extraArgs": ["--disable-hot-restart", "--admin-address-path", admin],
                }),
            ),
            backend(referred(objects, "HTTPRoute")?, servers),
            backend(referred(objects, "EnvoyExtensionPolicy")?, &[picker::address()]),
        ];
        Ok(Self { directory, operator })
    }

    /// Writes what the control plane reads of `objects`; the file is whole at every moment.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(in crate::gateways) fn write(&self, objects: &Manifests) -> Result<()> {
        let known =
            objects.0.iter().filter(|object| READ.iter().any(|kind| object["kind"] == *kind));
        let mut written = self.operator.clone();
        for object in known {
            let mut object = object.clone();
            set(&mut object, "/metadata/namespace", json!(NAMESPACE))?;
            to_backends(&mut object);
            written.push(object);
        }
        let documents: Vec<String> = written.iter().map(Value::to_string).collect();
        let new = self.directory.with_extension("new");
        fs::write(&new, documents.join("\n---\n"))?;
        Ok(fs::rename(new, self.directory.join("all.yaml"))?)
    }
}

/// Starts Envoy Gateway.
fn plane(parts: &Parts, home: &Path, objects: &Path) -> Result<Process> {
    let binary = parts.planes.join("envoy-gateway");
    let certificates = home.join("config");
    let made = Command::new(&binary)
        .args(["certgen", "--local", "--config-home"])
        .arg(&certificates)
        .output()
        .with_context(|| format!("could not run {}", binary.display()))?;
    ensure!(made.status.success(), "certgen: {}", String::from_utf8_lossy(&made.stderr));
    let envoy = home.join("data/envoy-versions").join(ENVOY).join("bin");
    fs::create_dir_all(&envoy)?;
    symlink(&parts.envoy, envoy.join("envoy"))?;
    let host = json!({"configHome": certificates, "dataHome": home.join("data"),
        "stateHome": home.join("state"), "runtimeDir": home.join("run")});
    let provider = json!({"type": "Custom", "custom": {
        "resource": {"type": "File", "file": {"paths": [objects]}},
        "infrastructure": {"type": "Host", "host": host},
    }});
    let path = home.join("envoy-gateway.yaml");
    fs::write(&path, configuration(&provider).to_string())?;
    let mut command = Command::new(binary);
    command.args(["server", "--config-path"]).arg(path);
    Process::spawn(command)
}

/// An object of Envoy Gateway's own kinds.
fn object(kind: &str, name: &str, spec: &Value) -> Value {
    let metadata = json!({"name": name, "namespace": NAMESPACE});
    json!({"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec})
}

/// What stands for a Service.
fn backend(name: &str, addresses: &[SocketAddr]) -> Value {
    let endpoints: Vec<Value> = addresses
        .iter()
        .map(|address| json!({"ip": {"address": address.ip(), "port": address.port()}}))
        .collect();
    object("Backend", name, &json!({"endpoints": endpoints}))
}

/// The Service that the first object of this kind refers to.
fn referred<'a>(objects: &'a Manifests, kind: &str) -> Result<&'a str> {
    let object = objects.one(kind)?;
    let path = match kind {
        "HTTPRoute" => "/spec/rules/0/backendRefs/0/name",
        _ => "/spec/extProc/0/backendRefs/0/name",
    };
    let found = object.pointer(path).and_then(Value::as_str);
    found.with_context(|| format!("{kind} {} refers to nothing", name(object).unwrap_or("?")))
}

/// Turns each reference to a Service into one to a Backend.
fn to_backends(value: &mut Value) {
    if let Some(items) = value.as_array_mut() {
        items.iter_mut().for_each(to_backends);
    }
    for (key, entry) in value.as_object_mut().into_iter().flatten() {
        match entry.as_array_mut() {
            Some(references) if key == "backendRefs" => references.iter_mut().for_each(to_backend),
            _ => to_backends(entry),
        }
    }
}

fn to_backend(reference: &mut Value) {
    if reference.get("kind").is_none_or(|kind| kind == "Service") {
        *reference = json!({
            "group": "gateway.envoyproxy.io",
            "kind": "Backend",
            "name": reference["name"],
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_to_services_alone_become_references_to_backends() {
        let gateway = json!({"kind": "Gateway", "name": "g"});
        let pool = json!({"kind": "InferencePool", "name": "p"});
        let mut route = json!({"spec": {"parentRefs": [gateway], "rules": [
            {"backendRefs": [{"name": "a", "port": 8000}, {"kind": "Service", "name": "b"}, pool]},
        ]}});
        to_backends(&mut route);
        let backend =
            |name| json!({"group": "gateway.envoyproxy.io", "kind": "Backend", "name": name});
        let expected = json!([backend("a"), backend("b"), pool]);
        assert_eq!(route["spec"]["rules"][0]["backendRefs"], expected);
        assert_eq!(route["spec"]["parentRefs"], json!([gateway]));
    }
}
