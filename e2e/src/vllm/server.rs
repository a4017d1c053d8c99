//! A real vLLM server that computes on the CPU.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::site::{Site, model};
use super::traffic::{ADAPTERS, MODEL};
use crate::client::Client;
use crate::process::Process;
use crate::wait::eventually;

/// From the start of a server until it generates: a minute alone on a core, more beside others.
const START: Duration = Duration::from_mins(5);
/// Adapters that a server can hold ready at once: half of those in use, so that where requests go decides how often one
/// is loaded.
const ADAPTER_SLOTS: usize = ADAPTERS.len() / 2;
/// Tokens in a block of the KV cache.
const BLOCK_TOKENS: usize = 32;
/// Blocks of the KV cache: the shared prompts fit into the two caches together, and not into each.
const BLOCKS: usize = 1024;
/// Requests that a server computes at once; others wait.
pub(super) const RUNNING: usize = 4;
/// What the server logs when it puts an adapter into a slot.
const LOADED: &str = "Activating LoRA";

/// A server and its engine's processes. Dropping it kills them.
#[derive(Debug)]
pub(super) struct Server {
    process: Process,
    address: SocketAddr,
}

impl Server {
    /// Starts a server.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start(site: &Site, address: SocketAddr) -> Result<Self> {
        let process = Process::leashed_group(&command(site, address))?;
        Ok(Self { process, address })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until it answers a request with a token.
    ///
    /// # Errors
    /// When it ends first, or does not in five minutes; the error shows its output.
    pub(super) async fn generates(&mut self) -> Result<()> {
        let body = json!({"model": MODEL, "prompt": "Where?", "max_tokens": 1});
        let client = Client::http1(self.address);
        let generated = eventually(START, async || {
            let answer = client.post("/v1/completions", &body).await?;
            ensure!(answer.status.is_success(), "{} {}", answer.status, answer.text());
            Ok(())
        });
        let generated = self.process.while_alive(generated).await;
        generated.with_context(|| format!("vLLM does not generate:\n{}", self.process.output()))
    }

    /// Its metrics page.
    ///
    /// # Errors
    /// When it does not answer.
    pub(super) async fn page(&self) -> Result<String> {
        Ok(Client::http1(self.address).get("/metrics").await?.text())
    }

    /// How often it has put an adapter into a slot, as far as its log goes back: about 150 times.
    pub(super) fn adapter_loads(&self) -> usize {
        self.process.output().matches(LOADED).count()
    }

    /// Kills it with all its processes.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.process.kill().map(drop)
    }
}

/// One thread and low priority, so that two of them leave room for the gateway and for whoever works on the machine.
fn command(site: &Site, address: SocketAddr) -> Command {
    let mut command = Command::new("env");
    command.args([
        "HF_HUB_OFFLINE=1",
        "OMP_NUM_THREADS=1",
        "VLLM_CPU_KVCACHE_SPACE=1",
        "VLLM_CPU_OMP_THREADS_BIND=nobind",
        "VLLM_NO_USAGE_STATS=1",
        &format!("VLLM_LOGGING_CONFIG_PATH={}", site.logging().display()),
        "nice",
    ]);
    command.arg(site.vllm()).arg("serve").arg(model());
    command.args(["--served-model-name", MODEL, "--load-format", "dummy", "--dtype", "float32"]);
    command.args(["--enforce-eager", "--disable-uvicorn-access-log"]);
    command.args(["--enable-prefix-caching", "--enable-prompt-tokens-details"]);
    for (flag, figure) in [
        ("--max-model-len", 8192),
        ("--max-num-seqs", RUNNING),
        ("--block-size", BLOCK_TOKENS),
        ("--num-gpu-blocks-override", BLOCKS),
        ("--max-loras", ADAPTER_SLOTS),
        ("--max-cpu-loras", ADAPTERS.len()),
        ("--port", address.port().into()),
    ] {
        command.args([flag, &figure.to_string()]);
    }
    command.args(["--host", &address.ip().to_string(), "--enable-lora", "--lora-modules"]);
    command.args(ADAPTERS.map(|name| format!("{name}={}", site.adapter(name).display())));
    command
}
