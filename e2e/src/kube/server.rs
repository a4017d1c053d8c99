//! kube-apiserver over its own etcd, as processes that can be stopped, killed and frozen.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::sync::Mutex;

use super::credentials::Credentials;
use super::etcd::Etcd;
use super::port::Port;
use crate::process::Process;
use crate::wait::eventually;

/// From the start until the server says that it is ready, on a busy machine.
const START: Duration = Duration::from_mins(2);
/// From the request to end until the end.
const STOP: Duration = Duration::from_secs(30);
/// Why a server cannot be stopped.
const STOPPED: &str = "the API server does not run";

/// An API server. Dropping it ends all of it and removes its files.
#[derive(Debug)]
pub struct Server {
    process: Mutex<Option<Process>>,
    controllers: Mutex<Option<Process>>,
    assets: PathBuf,
    flags: Vec<String>,
    port: Port,
    credentials: Credentials,
    etcd: Etcd,
    folder: TempDir,
}

impl Server {
    /// Starts etcd and kube-apiserver of the folder `assets` and waits until they serve.
    pub(super) async fn start(assets: &Path, flags: &[&str]) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("kube-").tempdir()?;
        let credentials = Credentials::write(folder.path())?;
        let port = Port::reserve()?;
        credentials.write_kubeconfig(port.address)?;
        let etcd = Etcd::start(&assets.join("etcd"), folder.path()).await?;
        let assets = assets.to_owned();
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let (process, controllers) = (Mutex::new(None), Mutex::new(None));
        let server = Self { process, controllers, assets, flags, port, credentials, etcd, folder };
        server.resume().await?;
        Ok(server)
    }

    /// Starts a stopped server again, at the same address with the same objects, and waits until it
    /// serves. Does nothing while one runs.
    ///
    /// # Errors
    /// When it ends or is not ready in time.
    pub async fn resume(&self) -> Result<()> {
        let mut running = self.process.lock().await;
        if running.is_some() {
            return Ok(());
        }
        let mut process = Process::leashed(&self.command(), None)?;
        let kubeconfig = self.kubeconfig();
        let ready = eventually(START, async || {
            // The certificate that it is known by is made while it starts.
            let client = super::client(&kubeconfig).await?;
            client.request_text(http::Request::get("/readyz").body(Vec::new())?).await?;
            Ok(())
        });
        process.while_alive(ready).await.context("kube-apiserver")?;
        *running = Some(process);
        Ok(())
    }

    /// Ends the server as an upgrade does: open watches end cleanly, then connections are refused.
    ///
    /// # Errors
    /// When it does not run or does not end.
    pub async fn stop(&self) -> Result<()> {
        let mut process = self.taken().await?;
        process.terminate()?;
        process.wait(STOP).await?;
        Ok(())
    }

    /// Kills the server: open watches break off, then connections are refused.
    ///
    /// # Errors
    /// When it does not run.
    pub async fn kill(&self) -> Result<()> {
        self.taken().await?.kill()?;
        Ok(())
    }

    /// Lets the server hang: connections stay open, and nothing answers.
    ///
    /// # Errors
    /// When it does not run.
    pub async fn freeze(&self) -> Result<()> {
        self.process.lock().await.as_ref().context(STOPPED)?.freeze()
    }

    /// Lets a server that hangs go on.
    ///
    /// # Errors
    /// When it does not run.
    pub async fn thaw(&self) -> Result<()> {
        self.process.lock().await.as_ref().context(STOPPED)?.thaw()
    }

    /// Runs controllers of kube-controller-manager too, by their names and with further `flags`, until the server is dropped.
    ///
    /// # Errors
    /// When they do not start.
    pub async fn control(&self, names: &[&str], flags: &[&str]) -> Result<()> {
        let mut command = Command::new(self.assets.join("kube-controller-manager"));
        command
            .arg(format!("--kubeconfig={}", self.kubeconfig().display()))
            .arg(format!("--controllers={}", names.join(",")))
            .args(["--secure-port=0", "--leader-elect=false"])
            .args(flags);
        *self.controllers.lock().await = Some(Process::leashed(&command, None)?);
        Ok(())
    }

    /// Forgets the past: once the server has started anew, watches of old revisions are answered with
    /// 410 Gone.
    ///
    /// # Errors
    /// When etcd does not.
    pub async fn compact(&self) -> Result<()> {
        self.etcd.compact().await
    }

    /// The administrator's kubeconfig.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.credentials.kubeconfig()
    }

    /// What accounts asked for, a JSON object a line.
    pub(super) fn audit_log(&self) -> PathBuf {
        self.folder.path().join("audit.log")
    }

    async fn taken(&self) -> Result<Process> {
        self.process.lock().await.take().context(STOPPED)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.assets.join("kube-apiserver"));
        let mut file = |flag: &str, path: &Path| {
            command.arg(format!("--{flag}={}", path.display()));
        };
        file("token-auth-file", &self.credentials.tokens());
        file("service-account-key-file", &self.credentials.public_key());
        file("service-account-signing-key-file", &self.credentials.signing_key());
        file("audit-policy-file", &self.credentials.audit_policy());
        file("audit-log-path", &self.audit_log());
        file("cert-dir", self.folder.path());
        command
            .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
            .arg(format!("--secure-port={}", self.port.address.port()))
            .arg("--permit-port-sharing")
            .arg(format!("--etcd-servers={}", self.etcd.url()))
            .args(["--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/24"])
            .arg("--authorization-mode=RBAC")
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            // No controller makes an account for each namespace, which this would have pods wait for.
            .arg("--disable-admission-plugins=ServiceAccount")
            // Without it an open watch holds up the end for more than ten seconds.
            .arg("--shutdown-watch-termination-grace-period=2s")
            .args(["--allow-privileged", "--profiling=false", "--event-ttl=10m"])
            .args(&self.flags);
        command
    }
}
