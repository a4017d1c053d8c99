//! Envoy Gateway in Kubernetes: it reads objects and makes a Deployment of Envoys, of which one is played.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use serde_json::{Value, json};

use super::configuration;
use crate::gateways::cluster::Kubernetes;
use crate::gateways::gateway::{Gateway, Mode};
use crate::gateways::manifests::set;
use crate::gateways::parts::Parts;
use crate::gateways::site::{Site, World};
use crate::kube::Namespace;
use crate::process::Process;
use crate::wait::eventually;

/// Where the control plane keeps what it makes.
const SYSTEM: &str = "envoy-gateway-system";
/// Privileged ports of a Gateway are this much higher in Envoy.
const SHIFT: u16 = 10_000;
/// From the start of the control plane until it has made a Deployment.
const MADE: Duration = Duration::from_mins(1);
/// How its Envoys name the control plane.
const XDS: &str = "envoy-gateway.envoy-gateway-system.svc.cluster.local.";

/// Starts a cluster, the servers, the picker, Envoy Gateway and Envoy.
///
/// # Errors
/// When one of them does not start, or no request is placed in time.
pub(in crate::gateways) async fn start(parts: &Parts, mode: Mode) -> Result<Site> {
    let fleet = parts.fleet().await?;
    let directory = tempfile::Builder::new().prefix("envoy-gateway-").tempdir()?;
    let objects = parts.objects("envoy-gateway", mode).await?;
    let mut kubernetes = Kubernetes::start(parts, "envoy-gateway").await?;
    let picker = kubernetes.deploy(parts, &objects, &fleet, directory.path()).await?;
    let plane = plane(parts, &kubernetes, &directory.path().join("plane")).await?;
    let deployment = deployment(&kubernetes).await?;
    let admin = directory.path().join("admin");
    let proxy = proxy(parts, &kubernetes, &deployment, directory.path()).await?;
    let port = objects.listener()?;
    let port = if port < 1024 { port + SHIFT } else { port };
    let site = Site {
        gateway: Gateway::EnvoyGateway,
        mode,
        proxy: SocketAddr::from(([127, 0, 0, 1], port)),
        admin,
        processes: vec![plane, proxy],
        world: World::Kubernetes(Box::new(kubernetes)),
        objects,
        fleet,
        picker,
        _directory: directory,
    };
    site.settled().await
}

/// Starts Envoy Gateway in `root`, outside of which it sees no file: it reads its certificates at the root.
async fn plane(parts: &Parts, kubernetes: &Kubernetes, root: &Path) -> Result<Process> {
    let system = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}});
    kubernetes.apply(&[system]).await?;
    for folder in ["tmp", "var"] {
        fs::create_dir_all(root.join(folder))?;
    }
    let binary = parts.planes.join("envoy-gateway");
    let made = tokio::process::Command::new(&binary)
        .args(["certgen", "--disable-topology-injector"])
        .env("KUBECONFIG", kubernetes.cluster.kubeconfig())
        .output()
        .await?;
    ensure!(made.status.success(), "certgen: {}", String::from_utf8_lossy(&made.stderr));
    write_secret(kubernetes, "envoy-gateway", &root.join("certs")).await?;
    kubernetes.write_kubeconfig(root).await?;
    fs::copy(&binary, root.join("envoy-gateway"))?;
    // The proxy has the ports of its own that these two would have.
    let mut configuration = configuration(&json!({"type": "Kubernetes", "kubernetes": {
        "leaderElection": {"disable": true},
        "proxyTopologyInjector": {"disabled": true},
    }}));
    let admin = json!({"address": {"host": "127.0.0.1", "port": 19010}});
    set(&mut configuration, "/admin", admin)?;
    let metrics = json!({"metrics": {"prometheus": {"disable": true}}});
    set(&mut configuration, "/telemetry", metrics)?;
    fs::write(root.join("config.yaml"), configuration.to_string())?;
    let mut command = Command::new("chroot");
    command
        .arg(root)
        .args(["/envoy-gateway", "server", "--config-path", "/config.yaml"])
        .env("KUBECONFIG", "/kubeconfig");
    Process::spawn(command)
}

/// The Deployment that the control plane made.
async fn deployment(kubernetes: &Kubernetes) -> Result<Value> {
    eventually(MADE, async || {
        let system = Namespace { name: SYSTEM.to_owned(), ..kubernetes.place() };
        let made = system.list(("apps/v1", "Deployment")).await?;
        let made = made.into_iter().next().context("no Deployment of Envoys")?;
        Ok(serde_json::to_value(made)?)
    })
    .await
}

/// Starts Envoy as the Deployment says.
async fn proxy(
    parts: &Parts,
    kubernetes: &Kubernetes,
    deployment: &Value,
    directory: &Path,
) -> Result<Process> {
    let name = deployment.pointer("/metadata/name").and_then(Value::as_str).context("no name")?;
    let (sds, certificates) = (directory.join("sds"), directory.join("certs"));
    let folder = |path: &PathBuf| format!("{}/", path.display());
    write_secret(kubernetes, "envoy", &certificates).await?;
    let settings: Api<ConfigMap> = Api::namespaced(kubernetes.client.clone(), SYSTEM);
    fs::create_dir(&sds)?;
    for (name, text) in settings.get(name).await?.data.unwrap_or_default() {
        fs::write(sds.join(name), text.replace("/certs/", &folder(&certificates)))?;
    }
    let args = deployment.pointer("/spec/template/spec/containers/0/args");
    let args: Vec<&str> =
        args.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let after = |flag: &str| {
        let mut pairs = args.iter().zip(args.iter().skip(1));
        let found = pairs.find_map(|(name, value)| (*name == flag).then_some(*value));
        found.with_context(|| format!("Envoys are started without {flag}"))
    };
    let bootstrap = after("--config-yaml")?
        .replace(XDS, "127.0.0.1")
        .replace("/sds/", &folder(&sds))
        .replace("$(ENVOY_SERVICE_ZONE)", "");
    let path = directory.join("bootstrap.yaml");
    fs::write(&path, bootstrap)?;
    let node = ["--service-node", name, "--service-cluster", after("--service-cluster")?];
    parts.proxy(&path, &directory.join("admin"), &node)
}

/// Writes the entries of a Secret of the control plane as files.
async fn write_secret(kubernetes: &Kubernetes, name: &str, directory: &Path) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(kubernetes.client.clone(), SYSTEM);
    fs::create_dir_all(directory)?;
    for (name, bytes) in secrets.get(name).await?.data.unwrap_or_default() {
        fs::write(directory.join(name), bytes.0)?;
    }
    Ok(())
}
