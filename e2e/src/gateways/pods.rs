//! Pods as a Deployment means them, and the process of one.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::manifests::{Manifests, text};
use super::picker::Start;

/// The first container of a Deployment's pods.
const CONTAINER: &str = "/spec/template/spec/containers/0";

/// A pod of `deployment` on `node`.
///
/// # Errors
/// When the Deployment has no template.
pub(super) fn pod(deployment: &Value, name: &str, node: &str) -> Result<Value> {
    let template = deployment.pointer("/spec/template").context("no template")?;
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod"});
    pod["metadata"] = template["metadata"].clone();
    pod["metadata"]["name"] = json!(name);
    pod["spec"] = template["spec"].clone();
    pod["spec"]["nodeName"] = json!(node);
    Ok(pod)
}

/// A pod that becomes a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pod<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// Its namespace.
    pub(super) namespace: &'a str,
}

impl Pod<'_> {
    /// What the first container of `deployment` starts, with its ConfigMaps, which are among `objects`, as files below
    /// `directory`.
    ///
    /// # Errors
    /// When the Deployment names what is not there.
    pub(super) fn start(
        &self,
        binary: &Path,
        deployment: &Value,
        objects: &Manifests,
        directory: &Path,
    ) -> Result<Start> {
        let container = deployment.pointer(CONTAINER).context("no container")?;
        let environment = self.environment(container)?;
        let mut args = Vec::new();
        for arg in list(container, "args") {
            let mut arg = arg.as_str().context("an argument that is no text")?.to_owned();
            for (name, value) in &environment {
                arg = arg.replace(&format!("$({name})"), value);
            }
            args.push(arg);
        }
        for mount in list(container, "volumeMounts") {
            let (name, path) = (text(mount, "/name")?, text(mount, "/mountPath")?);
            let here = directory.join(name);
            write(config_map(deployment, objects, name)?, &here)?;
            for arg in &mut args {
                *arg = arg.replace(path, &here.to_string_lossy());
            }
        }
        Ok(Start { binary: binary.to_owned(), args, environment })
    }

    fn environment(&self, container: &Value) -> Result<Vec<(String, String)>> {
        let mut environment = Vec::new();
        for entry in list(container, "env") {
            let value = match entry.pointer("/valueFrom/fieldRef/fieldPath").and_then(Value::as_str)
            {
                Some("metadata.name") => self.name,
                Some("metadata.namespace") => self.namespace,
                _ => text(entry, "/value")?,
            };
            environment.push((text(entry, "/name")?.to_owned(), value.to_owned()));
        }
        Ok(environment)
    }
}

/// The ConfigMap that a volume of the Deployment shows.
fn config_map<'a>(deployment: &Value, objects: &'a Manifests, volume: &str) -> Result<&'a Value> {
    let volumes =
        list(deployment.pointer("/spec/template/spec").unwrap_or(&Value::Null), "volumes");
    let volume = volumes.iter().find(|entry| entry["name"] == volume).context("no such volume")?;
    let wanted = text(volume, "/configMap/name")?;
    let mut found = objects.of("ConfigMap");
    found
        .find(|object| object["metadata"]["name"] == wanted)
        .with_context(|| format!("no ConfigMap {wanted}"))
}

/// Writes the entries of a ConfigMap as files.
fn write(config_map: &Value, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory)?;
    for (name, content) in config_map["data"].as_object().context("an empty ConfigMap")? {
        fs::write(directory.join(name), content.as_str().context("an entry that is no text")?)?;
    }
    Ok(())
}

fn list<'a>(object: &'a Value, key: &str) -> &'a [Value] {
    object.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
