//! Pods as a Deployment means them, and the process of one.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::manifests::{Manifests, is, set, text};
use super::picker::Start;

/// The first container of a Deployment's pods.
const CONTAINER: &str = "/spec/template/spec/containers/0";

/// A pod of `deployment` on `node`.
///
/// # Errors
/// When the Deployment has no template.
pub(super) fn pod(deployment: &Value, name: &str, node: &str) -> Result<Value> {
    let template = deployment.pointer("/spec/template").context("no template")?;
    let mut pod = template.clone();
    set(&mut pod, "/apiVersion", json!("v1"))?;
    set(&mut pod, "/kind", json!("Pod"))?;
    set(&mut pod, "/metadata/name", json!(name))?;
    set(&mut pod, "/spec/nodeName", json!(node))?;
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
    let volume =
        volumes.iter().find(|entry| is(entry, "/name", volume)).context("no such volume")?;
    let wanted = text(volume, "/configMap/name")?;
    let mut found = objects.of("ConfigMap");
    found
        .find(|object| is(object, "/metadata/name", wanted))
        .with_context(|| format!("no ConfigMap {wanted}"))
}

/// Writes the entries of a ConfigMap as files.
fn write(config_map: &Value, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory)?;
    let data = config_map.get("data").and_then(Value::as_object);
    for (name, content) in data.context("an empty ConfigMap")? {
        fs::write(directory.join(name), content.as_str().context("an entry that is no text")?)?;
    }
    Ok(())
}

fn list<'a>(object: &'a Value, key: &str) -> &'a [Value] {
    object.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment() -> Value {
        json!({"spec": {"template": {"metadata": {"labels": {"app": "x"}}, "spec": {
            "containers": [{
                "args": ["--pool=$(POOL)", "--me=$(NAMESPACE)/$(NAME)", "--file=/etc/x/config.yaml"],
                "env": [
                    {"name": "POOL", "value": "llm"},
                    {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                ],
                "volumeMounts": [{"name": "config", "mountPath": "/etc/x"}],
            }],
            "volumes": [{"name": "config", "configMap": {"name": "x-1"}}],
        }}}})
    }

    #[test]
    fn process_has_the_arguments_and_files_of_the_container() {
        let config = json!({
            "kind": "ConfigMap",
            "metadata": {"name": "x-1"},
            "data": {"config.yaml": "kind: Config"},
        });
        let directory = tempfile::tempdir().unwrap();
        let pod = Pod { name: "x-0", namespace: "test" };
        let objects = Manifests(vec![config]);
        let start = pod.start(Path::new("x"), &deployment(), &objects, directory.path()).unwrap();
        let file = directory.path().join("config/config.yaml");
        let expected = ["--pool=llm", "--me=test/x-0", &format!("--file={}", file.display())];
        assert_eq!(start.args, expected);
        assert_eq!(fs::read_to_string(file).unwrap(), "kind: Config");
        assert!(start.environment.contains(&("NAME".to_owned(), "x-0".to_owned())));
    }

    #[test]
    fn pod_is_what_the_template_says_on_a_node() {
        let pod = pod(&deployment(), "x-0", "node").unwrap();
        assert_eq!(pod["metadata"], json!({"labels": {"app": "x"}, "name": "x-0"}));
        assert_eq!((&pod["kind"], &pod["spec"]["nodeName"]), (&json!("Pod"), &json!("node")));
    }
}
