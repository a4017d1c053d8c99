//! What the servers need on disk, and how they are started.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::server::Server;
use super::{adapter, traffic};

/// Where the two servers listen: as pods do, at addresses of their own.
const HOSTS: [Ipv4Addr; 2] = [Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3)];

/// Files for servers; dropping it removes them.
#[derive(Debug)]
pub(super) struct Site {
    vllm: PathBuf,
    folder: TempDir,
}

impl Site {
    /// Writes the adapters and the servers' logging configuration.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub(super) fn new(vllm: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("vllm-").tempdir()?;
        let site = Self { vllm: vllm.to_owned(), folder };
        let config = model().join("config.json");
        let text = fs::read(&config).with_context(|| config.display().to_string())?;
        let config: Value = serde_json::from_slice(&text)?;
        for (name, seed) in traffic::ADAPTERS.into_iter().zip(1..) {
            adapter::write(&config, &site.adapter(name), seed)?;
        }
        fs::write(site.logging(), logging().to_string())?;
        Ok(site)
    }

    /// Starts both servers and waits until they generate.
    ///
    /// # Errors
    /// When one does not.
    pub(super) async fn servers(&self) -> Result<[Server; 2]> {
        let [first, second] = HOSTS.map(|host| self.server(free(host.into())?));
        let (mut first, mut second) = (first?, second?);
        tokio::try_join!(first.generates(), second.generates())?;
        Ok([first, second])
    }

    /// Starts a server at `address` and does not wait for it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn server(&self, address: SocketAddr) -> Result<Server> {
        Server::start(self, address)
    }

    /// The program.
    pub(super) fn vllm(&self) -> &Path {
        &self.vllm
    }

    /// The folder of an adapter.
    pub(super) fn adapter(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The file that says what servers log.
    pub(super) fn logging(&self) -> PathBuf {
        self.folder.path().join("logging.json")
    }
}

/// The folder of the model: its configuration and its tokenizer, no weights.
pub(super) fn model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vllm/tiny-model")
}

/// Everything as by default, and each adapter that is put into a slot.
fn logging() -> Value {
    let logger = |level: &str| json!({"handlers": ["output"], "level": level, "propagate": false});
    json!({
        "version": 1,
        "formatters": {"plain": {"format": "%(levelname)s %(name)s %(message)s"}},
        "handlers": {"output": {
            "class": "logging.StreamHandler",
            "formatter": "plain",
            "stream": "ext://sys.stdout",
        }},
        "loggers": {"vllm": logger("INFO"), "vllm.lora.model_manager": logger("DEBUG")},
    })
}

/// An address of `host` on which nothing listens.
fn free(host: IpAddr) -> Result<SocketAddr> {
    Ok(TcpListener::bind((host, 0))?.local_addr()?)
}
