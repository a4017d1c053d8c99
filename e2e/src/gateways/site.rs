//! One gateway in one failure mode, with a picker and model servers.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;

use super::asking::{Ask, placed};
use super::cluster::Kubernetes;
use super::envoy_gateway::files::Files;
use super::gateway::{Gateway, Mode};
use super::manifests::Manifests;
use super::picker::Picker;
use crate::client::Client;
use crate::lodesman::Fleet;
use crate::process::Process;

/// From the start of a control plane, or a change of its objects, until Envoy does as it says.
const SETTLED: Duration = Duration::from_mins(1);

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
