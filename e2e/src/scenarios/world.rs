//! A cluster with Lodesman, model servers and a gateway.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{MODEL, PICKERS, SERVERS};
use crate::chat;
use crate::client::Client;
use crate::kube::Namespace;
use crate::wait::eventually;

/// Longest time until a change is seen.
pub(super) const SEEN: Duration = Duration::from_mins(1);

/// Where scenarios are played.
#[derive(Debug)]
pub struct World<'a> {
    /// Where everything is.
    pub namespace: &'a Namespace<'a>,
    /// The gateway while the pool says `FailClose`, and while it says `FailOpen`: the same where the gateway reads the pool.
    pub gateways: [SocketAddr; 2],
    /// A gateway that allows one server only, and that server; none where the gateway has no subsets.
    pub subset: Option<(SocketAddr, IpAddr)>,
}

impl World<'_> {
    /// Runs kubectl with words.
    ///
    /// # Errors
    /// When it fails.
    pub async fn kubectl(&self, words: &str) -> Result<String> {
        let args: Vec<_> = words.split_whitespace().collect();
        self.kubectl_with(&args, "").await
    }

    /// Runs kubectl with arguments and what it is to read.
    ///
    /// # Errors
    /// When it fails.
    pub async fn kubectl_with(&self, args: &[&str], input: &str) -> Result<String> {
        let place = ["--namespace", &self.namespace.name];
        self.namespace.cluster.kubectl(&[&place, args].concat(), input).await
    }

    /// Makes the pool say what a gateway is to do without a picker.
    ///
    /// # Errors
    /// When there is no pool.
    pub async fn set_failure_mode(&self, mode: &str) -> Result<()> {
        let patch = serde_json::json!({"spec": {"endpointPickerRef": {"failureMode": mode}}});
        let patch = patch.to_string();
        let args = ["patch", "inferencepool", "llm", "--type=merge", "--patch", &patch];
        self.kubectl_with(&args, "").await.map(drop)
    }

    /// A client of the gateway while no mode was set, which is `FailClose`.
    pub fn gateway(&self) -> Client {
        let [closing, _] = self.gateways;
        Client::http1(closing)
    }

    /// A client of the gateway while the mode is `FailOpen`.
    pub fn open_gateway(&self) -> Client {
        let [_, open] = self.gateways;
        Client::http1(open)
    }

    /// Waits until a Deployment is as its spec says.
    ///
    /// # Errors
    /// When it is not in two minutes.
    pub async fn rolled_out(&self, deployment: &str) -> Result<()> {
        self.kubectl(&format!("rollout status {deployment} --timeout=120s")).await.map(drop)
    }

    /// Waits until all servers and pickers are ready and a request is answered.
    ///
    /// # Errors
    /// When that is not so in some minutes.
    pub async fn at_peace(&self) -> Result<()> {
        self.rolled_out(SERVERS).await?;
        self.rolled_out(PICKERS).await?;
        self.answered().await
    }

    /// Waits until a request is answered.
    ///
    /// # Errors
    /// The last failure after a minute.
    pub async fn answered(&self) -> Result<()> {
        eventually(SEEN, async || chat::ask(self.gateway(), MODEL, 0).await.map(drop)).await
    }

    /// Addresses of the model servers' pods that do not terminate.
    ///
    /// # Errors
    /// When kubectl fails.
    pub async fn servers(&self) -> Result<BTreeSet<IpAddr>> {
        let pods = self.pods().await?;
        pods.iter().map(|(_, ip)| ip.parse().context("no address")).collect()
    }

    /// Name and address of these pods.
    ///
    /// # Errors
    /// When kubectl fails.
    pub async fn pods(&self) -> Result<Vec<(String, String)>> {
        let list = self.kubectl("get pods --selector=app=model-server --output=json").await?;
        let list: Value = serde_json::from_str(&list)?;
        let all = list.get("items").and_then(Value::as_array).into_iter().flatten();
        let text = |pod: &Value, path: &str| {
            pod.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let living = all.filter(|pod| pod.pointer("/metadata/deletionTimestamp").is_none());
        let pods: Vec<_> =
            living.map(|pod| (text(pod, "/metadata/name"), text(pod, "/status/podIP"))).collect();
        ensure!(pods.iter().all(|(_, ip)| !ip.is_empty()), "not all have addresses: {pods:?}");
        Ok(pods)
    }
}
