//! Pickers are replaced, missing and upgraded.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::world::SEEN;
use super::{MODEL, PICKERS, World};
use crate::chat::{self, Clients};
use crate::client::Client;
use crate::wait::eventually;

/// A rollout of the pickers costs no request.
pub(super) async fn roll(world: &World<'_>) -> Result<()> {
    let mut clients = Clients::start(world.gateway(), MODEL, 4);
    clients.next(20).await?;
    world.kubectl(&format!("rollout restart {PICKERS}")).await?;
    world.rolled_out(PICKERS).await?;
    clients.next(40).await?;
    clients.finish().await
}

/// Without a picker, a gateway refuses or goes on alone, as the pool says.
pub(super) async fn failure_modes(world: &World<'_>) -> Result<()> {
    world.kubectl(&format!("scale {PICKERS} --replicas=0")).await?;
    let closed = async |client: Client| {
        let answer = client.post(chat::PATH, &chat::request(MODEL, 0, 1)).await?;
        ensure!(answer.status.is_server_error(), "{} {}", answer.status, answer.text());
        Ok(())
    };
    eventually(SEEN, async || closed(world.gateway()).await).await?;
    world.set_failure_mode("FailOpen").await?;
    let open = eventually(SEEN, async || {
        chat::ask(world.open_gateway(), MODEL, 0).await?;
        let models = world.open_gateway().get("/v1/models").await?;
        ensure!(models.status == 200, "{}", models.status);
        Ok(())
    });
    open.await?;
    world.set_failure_mode("FailClose").await?;
    eventually(SEEN, async || closed(world.gateway()).await).await?;
    world.kubectl(&format!("scale {PICKERS} --replicas=2")).await?;
    world.at_peace().await
}

/// A Deployment of the reference, whose image becomes ours: its arguments, configuration and probes stay.
pub(super) async fn upgrade(world: &World<'_>) -> Result<()> {
    let ours: Value =
        serde_json::from_str(&world.kubectl(&format!("get {PICKERS} --output=json")).await?)?;
    let image = ours.pointer("/spec/template/spec/containers/0/image").and_then(Value::as_str);
    let image = image.unwrap_or_default().to_owned();
    world.kubectl(&format!("delete {PICKERS} --cascade=foreground --timeout=180s")).await?;
    for object in reference() {
        world.kubectl_with(&["apply", "--filename=-"], &object.to_string()).await?;
    }
    world.kubectl(&format!("set image {PICKERS} epp={image}")).await?;
    world.at_peace().await?;
    let mut clients = Clients::start(world.gateway(), MODEL, 2);
    clients.next(20).await?;
    clients.finish().await?;
    world.kubectl(&format!("delete {PICKERS} --cascade=foreground --timeout=180s")).await?;
    let mut again = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": ours["spec"]});
    again["metadata"] =
        json!({"name": ours["metadata"]["name"], "labels": ours["metadata"]["labels"]});
    world.kubectl_with(&["apply", "--filename=-"], &again.to_string()).await?;
    world.at_peace().await
}

/// A picker as the charts of the reference deploy it, under the name, the account and the labels of ours.
fn reference() -> [Value; 2] {
    let config = "apiVersion: llm-d.ai/v1alpha1\n\
        kind: EndpointPickerConfig\n\
        plugins:\n\
        - type: queue-scorer\n\
        - type: kv-cache-utilization-scorer\n\
        - type: prefix-cache-scorer\n\
        schedulingProfiles:\n\
        - name: default\n\
        \x20 plugins:\n\
        \x20 - {pluginRef: queue-scorer, weight: 2}\n\
        \x20 - {pluginRef: kv-cache-utilization-scorer, weight: 2}\n\
        \x20 - {pluginRef: prefix-cache-scorer, weight: 3}\n";
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "reference"},
        "data": {"default-plugins.yaml": config},
    });
    let probe = |seconds: u32| {
        json!({
            "grpc": {"port": 9003, "service": "inference-extension"},
            "initialDelaySeconds": 5,
            "periodSeconds": seconds,
        })
    };
    let field = |path: &str| json!({"fieldRef": {"fieldPath": path}});
    let container = json!({
        "name": "epp",
        "image": "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0",
        "args": [
            "--pool-name", "llm", "--pool-namespace", "$(NAMESPACE)",
            "--pool-group", "inference.networking.k8s.io", "--zap-encoder", "json",
            "--config-file", "/config/default-plugins.yaml",
        ],
        "env": [
            {"name": "NAMESPACE", "valueFrom": field("metadata.namespace")},
            {"name": "POD_NAME", "valueFrom": field("metadata.name")},
        ],
        "ports": [{"name": "grpc", "containerPort": 9002}, {"name": "metrics", "containerPort": 9090}],
        "livenessProbe": probe(10),
        "readinessProbe": probe(2),
        "volumeMounts": [{"name": "config", "mountPath": "/config"}],
    });
    let labels = json!({"app.kubernetes.io/name": "lodesman"});
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "lodesman"},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "serviceAccountName": "lodesman",
                "terminationGracePeriodSeconds": 130,
                "containers": [container],
                "volumes": [{"name": "config", "configMap": {"name": "reference"}}],
            }},
        },
    });
    [map, deployment]
}
