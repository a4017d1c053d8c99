//! KEDA in a cluster: its operator, and its adapter, which the API server asks for external metrics.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::aggregation;
use super::authority::Authority;
use crate::client::Client;
use crate::kube::Cluster;
use crate::kube::assets::manifests;
use crate::process::Process;
use crate::scenarios::local::CONTROLLERS;
use crate::wait::eventually;

/// What scales between one replica and many.
const AUTOSCALER: &str = "horizontal-pod-autoscaler-controller";
/// The host of the operator in its certificate.
const OPERATOR: &str = "keda-operator.keda.svc.cluster.local";
/// Where the adapter asks the operator.
const METRICS: &str = "127.0.0.1:9666";
/// Where the operator says that it is ready.
const HEALTH: ([u8; 4], u16) = ([127, 0, 0, 1], 8081);
/// From the start of the operator until it is ready.
const READY: Duration = Duration::from_mins(1);
/// Lines of complaints that are shown of each program.
const COMPLAINTS: usize = 8;

/// The running programs of KEDA.
pub(super) struct Keda {
    operator: Process,
    adapter: Process,
    _authority: Authority,
}

impl Keda {
    /// Starts a cluster with the controllers of Deployments and of their autoscalers, and KEDA from `folder` in it.
    ///
    /// # Errors
    /// When a part ends or is not ready in time.
    pub(super) async fn start(folder: &Path) -> Result<(Cluster, Self)> {
        let authority = Authority::new()?;
        let flags = aggregation::flags(&authority.issue(aggregation::FRONT_PROXY, &[])?);
        let cluster = Cluster::start(&flags.each_ref().map(String::as_str)).await?;
        let cluster = cluster.context("no API server")?;
        let theirs = folder.join("crds/keda").display().to_string();
        for (flag, crds) in [("--filename", theirs), ("--kustomize", manifests("crds"))] {
            cluster.kubectl(&["apply", "--server-side", flag, &crds], "").await?;
        }
        let established = ["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"];
        cluster.kubectl(&established, "").await?;
        let controllers = [&CONTROLLERS[..], &[AUTOSCALER]].concat();
        let server = cluster.server().context("no API server of our own")?;
        // Unless told otherwise it looks every 15 s.
        server.control(&controllers, &["--horizontal-pod-autoscaler-sync-period=1s"]).await?;
        let objects = aggregation::objects(&authority.certificate()).to_string();
        cluster.kubectl(&["apply", "--filename=-"], &objects).await?;
        let keda = Box::pin(Self::run(folder, &cluster, authority)).await?;
        Ok((cluster, keda))
    }

    /// Starts both programs and waits until they serve.
    async fn run(folder: &Path, cluster: &Cluster, authority: Authority) -> Result<Self> {
        let certificates = authority.issue("keda", &[aggregation::HOST, OPERATOR])?;
        let program = |name: &str, args: Vec<String>| {
            let mut command = Command::new(folder.join(name));
            let place = aggregation::NAMESPACE;
            command.args(args).env("KUBECONFIG", cluster.kubeconfig()).env("WATCH_NAMESPACE", "");
            command.env("POD_NAMESPACE", place).env("KEDA_CLUSTER_OBJECT_NAMESPACE", place);
            Process::spawn(command)
        };
        let mut keda = Self {
            operator: program("operator", operator(&certificates))?,
            adapter: program("adapter", adapter(&certificates, cluster.kubeconfig()))?,
            _authority: authority,
        };
        let ready = keda.while_alive(Box::pin(ready(cluster))).await;
        ready.with_context(|| keda.complaints())?;
        Ok(keda)
    }

    /// Runs `work` unless one of the programs ends before it is done.
    ///
    /// # Errors
    /// Those of `work`, or the end of a program.
    pub(super) async fn while_alive<T>(
        &mut self,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.operator.while_alive(self.adapter.while_alive(work)).await
    }

    /// What the programs said last of errors.
    pub(super) fn complaints(&self) -> String {
        let of = |name: &str, process: &Process| {
            let output = process.output();
            let errors = output.lines().filter(|line| line.to_lowercase().contains("error"));
            let mut last: Vec<_> = errors.rev().take(COMPLAINTS).collect();
            last.reverse();
            format!("the {name} says:\n{}\n", last.join("\n"))
        };
        of("operator", &self.operator) + &of("adapter", &self.adapter)
    }
}

/// Waits until the operator is ready and the API server reaches the adapter.
async fn ready(cluster: &Cluster) -> Result<()> {
    let ready = eventually(READY, async || {
        let answer = Client::http1(SocketAddr::from(HEALTH)).get("/readyz").await?;
        ensure!(answer.status == 200, "the operator: {} {}", answer.status, answer.text());
        Ok(())
    });
    ready.await?;
    let api = format!("apiservice/{}", aggregation::API);
    let available = ["wait", &api, "--for=condition=Available", "--timeout=60s"];
    cluster.kubectl(&available, "").await.map(drop)
}

/// Arguments of the operator.
fn operator(certificates: &Path) -> Vec<String> {
    vec![
        format!("--cert-dir={}", certificates.display()),
        "--metrics-bind-address=0".to_owned(),
        format!("--health-probe-bind-address={}", SocketAddr::from(HEALTH)),
        format!("--metrics-service-bind-address={METRICS}"),
    ]
}

/// Arguments of the adapter.
fn adapter(certificates: &Path, kubeconfig: &Path) -> Vec<String> {
    let file = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
    vec![
        format!("--bind-address={}", aggregation::ADDRESS),
        format!("--secure-port={}", aggregation::PORT),
        file("cert-dir", certificates),
        file("tls-cert-file", &certificates.join("tls.crt")),
        file("tls-private-key-file", &certificates.join("tls.key")),
        format!("--metrics-service-address={METRICS}"),
        format!("--metrics-service-grpc-authority={OPERATOR}"),
        file("kubeconfig", kubeconfig),
        file("lister-kubeconfig", kubeconfig),
        file("authentication-kubeconfig", kubeconfig),
        file("authorization-kubeconfig", kubeconfig),
    ]
}
