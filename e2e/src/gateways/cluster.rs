//! A cluster of an API server and the controller of endpoint slices; kubelets and Deployments are played.

use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use ::kube::Client;
use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::manifests::{Manifests, text};
use super::parts::Parts;
use super::picker::{self, Picker};
use super::pods;
use crate::kube::{Account, Cluster, Kubelet, Namespace, assets};
use crate::lodesman::Fleet;
use crate::process::Process;

/// The pod of the picker.
pub(super) const PICKER: &str = "picker";
/// The node of all pods: the controller of endpoint slices leaves out pods of a node that is not there.
const NODE: &str = "node";

/// An API server with the manifests of a user in a namespace, and pods for the Deployments among them.
pub(super) struct Kubernetes {
    pub(super) cluster: Cluster,
    /// May do everything.
    pub(super) client: Client,
    /// Where the manifests are.
    pub(super) namespace: String,
    /// As whom the picker asks the API server.
    account: Option<Account>,
    _controller: Process,
}

impl Kubernetes {
    /// Starts a cluster that knows the CRDs of `gateway` and ours, and nothing else.
    ///
    /// # Errors
    /// When it does not start, or refuses the CRDs.
    pub(super) async fn start(parts: &Parts, gateway: &str) -> Result<Self> {
        let cluster = Cluster::start(&[]).await?.context("no API server")?;
        let theirs = parts.planes.join("crds").join(gateway);
        let ours = parts.manifests.join("crds");
        for (flag, directory) in [("-f", &theirs), ("-k", &ours)] {
            let directory = directory.to_str().context("a path that is no text")?;
            cluster.kubectl(&["apply", "--server-side", flag, directory], "").await?;
        }
        let wait = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
        cluster.kubectl(&wait, "").await?;
        let mut command = Command::new(assets::folder().await?.join("kube-controller-manager"));
        command
            .arg(format!("--kubeconfig={}", cluster.kubeconfig().display()))
            .args(["--controllers=endpointslice-controller", "--leader-elect=false"])
            .arg("--secure-port=0");
        let controller = Process::spawn(command)?;
        let client = cluster.client().await?;
        let namespace = cluster.namespace().await?.name;
        Ok(Self { cluster, client, namespace, account: None, _controller: controller })
    }

    /// Applies the objects of a user, lets pods run for them at the addresses of `fleet` and of the picker, and starts
    /// the picker.
    ///
    /// # Errors
    /// When something is refused, or does not start.
    pub(super) async fn deploy(
        &mut self,
        parts: &Parts,
        objects: &Manifests,
        fleet: &Fleet,
        directory: &Path,
    ) -> Result<Picker> {
        self.apply(&objects.0).await?;
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}});
        self.apply(&[node]).await?;
        for (number, server) in fleet.servers.iter().enumerate() {
            self.run_server(objects, &server_pod(number), *server).await?;
        }
        self.run_picker(objects).await?;
        let pickers = objects.deployment(picker::address().port())?;
        let name = text(pickers, "/spec/template/spec/serviceAccountName")?;
        let account = self.place().account(name).await?;
        let pod = pods::Pod { name: PICKER, namespace: &self.namespace };
        let mut start = pod.start(&parts.lodesman, pickers, objects, directory)?;
        let kubeconfig = account.kubeconfig().to_string_lossy().into_owned();
        start.environment.push(("KUBECONFIG".to_owned(), kubeconfig));
        self.account = Some(account);
        Picker::start(start).await
    }

    /// Applies objects of a user.
    ///
    /// # Errors
    /// When one is refused.
    pub(super) async fn apply(&self, objects: &[Value]) -> Result<()> {
        for object in objects {
            self.place().apply(object).await?;
        }
        Ok(())
    }

    /// Deletes an object of a user.
    ///
    /// # Errors
    /// When it is not there.
    pub(super) async fn delete(&self, object: &Value) -> Result<()> {
        let kind = (text(object, "/apiVersion")?, text(object, "/kind")?);
        self.place().delete(kind, text(object, "/metadata/name")?).await
    }

    /// The place of the manifests.
    pub(super) fn place(&self) -> Namespace<'_> {
        let (name, client) = (self.namespace.clone(), self.client.clone());
        Namespace { name, client, cluster: &self.cluster }
    }

    /// What their kubelets do to pods.
    pub(super) fn kubelet(&self) -> Kubelet {
        self.place().kubelet()
    }

    /// Writes a copy of the administrator's kubeconfig into `directory` that holds the certificate itself.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub(super) async fn write_kubeconfig(&self, directory: &Path) -> Result<()> {
        let view = ["config", "view", "--raw", "--flatten", "-o", "json"];
        let text = self.cluster.kubectl(&view, "").await?;
        Ok(fs::write(directory.join("kubeconfig"), text)?)
    }

    /// Lets a pod of the Deployment of model servers run at an address, ready.
    ///
    /// # Errors
    /// When it is refused.
    pub(super) async fn run_server(
        &self,
        objects: &Manifests,
        name: &str,
        at: SocketAddr,
    ) -> Result<()> {
        self.run(objects.deployment(at.port())?, name, at).await
    }

    /// Lets a pod of the Deployment of pickers run at the address of the process.
    ///
    /// # Errors
    /// When it is refused.
    pub(super) async fn run_picker(&self, objects: &Manifests) -> Result<()> {
        let address = picker::address();
        self.run(objects.deployment(address.port())?, PICKER, address).await
    }

    /// Lets a pod of `deployment` run at an address, ready.
    async fn run(&self, deployment: &Value, name: &str, at: SocketAddr) -> Result<()> {
        self.apply(&[pods::pod(deployment, name, NODE)?]).await?;
        self.kubelet().start(name, &[at.ip()], true).await
    }
}

impl fmt::Debug for Kubernetes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubernetes").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

/// The pod of a model server.
pub(super) fn server_pod(number: usize) -> String {
    format!("server-{number}")
}
