//! A real Kubernetes API server on loopback, and what a test plays of the rest of a cluster.
//!
//! - [`Cluster`] is kube-apiserver over etcd, without kubelets, scheduler and networks;
//! - [`Namespace`] is a place of its own in it for one test, with a client that may do everything;
//! - [`Kubelet`] gives pods addresses and makes them ready, as kubelets do;
//! - [`Node`] runs the pods of a namespace as processes;
//! - [`audit`] tells what an account asked for, and what it was refused.
//!
//! Tests share one server for each test binary ([`Cluster::shared`]); those that stop it or change
//! what is true for all namespaces start their own.

mod account;
pub(crate) mod assets;
pub mod audit;
mod container;
mod credentials;
mod etcd;
mod kubelet;
mod namespace;
mod node;
pub mod objects;
mod port;
mod server;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use ::kube::config::{KubeConfigOptions, Kubeconfig};
use ::kube::{Client, Config};
use anyhow::{Context, Result, ensure};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::sync::OnceCell;

pub use self::account::Account;
pub use self::container::Container;
pub use self::kubelet::Kubelet;
pub use self::namespace::{Kind, Namespace};
pub use self::node::Node;
pub use self::server::Server;

/// An API server and a way to be its administrator.
#[derive(Debug)]
pub struct Cluster {
    kubeconfig: PathBuf,
    kubectl: PathBuf,
    server: Option<Box<Server>>,
}

impl Cluster {
    /// The server that all tests of this program share; none where there cannot be one. Then the test
    /// says so past the capture of its output and should pass, unless `CI=true`.
    ///
    /// # Panics
    /// When the server cannot be started, or there is none under `CI=true`.
    #[expect(clippy::panic, reason = "a test without its server has failed")]
    pub async fn shared() -> Option<&'static Self> {
        static SHARED: OnceCell<Option<Cluster>> = OnceCell::const_new();
        let cluster = SHARED.get_or_init(async || {
            let started = match std::env::var_os("LODESMAN_TEST_KUBECONFIG") {
                Some(path) => said(
                    "NOT RUN, as the API server is not ours: scenarios, and the test that no right is superfluous",
                )
                .map(|()| Some(Self::existing(path.into()))),
                None => Self::start(&[]).await,
            };
            started.unwrap_or_else(|error| panic!("no API server: {error:#}"))
        });
        cluster.await.as_ref()
    }

    /// A server of the caller's own, with `flags` after those that it needs; none as in
    /// [`Cluster::shared`].
    ///
    /// # Errors
    /// When it ends or is not ready in time, and when there is none under `CI=true`.
    pub async fn start(flags: &[&str]) -> Result<Option<Self>> {
        match assets::folder().await {
            Ok(assets) => {
                let server = Box::pin(Server::start(&assets, flags)).await?;
                let (kubeconfig, kubectl) = (server.kubeconfig(), assets.join("kubectl"));
                Ok(Some(Self { kubeconfig, kubectl, server: Some(Box::new(server)) }))
            }
            Err(error) if std::env::var_os("CI").is_some_and(|ci| ci == "true") => Err(error),
            Err(error) => {
                said(&format!("NOT RUN, no Kubernetes API server: {error:#}"))?;
                Ok(None)
            }
        }
    }

    /// A cluster that is there already, with kubectl from the path.
    pub fn existing(kubeconfig: PathBuf) -> Self {
        Self { kubeconfig, kubectl: "kubectl".into(), server: None }
    }

    /// The server's processes; none for a cluster that was there before.
    pub fn server(&self) -> Option<&Server> {
        self.server.as_deref()
    }

    /// The file of the server's log of requests; none for a cluster that was there before.
    pub fn audit_log(&self) -> Option<PathBuf> {
        self.server.as_deref().map(Server::audit_log)
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The kubectl that goes with the server.
    pub fn kubectl_binary(&self) -> &Path {
        &self.kubectl
    }

    /// A client that may do everything. It belongs to the runtime that it is made on: to one test.
    ///
    /// # Errors
    /// When the kubeconfig makes no sense.
    pub async fn client(&self) -> Result<Client> {
        client(&self.kubeconfig).await
    }

    /// A fresh namespace.
    ///
    /// # Errors
    /// When the server does not make one.
    pub async fn namespace(&self) -> Result<Namespace<'_>> {
        Namespace::create(self).await
    }

    /// Runs kubectl as administrator with `input` at its standard input, and returns what it prints.
    ///
    /// # Errors
    /// When it fails; the error shows what it said.
    pub async fn kubectl(&self, args: &[&str], input: &str) -> Result<String> {
        let mut child = Command::new(&self.kubectl)
            .args(args)
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("could not run {}", self.kubectl.display()))?;
        let mut pipe = child.stdin.take().context("no standard input")?;
        pipe.write_all(input.as_bytes()).await?;
        drop(pipe);
        let output = child.wait_with_output().await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {}: {said}", args.join(" "));
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// Writes a line that the test harness does not capture.
fn said(line: &str) -> Result<()> {
    Ok(writeln!(std::io::stderr(), "{line}")?)
}

/// A client by a kubeconfig file.
async fn client(kubeconfig: &Path) -> Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
