//! Kubernetes objects as JSON.

use serde_json::Value;

/// An object, whatever its kind.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Object(pub Value);

/// The objects of one installation.
#[derive(Clone, Debug)]
pub(super) struct Objects(pub Vec<Object>);

impl Object {
    pub(super) fn kind(&self) -> &str {
        self.text("/kind")
    }

    pub(super) fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// The API group, empty for the core.
    pub(super) fn group(&self) -> &str {
        self.text("/apiVersion").split_once('/').map_or("", |(group, _)| group)
    }

    /// The text at a path; empty where there is none.
    pub(super) fn text(&self, path: &str) -> &str {
        self.0.pointer(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// The list at a path; empty where there is none.
    pub(super) fn list(&self, path: &str) -> &[Value] {
        self.0.pointer(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// The containers of a Deployment, sidecars too.
    pub(super) fn containers(&self) -> impl Iterator<Item = &Value> {
        let sidecars = self.list("/spec/template/spec/initContainers");
        self.list("/spec/template/spec/containers").iter().chain(sidecars)
    }

    /// A container of a Deployment.
    pub(super) fn container(&self, name: &str) -> Option<&Value> {
        self.containers().find(|container| container["name"] == name)
    }
}

impl Objects {
    /// The objects of a stream of YAML documents.
    pub(super) fn parse(yaml: &str) -> Self {
        Self(serde_saphyr::from_multiple::<Value>(yaml).unwrap().into_iter().map(Object).collect())
    }

    /// Those of a kind.
    pub(super) fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Object> {
        self.0.iter().filter(move |object| object.kind() == kind)
    }

    /// The object of that kind and name.
    pub(super) fn find(&self, kind: &str, name: &str) -> Option<&Object> {
        self.0.iter().find(|object| object.kind() == kind && object.name() == name)
    }

    /// Deployments that run the picker, with its container.
    pub(super) fn pickers(&self) -> impl Iterator<Item = (&Object, &Value)> {
        self.of("Deployment").filter_map(|deployment| {
            deployment.container("lodesman").map(|container| (deployment, container))
        })
    }
}

/// The arguments of a container, with what the kubelet puts for `$(NAME)`; facts of the pod are their path.
pub(super) fn arguments(container: &Value) -> Vec<String> {
    let empty = Vec::new();
    let variables = container["env"].as_array().unwrap_or(&empty).iter().map(|variable| {
        let field = &variable["valueFrom"]["fieldRef"]["fieldPath"];
        let value = variable["value"].as_str().or(field.as_str()).unwrap_or_default();
        let value = if value == "status.podIP" { "127.0.0.1" } else { value };
        (format!("$({})", variable["name"].as_str().unwrap()), value)
    });
    let variables: Vec<_> = variables.collect();
    let expand = |arg: &Value| {
        let text = arg.as_str().unwrap().to_owned();
        variables.iter().fold(text, |text, (name, value)| text.replace(name, value))
    };
    container["args"].as_array().unwrap_or(&empty).iter().map(expand).collect()
}

/// Whether labels have all of a selector.
pub(super) fn selects(selector: &Value, labels: &Value) -> bool {
    let selector = selector.as_object().filter(|selector| !selector.is_empty());
    selector.is_some_and(|selector| selector.iter().all(|(key, value)| labels[key] == *value))
}
