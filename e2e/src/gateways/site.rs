//! One gateway in one failure mode, with a picker and model servers.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::asking::{Ask, placed};
use super::cluster::Kubernetes;
use super::envoy_gateway::{self, files::Files};
use super::istio;
use super::manifests::{Manifests, set};
use super::picker::Picker;
use crate::client::Client;
use crate::lodesman::Fleet;
use crate::process::Process;

/// From the start of a control plane, or a change of its objects, until Envoy does as it says.
const SETTLED: Duration = Duration::from_mins(1);
/// Model servers of a site.
const SERVERS: usize = 3;
/// Where the first of them is; each further one has the next address.
const FIRST: ([u8; 4], u16) = ([10, 77, 1, 1], 8000);
/// Where their faults are ordered.
pub(super) const SIM_ADMIN: ([u8; 4], u16) = ([127, 0, 0, 1], 8001);
/// Adapters that they may load.
pub(super) const ADAPTERS: [&str; 2] = ["sql", "chat"];

/// A gateway and the way it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Gateway {
    /// Envoy Gateway that reads files.
    EnvoyGatewayFiles,
    /// Envoy Gateway in Kubernetes.
    EnvoyGateway,
    /// Istio.
    Istio,
}

impl Gateway {
    /// All, in the order in which they are tried and shown.
    pub(super) const ALL: [Self; 3] = [Self::EnvoyGatewayFiles, Self::EnvoyGateway, Self::Istio];

    /// Its name in the table.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::EnvoyGatewayFiles => "Envoy Gateway, files",
            Self::EnvoyGateway => "Envoy Gateway, Kubernetes",
            Self::Istio => "Istio",
        }
    }

    /// Starts it with all that belongs to it.
    ///
    /// # Errors
    /// When a part does not start, or no request is placed in time.
    pub(super) async fn start(self, parts: &Parts, mode: Mode) -> Result<Site> {
        match self {
            Self::EnvoyGatewayFiles => envoy_gateway::files::start(parts, mode).await,
            Self::EnvoyGateway => envoy_gateway::kubernetes::start(parts, mode).await,
            Self::Istio => istio::start(parts, mode).await,
        }
    }

    /// The objects, changed so that the gateway names the endpoints that the header `header` lists as those that may be
    /// chosen.
    ///
    /// # Errors
    /// When the manifests lack what is to be changed.
    pub(super) fn with_subset(self, objects: &Manifests, header: &str) -> Result<Vec<Value>> {
        match self {
            Self::EnvoyGatewayFiles | Self::EnvoyGateway => {
                envoy_gateway::with_subset(objects, header)
            }
            Self::Istio => Ok(istio::with_subset(header)),
        }
    }

    /// The objects, changed so that the gateway speaks with the picker like that; none where it does so anyway.
    ///
    /// # Errors
    /// When the manifests lack what is to be changed.
    pub(super) fn with_security(
        self,
        objects: &Manifests,
        security: Security,
    ) -> Result<Vec<Value>> {
        match (self, security) {
            (Self::Istio, Security::Tls)
            | (Self::EnvoyGatewayFiles | Self::EnvoyGateway, Security::Plaintext) => Ok(Vec::new()),
            (Self::Istio, Security::Plaintext) => {
                istio::with_tls(objects, json!({"mode": "DISABLE"}))
            }
            (Self::EnvoyGatewayFiles | Self::EnvoyGateway, Security::Tls) => {
                envoy_gateway::with_tls(objects)
            }
        }
    }

    /// What stands in the name of the picker's cluster in Envoy's statistics.
    pub(super) fn cluster(self) -> &'static str {
        match self {
            Self::EnvoyGatewayFiles | Self::EnvoyGateway => "extproc",
            Self::Istio => "outbound|9002||",
        }
    }
}

/// How a gateway speaks with the picker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Security {
    /// TLS, without a look at the certificate.
    Tls,
    /// HTTP/2 without TLS.
    Plaintext,
}

/// What happens to requests without a picker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// They are answered by some server.
    FailOpen,
    /// They are refused.
    FailClose,
}

impl Mode {
    /// As the API spells it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::FailOpen => "FailOpen",
            Self::FailClose => "FailClose",
        }
    }
}

/// What all sites are made of.
#[derive(Debug)]
pub(super) struct Parts {
    /// The folder of the control planes and their CRDs.
    pub(super) planes: PathBuf,
    /// Lodesman.
    pub(super) lodesman: PathBuf,
    /// Envoy.
    pub(super) envoy: PathBuf,
    /// `kubectl`.
    pub(super) kubectl: PathBuf,
    /// The folder of the manifests.
    pub(super) manifests: PathBuf,
}

impl Parts {
    /// Starts the model servers.
    ///
    /// # Errors
    /// When they do not start.
    pub(super) async fn fleet(&self) -> Result<Fleet> {
        let admin = SIM_ADMIN.1.to_string();
        let adapters = ADAPTERS.iter().flat_map(|adapter| ["--lora", adapter]);
        let args = adapters.chain(["--admin-port", &admin]);
        Fleet::at(&self.lodesman, SocketAddr::from(FIRST), SERVERS, args).await
    }

