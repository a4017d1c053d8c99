//! The pool that is scaled, as a user applies it, and a gateway before it.

use std::net::SocketAddr;
use std::time::Duration;

use ::kube::api::{Api, ListParams};
use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::client::Client;
use crate::envoy::{self, Destination, Envoy, EnvoyConfig, ExtProc};
use crate::kube::Namespace;
use crate::kube::assets::manifests;
use crate::scenarios::{PICKERS, World};
use crate::wait::{eventually, now};

/// Where KEDA asks, as the manifest says.
const SCALER: &str = "lodesman-keda.default.svc:9004";
/// The kustomization of the pool.
const OVERLAY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/keda/pool");
/// The Deployment that is scaled, and its `ScaledObject`.
const SERVERS: &str = "model-server";
/// The label of its pods.
const LABEL: &str = "app=model-server";
/// Longest time until there are the replicas that a load needs.
const CHANGED: Duration = Duration::from_mins(2);

/// Lodesman without a model server, of which KEDA knows.
pub(super) struct Pool {
    servers: Api<Deployment>,
    pods: Api<Pod>,
    envoy: Envoy,
}

/// How many model servers there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replicas {
    /// That the autoscaler wants.
    pub(super) wanted: i32,
    /// Pods that are there, those that terminate included.
    pub(super) pods: usize,
    /// That take requests.
    pub(super) ready: i32,
}

impl Pool {
    /// Applies the manifests, and waits until the `picker` serves and KEDA knows whom to ask.
    ///
    /// # Errors
    /// When something is refused, or not ready in time.
    pub(super) async fn start(namespace: &Namespace<'_>, picker: SocketAddr) -> Result<Self> {
        check_names(picker).await?;
        let pool = envoy::Pool::OriginalDst(Destination::Header);
        let config = EnvoyConfig::picked(ExtProc::full_duplex(picker), pool);
        let envoy = Envoy::start(&config).await?;
        let world = World { namespace, gateways: [envoy.address(); 2], subset: None };
        world.kubectl_with(&["apply", "--kustomize", OVERLAY], "").await?;
        world.rolled_out(PICKERS).await?;
        let object = scaled_object(&world).await?;
        world.kubectl_with(&["apply", "--filename=-"], &object).await?;
        let ready = format!("wait scaledobject/{SERVERS} --for=condition=Ready --timeout=60s");
        world.kubectl(&ready).await?;
        let servers = Api::namespaced(namespace.client.clone(), &namespace.name);
        let pods = Api::namespaced(namespace.client.clone(), &namespace.name);
        Ok(Self { servers, pods, envoy })
    }

    /// A client of the gateway.
    pub(super) fn client(&self) -> Client {
        self.envoy.client()
    }

    /// Waits until there are replicas as `enough` says; how many, and after what time.
    ///
    /// # Errors
    /// When there are not in two minutes.
    pub(super) async fn reach(
        &self,
        enough: impl Fn(Replicas) -> bool,
    ) -> Result<(Replicas, Duration)> {
        let began = now();
        let reached = eventually(CHANGED, async || {
            let replicas = self.replicas().await?;
            ensure!(enough(replicas), "{replicas:?}");
            Ok(replicas)
        });
        Ok((reached.await?, began.elapsed()))
    }

    async fn replicas(&self) -> Result<Replicas> {
        let Deployment { spec, status, .. } = self.servers.get(SERVERS).await?;
        let pods = self.pods.list(&ListParams::default().labels(LABEL)).await?;
        Ok(Replicas {
            wanted: spec.and_then(|spec| spec.replicas).unwrap_or_default(),
            pods: pods.items.len(),
            ready: status.and_then(|status| status.ready_replicas).unwrap_or_default(),
        })
    }
}

/// The `ScaledObject` that we ship, in more of a hurry; but it is polled seldom, so that only the stream can wake it soon.
async fn scaled_object(world: &World<'_>) -> Result<String> {
    let file = manifests("autoscaling/keda-external-push.yaml");
    let behavior = json!({"scaleDown": {"stabilizationWindowSeconds": 0}});
    let changes = json!([
        {"op": "test", "path": "/spec/triggers/0/metadata/scalerAddress", "value": SCALER},
        {"op": "add", "path": "/spec/triggers/0/metadata/window", "value": "10s"},
        {"op": "replace", "path": "/spec/maxReplicaCount", "value": 4},
        {"op": "replace", "path": "/spec/pollingInterval", "value": 30},
        {"op": "replace", "path": "/spec/cooldownPeriod", "value": 5},
        {"op": "add", "path": "/spec/advanced", "value": {"horizontalPodAutoscalerConfig": {"behavior": behavior}}},
    ]);
    let patch = ["patch", "--local", "--type=json", "--output=json", "--filename", &file];
    world.kubectl_with(&[&patch[..], &["--patch", &changes.to_string()]].concat(), "").await
}

/// That whom KEDA asks is the picker.
async fn check_names(picker: SocketAddr) -> Result<()> {
    let how = || format!("{SCALER} is not {}: run this by make e2e-keda", picker.ip());
    let mut known = tokio::net::lookup_host(SCALER).await.with_context(how)?;
    ensure!(known.any(|address| address.ip() == picker.ip()), how());
    Ok(())
}
