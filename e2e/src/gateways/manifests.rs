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
        let found = self.0.iter().find(|object| is(object, "/kind", kind));
        found.with_context(|| format!("the manifests have no {kind}"))
    }

    /// The objects of this kind.
    pub(super) fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.0.iter().filter(move |object| is(object, "/kind", kind))
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
            ports.any(|item| item.get("containerPort").is_some_and(|number| *number == port))
        };
        self.of("Deployment")
            .find(listens)
            .with_context(|| format!("the manifests have no Deployment that listens on {port}"))
    }
}

/// Puts an entry into an object in place of what is there, if anything is; all above it must be there.
///
/// # Errors
/// When it is not.
pub(super) fn set(object: &mut Value, path: &str, value: Value) -> Result<()> {
    let (above, key) = path.rsplit_once('/').unwrap_or(("", path));
    let place = object.pointer_mut(above).and_then(Value::as_object_mut);
    place.with_context(|| format!("no object {above}"))?.insert(key.to_owned(), value);
    Ok(())
}

/// Whether the text of an object's entry is this.
pub(super) fn is(object: &Value, path: &str, value: &str) -> bool {
    object.pointer(path).is_some_and(|found| found == value)
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
    found.with_context(|| format!("no {pointer} in {}", name(object).unwrap_or("an object")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn route(name: &str, port: u16) -> Value {
        json!({"kind": "HTTPRoute", "metadata": {"name": name}, "spec": {"port": port}})
    }

    #[test]
    fn object_takes_the_place_of_the_one_of_its_kind_and_name() {
        let mut manifests = Manifests(vec![route("a", 1), route("b", 1)]);
        manifests.put(route("b", 2));
        manifests.put(route("c", 2));
        assert_eq!(manifests.0, [route("a", 1), route("b", 2), route("c", 2)]);
        assert!(manifests.has(&route("c", 3)) && !manifests.has(&route("d", 1)));
    }

    #[test]
    fn entry_is_set_anew_or_in_place_but_not_below_nothing() {
        let mut object = route("a", 1);
        set(&mut object, "/spec/port", json!(2)).unwrap();
        set(&mut object, "/spec/host", json!("x")).unwrap();
        set(&mut object, "/apiVersion", json!("v1")).unwrap();
        assert_eq!(object["spec"], json!({"port": 2, "host": "x"}));
        assert!(is(&object, "/apiVersion", "v1"));
        assert!(set(&mut object, "/status/ready", json!(true)).is_err());
    }
}
