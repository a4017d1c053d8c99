//! What every site is made of.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use serde_json::json;

use super::gateway::Mode;
use super::manifests::{Manifests, set};
use crate::lodesman::Fleet;
use crate::process::Process;

/// Model servers of a site.
const SERVERS: usize = 3;
/// Where the first of them is; each further one has the next address.
const FIRST: ([u8; 4], u16) = ([10, 77, 1, 1], 8000);
/// Where their faults are ordered.
pub(super) const SIM_ADMIN: ([u8; 4], u16) = ([127, 0, 0, 1], 8001);
/// Adapters that they may load.
pub(super) const ADAPTERS: [&str; 2] = ["sql", "chat"];

/// Programs and manifests.
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
