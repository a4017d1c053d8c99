//! The store under an API server.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::port::Port;
use crate::client::Client;
use crate::process::Process;
use crate::wait::accepts;

/// From the start until it listens.
const START: Duration = Duration::from_secs(30);

/// A lone etcd that forgets everything when it ends.
#[derive(Debug)]
pub(super) struct Etcd {
    port: Port,
    _process: Process,
}

impl Etcd {
    /// Starts `binary` with its data below `folder`, which goes when this program is killed.
    pub(super) async fn start(binary: &Path, folder: &Path) -> Result<Self> {
        let port = Port::reserve()?;
        let clients = format!("http://{}", port.address);
        // A lone member talks to no peer, so its own address there may be one that cannot be.
        let peers = "http://127.0.0.1:0";
        let mut command = Command::new(binary);
        command
            .arg("--data-dir")
            .arg(folder.join("etcd"))
            .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers])
            .args(["--name", "only", "--initial-cluster", &format!("only={peers}")])
            // It waits one election time-out before it elects itself.
            .args(["--heartbeat-interval", "10", "--election-timeout", "100"])
            .args(["--socket-reuse-port", "--unsafe-no-fsync", "--log-level", "warn"]);
        let mut process = Process::leashed(&command, Some(folder))?;
        process.while_alive(accepts(port.address, START)).await.context("etcd")?;
        Ok(Self { port, _process: process })
    }

    /// Where clients find it.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.port.address)
    }

    /// Forgets all revisions but the present one.
    pub(super) async fn compact(&self) -> Result<()> {
        // Any key's answer tells the revision; keys are in base64.
        let state = self.ask("/v3/kv/range", json!({"key": "AA=="})).await?;
        let revision = state.pointer("/header/revision").context("no revision")?;
        self.ask("/v3/kv/compaction", json!({"revision": revision, "physical": true})).await?;
        Ok(())
    }

    async fn ask(&self, path: &str, request: Value) -> Result<Value> {
        let answer = Client::http1(self.port.address).post(path, &request).await?;
        ensure!(answer.status == 200, "etcd {path}: {} {}", answer.status, answer.text());
        answer.json()
    }
}
