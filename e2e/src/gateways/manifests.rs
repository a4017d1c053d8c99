//! The manifests that users apply, rendered, and what the parts that are played here take from them.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

/// Objects in the order in which kustomize prints them.
#[derive(Debug, Clone)]
pub(super) struct Manifests(pub(super) Vec<Value>);

impl Manifests {
    /// Renders the kustomization in `directory`.
    ///
    /// # Errors
    /// When it cannot be rendered; the error says why.
    pub(super) async fn render(kubectl: &Path, directory: &Path) -> Result<Self> {
        let output = Command::new(kubectl).arg("kustomize").arg(directory).output().await;
        let output = output.with_context(|| format!("could not run {}", kubectl.display()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {said}", directory.display());
        Ok(Self(serde_saphyr::from_multiple(&String::from_utf8(output.stdout)?)?))
    }

    /// Puts `object` in the place of the one of its kind and name, or at the end.
    pub(super) fn put(&mut self, object: Value) {
        match self.0.iter_mut().find(|other| same(other, &object)) {
            Some(place) => *place = object,
            None => self.0.push(object),
        }
    }

    /// Whether there is an object of that one's kind and name.
    pub(super) fn has(&self, object: &Value) -> bool {
        self.0.iter().any(|other| same(other, object))
    }

    /// The first object of this kind.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn one(&self, kind: &str) -> Result<&Value> {
        let mut found = self.0.iter().filter(|object| object["kind"] == kind);
        found.next().with_context(|| format!("the manifests have no {kind}"))
    }

    /// The objects of this kind.
    pub(super) fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.0.iter().filter(move |object| object["kind"] == kind)
    }

    /// The port of the Gateway's listener.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn listener(&self) -> Result<u16> {
        let port = self.one("Gateway")?.pointer("/spec/listeners/0/port").and_then(Value::as_u64);
        Ok(u16::try_from(port.context("the Gateway has no listener")?)?)
    }

    /// The Deployment whose pods listen on this port.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn deployment(&self, port: u16) -> Result<&Value> {
        let listens = |object: &&Value| {
            let ports = object.pointer("/spec/template/spec/containers/0/ports");
            let mut ports = ports.and_then(Value::as_array).into_iter().flatten();
            ports.any(|item| item["containerPort"] == port)
        };
        self.of("Deployment")
            .find(listens)
            .with_context(|| format!("the manifests have no Deployment that listens on {port}"))
    }
}

/// Whether both have the same kind and name.
fn same(one: &Value, other: &Value) -> bool {
    ["/kind", "/metadata/name"].iter().all(|path| one.pointer(path) == other.pointer(path))
}

/// The name of an object.
///
/// # Errors
/// When it has none.
pub(super) fn name(object: &Value) -> Result<&str> {
    object.pointer("/metadata/name").and_then(Value::as_str).context("an object without a name")
}

/// The text of an object's entry.
///
/// # Errors
/// When there is none.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> Result<&'a str> {
    let found = object.pointer(pointer).and_then(Value::as_str);
    found.with_context(|| {
        format!("no {pointer} in {} {}", object["kind"], object["metadata"]["name"])
    })
}
