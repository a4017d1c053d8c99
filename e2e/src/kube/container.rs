//! The container of a Deployment, played by a process.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;

use super::Namespace;

/// What the only container of a Deployment runs: its arguments, its environment and the files that it mounts.
#[derive(Debug)]
pub struct Container {
    args: Vec<String>,
    environment: Vec<(String, String)>,
    /// Mounted ConfigMaps; they go with this value.
    _files: TempDir,
}

impl Container {
    /// Reads the Deployment `name` as a kubelet would that runs it in the pod `pod`.
    ///
    /// # Errors
    /// When there is none, or a ConfigMap that it mounts is missing.
    pub async fn of(namespace: &Namespace<'_>, name: &str, pod: &str) -> Result<Self> {
        let object = namespace.read(("apps/v1", "Deployment"), name).await?;
        let template = object.data.pointer("/spec/template/spec").context("no pod template")?;
        Self::of_pod(namespace, template, pod, None).await
    }

    /// Reads the spec of the pod `pod`, which is at `ip`.
    ///
    /// # Errors
    /// When a ConfigMap that it mounts is missing.
    pub(super) async fn of_pod(
        namespace: &Namespace<'_>,
        template: &Value,
        pod: &str,
        ip: Option<IpAddr>,
    ) -> Result<Self> {
        let container = template.pointer("/containers/0").context("no container")?;
        let ip = ip.map(|ip| ip.to_string());
        let environment: Vec<_> = each(container, "env")
            .filter_map(|variable| {
                let value = match text(variable, "/valueFrom/fieldRef/fieldPath") {
                    Some("metadata.namespace") => &namespace.name,
                    Some("metadata.name") => pod,
                    Some("status.podIP") => ip.as_deref()?,
                    _ => text(variable, "/value")?,
                };
                Some((text(variable, "/name")?.to_owned(), value.to_owned()))
            })
            .collect();
        let mut args: Vec<_> =
            each(container, "args").filter_map(Value::as_str).map(str::to_owned).collect();
        for (name, value) in &environment {
            for arg in &mut args {
                *arg = arg.replace(&format!("$({name})"), value);
            }
        }
        let files = tempfile::tempdir()?;
        for mount in each(container, "volumeMounts") {
            let (name, path) =
                (text(mount, "/name"), text(mount, "/mountPath").context("no path")?);
            let volume = each(template, "volumes").find(|volume| text(volume, "/name") == name);
            let Some(map) = volume.and_then(|volume| text(volume, "/configMap/name")) else {
                continue;
            };
            let folder = files.path().join(map);
            mount_map(namespace, map, &folder).await?;
            let folder = folder.display().to_string();
            for arg in &mut args {
                *arg = arg.replace(path, &folder);
            }
        }
        Ok(Self { args, environment, _files: files })
    }

    /// Its arguments.
    pub fn args(&self) -> &[String] {
        &self.args
    }

    /// `binary` in its environment, as the account of `kubeconfig`; without its arguments.
    pub fn command(&self, binary: &Path, kubeconfig: &Path) -> Command {
        let mut command = Command::new(binary);
        command.envs(self.environment.iter().cloned()).env("KUBECONFIG", kubeconfig);
        command
    }
}

async fn mount_map(namespace: &Namespace<'_>, name: &str, folder: &Path) -> Result<()> {
    let map = namespace.read(("v1", "ConfigMap"), name).await?;
    fs::create_dir(folder)?;
    for (file, content) in map.data.get("data").and_then(Value::as_object).into_iter().flatten() {
        fs::write(folder.join(file), content.as_str().unwrap_or_default())?;
    }
    Ok(())
}

fn each<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    object.get(field).and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(object: &'a Value, path: &str) -> Option<&'a str> {
    object.pointer(path).and_then(Value::as_str)
}
