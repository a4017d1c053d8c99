//! What kubelets do to pods, as far as an API server shows it.

use std::net::IpAddr;

use ::kube::Client;
use ::kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::Namespace;

/// The kubelets of a namespace. A pod is bound to a node from the start, so that it does not vanish
/// when it is deleted but terminates.
#[derive(Debug, Clone)]
pub struct Kubelet {
    pods: Api<Pod>,
}

impl Kubelet {
    /// The kubelets of the pods of a namespace.
    pub(super) fn new(namespace: &Namespace<'_>) -> Self {
        let client: Client = namespace.client.clone();
        Self { pods: Api::namespaced(client, &namespace.name) }
    }

    /// Creates a pod that runs at `ips`, the first of which is its own, and is ready.
    ///
    /// # Errors
    /// When the server refuses it.
    pub async fn run(&self, name: &str, labels: &Value, ips: &[IpAddr]) -> Result<()> {
        self.create(name, &json!({"labels": labels})).await?;
        self.start(name, ips, true).await
    }

    /// Creates a pod with `metadata` besides its name that has no address yet.
    ///
    /// # Errors
    /// When the server refuses it.
    pub async fn create(&self, name: &str, metadata: &Value) -> Result<()> {
        self.create_on("node", name, metadata).await
    }

    /// The same on a node of this name, which need not be there.
    ///
    /// # Errors
    /// When the server refuses it.
    pub async fn create_on(&self, node: &str, name: &str, metadata: &Value) -> Result<()> {
        let mut metadata = metadata.clone();
        metadata.as_object_mut().context("no object")?.insert("name".to_owned(), json!(name));
        let pod = serde_json::from_value(json!({
            "metadata": metadata,
            "spec": {
                "nodeName": node,
                "terminationGracePeriodSeconds": 30,
                "containers": [{"name": "server", "image": "server"}],
            },
        }))?;
        self.pods.create(&PostParams::default(), &pod).await?;
        Ok(())
    }

    /// Lets a created pod run at `ips`.
    ///
    /// # Errors
    /// When there is none.
    pub async fn start(&self, name: &str, ips: &[IpAddr], ready: bool) -> Result<()> {
        let all: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
        let status = json!({
            "phase": "Running",
            "podIP": ips.first(),
            "podIPs": all,
            "conditions": conditions(ready),
            "containerStatuses": containers(ready),
        });
        self.patch(name, &status).await
    }

    /// Makes a pod ready or not.
    ///
    /// # Errors
    /// When there is none.
    pub async fn set_ready(&self, name: &str, ready: bool) -> Result<()> {
        let (conditions, containers) = (conditions(ready), containers(ready));
        self.patch(name, &json!({"conditions": conditions, "containerStatuses": containers})).await
    }

    /// Says that a pod that runs is about to be disrupted, as before an eviction.
    ///
    /// # Errors
    /// When there is none.
    pub async fn set_disrupted(&self, name: &str) -> Result<()> {
        let mut all = conditions(true);
        let disrupted = json!({"type": "DisruptionTarget", "status": "True"});
        all.as_array_mut().context("no list")?.push(disrupted);
        self.patch(name, &json!({"conditions": all})).await
    }

    /// Asks for the end of a pod as `kubectl delete` does: it terminates until [`Kubelet::end`].
    ///
    /// # Errors
    /// When there is none.
    pub async fn terminate(&self, name: &str) -> Result<()> {
        self.pods.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Says that a pod has ended, whereupon it is gone.
    ///
    /// # Errors
    /// When there is none.
    pub async fn end(&self, name: &str) -> Result<()> {
        self.pods.delete(name, &DeleteParams::default().grace_period(0)).await?;
        Ok(())
    }

    async fn patch(&self, name: &str, status: &Value) -> Result<()> {
        let patch = Patch::Merge(json!({"status": status}));
        self.pods.patch_status(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }
}

fn containers(ready: bool) -> Value {
    json!([{"name": "server", "image": "server", "imageID": "", "ready": ready, "restartCount": 0}])
}

fn conditions(ready: bool) -> Value {
    let (status, since) = (if ready { "True" } else { "False" }, Timestamp::now().to_string());
    let of = |kind| json!({"type": kind, "status": status, "lastTransitionTime": since});
    json!([of("ContainersReady"), of("Ready")])
}