    /// What a user applies for `gateway` in `mode`, with a Gateway to try it.
    ///
    /// # Errors
    /// When it cannot be rendered.
    pub(super) async fn objects(&self, gateway: &str, mode: Mode) -> Result<Manifests> {
        let tried = self.manifests.join("try").join(gateway);
        let mut objects = Manifests::render(&self.kubectl, &tried).await?;
        let overlay = self.manifests.join("overlays").join(format!("{gateway}-failopen"));
        match mode {
            Mode::FailClose => {}
            Mode::FailOpen if overlay.is_dir() => {
                for object in Manifests::render(&self.kubectl, &overlay).await?.0 {
                    objects.put(object);
                }
            }
            Mode::FailOpen => {
                let mut pool = objects.one("InferencePool")?.clone();
                set(&mut pool, "/spec/endpointPickerRef/failureMode", json!(mode.name()))?;
                objects.put(pool);
            }
        }
        Ok(objects)
    }

    /// Starts Envoy with a configuration; its admin interface writes its address into the file `admin`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn proxy(&self, bootstrap: &Path, admin: &Path, node: &[&str]) -> Result<Process> {
        let mut command = Command::new(&self.envoy);
        command.arg("--config-path").arg(bootstrap).arg("--admin-address-path").arg(admin);
        command.args(["--concurrency", "1", "--disable-hot-restart", "--log-level", "warning"]);
        command.args(node);
        Process::spawn(command)
    }
}

/// Where the objects live.
#[derive(Debug)]
pub(super) enum World {
    /// In a file.
    Files(Files),
    /// In an API server.
    Kubernetes(Box<Kubernetes>),
}

/// A gateway that works. Dropping it ends all of it.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) gateway: Gateway,
    pub(super) mode: Mode,
    /// Where clients send.
    pub(super) proxy: SocketAddr,
    /// Names the address of Envoy's admin interface.
    pub(super) admin: PathBuf,
    /// Control plane and Envoy.
    pub(super) processes: Vec<Process>,
    pub(super) world: World,
    /// What has been applied.
    pub(super) objects: Manifests,
    pub(super) fleet: Fleet,
    pub(super) picker: Picker,
    /// Files of all of them, as long as they run.
    pub(super) _directory: TempDir,
}

impl Site {
    /// Waits until a request is placed.
    ///
    /// # Errors
    /// When none is in time; the error shows what the control plane said.
    pub(super) async fn settled(mut self) -> Result<Self> {
        let wanted = Ask::post();
        let asked = placed(self.proxy, &wanted, SETTLED);
        let settled = match self.processes.first_mut() {
            Some(plane) => plane.while_alive(asked).await,
            None => asked.await,
        };
        settled.with_context(|| {
            let said = self.processes.iter().map(Process::output);
            format!("no request is placed; the control plane says:\n{}", said.collect::<String>())
        })?;
        Ok(self)
    }

    /// Applies each object in place of the one of its kind and name, or as a new one.
    ///
    /// # Errors
    /// When one is refused.
    pub(super) async fn put(&mut self, objects: Vec<Value>) -> Result<()> {
        for object in &objects {
            self.objects.put(object.clone());
        }
        match &self.world {
            World::Files(files) => files.write(&self.objects),
            World::Kubernetes(kubernetes) => kubernetes.apply(&objects).await,
        }
    }

    /// Applies what was applied before, and deletes what has come since.
    ///
    /// # Errors
    /// When it is refused.
    pub(super) async fn restore(&mut self, before: Manifests) -> Result<()> {
        let after = std::mem::replace(&mut self.objects, before);
        match &self.world {
            World::Files(files) => files.write(&self.objects),
            World::Kubernetes(kubernetes) => {
                let gone = after.0.iter().filter(|object| !self.objects.has(object));
                for object in gone {
                    kubernetes.delete(object).await?;
                }
                kubernetes.apply(&self.objects.0).await
            }
        }
    }

    /// The cluster of a gateway that runs in one.
    ///
    /// # Errors
    /// When it does not.
    pub(super) fn kubernetes(&self) -> Result<&Kubernetes> {
        match &self.world {
            World::Files(_) => bail!("{} runs in no cluster", self.gateway.title()),
            World::Kubernetes(kubernetes) => Ok(kubernetes),
        }
    }

    /// The address of a model server.
    ///
    /// # Errors
    /// When there is none of this number.
    pub(super) fn server(&self, number: usize) -> Result<SocketAddr> {
        self.fleet.servers.get(number).copied().with_context(|| format!("no server {number}"))
    }

    /// The sum of Envoy's statistics whose names contain all of `parts`.
    ///
    /// # Errors
    /// When the admin interface does not answer.
    pub(super) async fn stat(&self, parts: &[&str]) -> Result<u64> {
        let admin = fs::read_to_string(&self.admin)?.trim().parse()?;
        let answer = Client::http1(admin).get("/stats").await?;
        ensure!(answer.status == 200, "{} {}", answer.status, answer.text());
        let page = answer.text();
        let lines = page.lines().filter_map(|line| line.split_once(": "));
        let wanted = lines.filter(|(name, _)| parts.iter().all(|part| name.contains(part)));
        Ok(wanted.filter_map(|(_, value)| value.parse::<u64>().ok()).sum())
    }
}
