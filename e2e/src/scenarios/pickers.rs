//! Pickers are replaced, missing and upgraded.

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::world::SEEN;
use super::{MODEL, PICKERS, SERVERS, World};
use crate::chat::{self, Clients};
use crate::client::{Client, Response};
use crate::wait::eventually;

/// Streams that are open when the pickers are replaced.
const STREAMS: usize = 500;

/// Tokens of each.
const TOKENS: usize = 40;

/// Servers so slow that the streams outlast the rollout and cost little.
const SLOW: &str = r#"[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--decode-step-ms=200"}]"#;

/// A rollout of the pickers costs no request: neither one that comes meanwhile nor one that runs.
pub(super) async fn roll(world: &World<'_>) -> Result<()> {
    world.kubectl_with(&["patch", SERVERS, "--type=json", "--patch", SLOW], "").await?;
    world.at_peace().await?;
    let mut clients = Clients::start(world.gateway(), MODEL, 4);
    clients.next(20).await?;
    let opening = (0..STREAMS).map(|at| chat::open(world.gateway(), MODEL, at, TOKENS));
    let streams = try_join_all(opening).await.context("the streams begin")?;
    let answers = streams.into_iter().map(Response::collect).collect::<JoinSet<_>>();
    world.kubectl(&format!("rollout restart {PICKERS}")).await?;
    world.rolled_out(PICKERS).await?;
    clients.next(12).await?;
    for answer in answers.join_all().await {
        chat::server(&answer).context("a stream that was open")?;
    }
    clients.finish().await?;
    world.kubectl(&format!("rollout undo {SERVERS}")).await?;
    world.at_peace().await
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
    let part = |path: &str| ours.pointer(path).cloned().unwrap_or_default();
    let image = part("/spec/template/spec/containers/0/image");
    let image = image.as_str().context("no image")?;
    replace(world, &reference()).await?;
    world.kubectl(&format!("set image {PICKERS} epp={image}")).await?;
    world.at_peace().await?;
    let mut clients = Clients::start(world.gateway(), MODEL, 2);
    clients.next(20).await?;
    clients.finish().await?;
    let metadata = json!({"name": part("/metadata/name"), "labels": part("/metadata/labels")});
    let again = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": part("/spec"),
    });
    replace(world, &again).await?;
    world.at_peace().await
}

/// Puts another Deployment in the place of the pickers'.
async fn replace(world: &World<'_>, deployment: &Value) -> Result<()> {
    let delete = format!("delete {PICKERS} --cascade=foreground --timeout=180s");
    world.kubectl(&delete).await?;
    let config = reference_config().to_string();
    world.kubectl_with(&["apply", "--filename=-"], &config).await?;
    world.kubectl_with(&["apply", "--filename=-"], &deployment.to_string()).await?;
    Ok(())
}

/// The configuration of the reference's charts.
fn reference_config() -> Value {
    let plugin = |kind: &str| json!({"type": kind});
    let scorer = |kind: &str, weight: u32| json!({"pluginRef": kind, "weight": weight});
    let config = json!({
        "apiVersion": "llm-d.ai/v1alpha1",
        "kind": "EndpointPickerConfig",
        "plugins": [
            plugin("queue-scorer"), plugin("kv-cache-utilization-scorer"), plugin("prefix-cache-scorer"),
        ],
        "schedulingProfiles": [{"name": "default", "plugins": [
            scorer("queue-scorer", 2), scorer("kv-cache-utilization-scorer", 2),
            scorer("prefix-cache-scorer", 3),
        ]}],
    });
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "reference"},
        "data": {"default-plugins.yaml": config.to_string()},
    })
}

/// A picker as the charts of the reference deploy it, under the name, the account and the labels of ours.
fn reference() -> Value {
    let labels = json!({"app.kubernetes.io/name": "lodesman"});
    let pod = json!({
        "serviceAccountName": "lodesman",
        "terminationGracePeriodSeconds": 130,
        "containers": [reference_container()],
        "volumes": [{"name": "config", "configMap": {"name": "reference"}}],
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "lodesman"},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    })
}

fn reference_container() -> Value {
    let probe = |seconds: u32| {
        json!({
            "grpc": {"port": 9003, "service": "inference-extension"},
            "initialDelaySeconds": 5,
            "periodSeconds": seconds,
        })
    };
    let field = |path: &str| json!({"fieldRef": {"fieldPath": path}});
    json!({
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
    })
}
