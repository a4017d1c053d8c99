//! A real Envoy with a generated configuration.

mod cluster;
mod config;
mod filter;
mod rate_limits;
#[cfg(test)]
#[cfg(feature = "load")]
mod tests;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;

pub use cluster::{Destination, HealthCheck, Picker, Policy, Pool, Tls};
pub use config::{EnvoyConfig, HeaderRoute};
pub use filter::{BodyMode, ExtProc, HeaderMode, Mode};
pub use rate_limits::RateLimits;

use crate::client::{Answer, Client};
use crate::process::Process;
use crate::wait::eventually;

/// From the start of Envoy until it serves; it waits for the first health checks itself.
const START: Duration = Duration::from_secs(30);

/// A running Envoy with one worker. Dropping it ends the process and removes its files.
#[derive(Debug)]
pub struct Envoy {
    process: Process,
    directory: TempDir,
    listener: SocketAddr,
    admin: SocketAddr,
}

impl Envoy {
    /// Starts Envoy on free loopback ports and waits until it serves.
    ///
    /// # Errors
    /// When Envoy cannot be installed, refuses the configuration (the error says why) or is not
    /// ready in time.
    pub async fn start(config: &EnvoyConfig) -> Result<Self> {
        let directory = directory()?;
        let bootstrap = config.bootstrap(&access_log(directory.path()));
        Self::run(directory, &bootstrap).await
    }

    /// Starts Envoy with a whole configuration of the caller's; its ports should be 0. The access log
    /// is where it says.
    ///
    /// # Errors
    /// As [`Envoy::start`].
    pub async fn start_with(bootstrap: &Value) -> Result<Self> {
        Self::run(directory()?, bootstrap).await
    }

    async fn run(directory: TempDir, bootstrap: &Value) -> Result<Self> {
        let binary = binary().await?;
        let path = directory.path().join("envoy.json");
        fs::write(&path, serde_json::to_vec_pretty(bootstrap)?)?;
        let mut command = Command::new(binary);
        command
            .args(["--concurrency", "1", "--disable-hot-restart", "--log-level", "warning"])
            .args(["--file-flush-interval-msec", "10", "--config-path"])
            .arg(&path)
            .arg("--admin-address-path")
            .arg(admin_file(directory.path()));
        let mut process = Process::spawn(command)?;
        let ready = eventually(START, async || ready(directory.path()).await);
        let ready = process.while_alive(ready).await;
        let (admin, listener) =
            ready.with_context(|| format!("Envoy is not ready:\n{}", process.output()))?;
        Ok(Self { process, directory, listener, admin })
    }

    /// Where Envoy takes requests, in HTTP/1.1 and h2c.
    pub fn address(&self) -> SocketAddr {
        self.listener
    }

    /// An HTTP/1.1 client of the listener.
    pub fn client(&self) -> Client {
        Client::http1(self.listener)
    }

    /// The process, for its id, its log, or to stop it.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Reads a page of the admin interface.
    ///
    /// # Errors
    /// When Envoy does not answer it with 200.
    pub async fn admin(&self, path: &str) -> Result<Answer> {
        admin_page(self.admin, path).await
    }

    /// A counter or gauge by its full name, for example `cluster.epp.upstream_rq_total`; absent if
    /// Envoy has no such statistic.
    ///
    /// # Errors
    /// When the admin interface does not answer.
    pub async fn stat(&self, name: &str) -> Result<Option<u64>> {
        let page = self.admin("/stats").await?.text();
        let mut lines = page.lines().filter_map(|line| line.split_once(": "));
        Ok(lines.find(|(key, _)| *key == name).and_then(|(_, value)| value.parse().ok()))
    }

    /// The access log: one JSON object for each request that ended, in the order of their end.
    ///
    /// Fields: `status`, `flags`, `details` (response code details), `method`, `path`, `upstream`
    /// (address, absent if none was chosen), `request_id`, `lb` and `lodesman` (dynamic
    /// metadata `envoy.lb` and `lodesman`), `duration_ms`. Envoy writes a line within some 10 ms of the end of the request.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn access_log(&self) -> Result<Vec<Value>> {
        let text = match fs::read_to_string(access_log(self.directory.path())) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            text => text?,
        };
        let complete = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
        complete.lines().map(|line| serde_json::from_str(line).context("access log")).collect()
    }

    /// The access log once it has at least `count` lines.
    ///
    /// # Errors
    /// When it has fewer after 10 s.
    pub async fn access_log_of(&self, count: usize) -> Result<Vec<Value>> {
        eventually(Duration::from_secs(10), async || {
            let lines = self.access_log()?;
            ensure!(lines.len() >= count, "{} lines in the access log: {lines:?}", lines.len());
            Ok(lines)
        })
        .await
    }
}

/// Lets Envoy check a configuration file, in JSON or YAML by its extension, without serving it.
///
/// # Errors
/// When Envoy refuses it; the error says why.
pub async fn validate(path: &Path) -> Result<()> {
    let output = tokio::process::Command::new(binary().await?)
        .args(["--mode", "validate", "--log-level", "error", "--config-path"])
        .arg(path)
        .output()
        .await?;
    if !output.status.success() {
        bail!("{}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// The Envoy binary, installed on first use by `scripts/envoy.sh`.
///
/// # Errors
/// When the script fails; what it says goes to standard error.
pub async fn binary() -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/envoy.sh");
    let output = tokio::process::Command::new(&script)
        .stderr(Stdio::inherit())
        .output()
        .await
        .with_context(|| format!("could not run {}", script.display()))?;
    ensure!(output.status.success(), "{} failed", script.display());
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim_end()))
}

fn directory() -> Result<TempDir> {
    Ok(tempfile::Builder::new().prefix("envoy-").tempdir()?)
}

fn access_log(directory: &Path) -> PathBuf {
    directory.join("access.log")
}

fn admin_file(directory: &Path) -> PathBuf {
    directory.join("admin")
}

/// The addresses of the admin interface and of the listener, once Envoy serves.
async fn ready(directory: &Path) -> Result<(SocketAddr, SocketAddr)> {
    let admin = fs::read_to_string(admin_file(directory)).context("no admin address yet")?;
    let admin = admin.trim().parse()?;
    admin_page(admin, "/ready").await?;
    let listeners = admin_page(admin, "/listeners?format=json").await?.json()?;
    let socket = listeners.pointer("/listener_statuses/0/local_address/socket_address");
    let socket = socket.context("no listener yet")?;
    let port = socket.get("port_value").and_then(Value::as_u64).context("no port")?;
    Ok((admin, SocketAddr::new(admin.ip(), u16::try_from(port)?)))
}

async fn admin_page(admin: SocketAddr, path: &str) -> Result<Answer> {
    let answer = Client::http1(admin).get(path).await?;
    ensure!(answer.status.is_success(), "admin {path}: {} {}", answer.status, answer.text());
    Ok(answer)
}
