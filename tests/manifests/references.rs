//! What is named is there.

use serde_json::Value;

use super::objects::{Object, Objects, selects};

/// Everything that is wrong with the names in an installation.
pub(super) fn dangling(objects: &Objects) -> Vec<String> {
    let mut problems = twice(objects);
    for object in &objects.0 {
        let wrong = |what: String| format!("{} {}: {what}", object.kind(), object.name());
        problems.extend(named(object).into_iter().filter_map(|(kind, name)| {
            objects.find(kind, &name).is_none().then(|| wrong(format!("no {kind} {name}")))
        }));
        problems.extend(unselected(objects, object).map(wrong));
        problems.extend(closed(objects, object).into_iter().map(wrong));
    }
    problems
}

fn twice(objects: &Objects) -> Vec<String> {
    let all = objects.0.iter().enumerate();
    all.filter(|(at, object)| {
        objects.0[..*at]
            .iter()
            .any(|other| (other.kind(), other.name()) == (object.kind(), object.name()))
    })
    .map(|(_, object)| format!("{} {}: twice", object.kind(), object.name()))
    .collect()
}

/// Kind and name of all that an object names, but for gateways, which are the user's.
fn named(object: &Object) -> Vec<(&str, String)> {
    let text = |kind, path| vec![(kind, object.text(path).to_owned())];
    let each = |value: &Value, kind| (kind, value["name"].as_str().unwrap().to_owned());
    let targets = || {
        let list = object.list("/spec/targetRefs").iter();
        list.filter(|target| target["kind"] == "HTTPRoute").map(move |t| each(t, "HTTPRoute"))
    };
    match object.kind() {
        "InferencePool" if object.group() == "inference.networking.k8s.io" => {
            text("Service", "/spec/endpointPickerRef/name")
        }
        "InferencePool" => text("Service", "/spec/extensionRef/name"),
        "DestinationRule" => text("Service", "/spec/host"),
        "RoleBinding" => vec![
            ("Role", object.text("/roleRef/name").to_owned()),
            ("ServiceAccount", object.text("/subjects/0/name").to_owned()),
        ],
        "ClusterRoleBinding" => text("ServiceAccount", "/subjects/0/name"),
        "Role" => {
            let rules = object.list("/rules").iter();
            let pools = rules.filter(|rule| rule["resources"][0] == "inferencepools");
            pools
                .map(|r| ("InferencePool", r["resourceNames"][0].as_str().unwrap().to_owned()))
                .collect()
        }
        "HTTPRoute" => object
            .list("/spec/rules/0/backendRefs")
            .iter()
            .map(|r| {
                each(r, if r["kind"] == "InferencePool" { "InferencePool" } else { "Service" })
            })
            .collect(),
        "EnvoyExtensionPolicy" => {
            let backends = object.list("/spec/extProc/0/backendRefs").iter();
            backends.map(|backend| each(backend, "Service")).chain(targets()).collect()
        }
        "BackendTrafficPolicy" => targets().collect(),
        "Deployment" => of_pods(object),
        _ => Vec::new(),
    }
}

fn of_pods(deployment: &Object) -> Vec<(&str, String)> {
    let owned = |value: &Value| value.as_str().map(str::to_owned);
    let volumes = deployment.list("/spec/template/spec/volumes").iter();
    let maps = volumes.filter_map(|volume| owned(&volume["configMap"]["name"]));
    let account = deployment.text("/spec/template/spec/serviceAccountName").to_owned();
    let account = (!account.is_empty()).then_some(("ServiceAccount", account));
    let variables = deployment.containers().flat_map(|c| c["env"].as_array().into_iter().flatten());
    let values = variables.filter_map(|variable| {
        let kind = match variable["name"].as_str()? {
            "POOL_NAME" => "InferencePool",
            "PICKER" => "Service",
            _ => return None,
        };
        Some((kind, owned(&variable["value"])?))
    });
    maps.map(|name| ("ConfigMap", name)).chain(account).chain(values).collect()
}

/// Whether a selector is a pool's own: the pods of model servers are the user's.
fn of_models(objects: &Objects, selector: &Value) -> bool {
    objects
        .of("InferencePool")
        .map(|pool| &pool.0["spec"]["selector"])
        .any(|whole| *selector == *whole || *selector == whole["matchLabels"])
}

/// A selector that selects no pod.
fn unselected<'a>(objects: &'a Objects, object: &'a Object) -> impl Iterator<Item = String> + 'a {
    let own = match object.kind() {
        "Service" => vec![&object.0["spec"]["selector"]],
        "PodDisruptionBudget" => vec![&object.0["spec"]["selector"]["matchLabels"]],
        "Deployment" => {
            let spread = object.list("/spec/template/spec/topologySpreadConstraints").iter();
            spread
                .map(|constraint| &constraint["labelSelector"]["matchLabels"])
                .chain([&object.0["spec"]["selector"]["matchLabels"]])
                .collect()
        }
        _ => Vec::new(),
    };
    own.into_iter()
        .filter(|selector| !of_models(objects, selector) && pods(objects, selector).is_empty())
        .map(|selector| format!("{selector} selects nothing"))
}

/// Ports of a Service that its pods do not have.
fn closed(objects: &Objects, service: &Object) -> Vec<String> {
    if service.kind() != "Service" {
        return Vec::new();
    }
    let pods = pods(objects, &service.0["spec"]["selector"]);
    let open = |deployment: &Object, port: &Value| {
        deployment.containers().any(|container| {
            let ports = container["ports"].as_array().into_iter().flatten();
            ports.into_iter().any(|p| p["name"] == *port || p["containerPort"] == *port)
        })
    };
    let targets = service.list("/spec/ports").iter().map(|port| &port["targetPort"]);
    targets
        .filter(|target| !pods.iter().all(|deployment| open(deployment, target)))
        .map(|target| format!("no port {target}"))
        .collect()
}

/// Deployments whose pods have the labels.
fn pods<'a>(objects: &'a Objects, selector: &Value) -> Vec<&'a Object> {
    let labels = |deployment: &'a Object| &deployment.0["spec"]["template"]["metadata"]["labels"];
    objects.of("Deployment").filter(|d| selects(selector, labels(d))).collect()
}
