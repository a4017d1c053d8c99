//! The Helm chart.

use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};

use lodesman_e2e::kube::Cluster;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::OnceCell;

use super::objects::{Object, Objects, arguments};
use super::references::dangling;
use super::render::{kustomize, manifests};

/// Values for gateways, each the same as the overlay of its name.
pub(super) const PRESETS: [&str; 5] =
    ["envoy-gateway", "envoy-gateway-failopen", "istio", "standalone", "standalone-service"];

/// The file of a preset.
pub(super) fn values(preset: &str) -> String {
    manifests().join(format!("chart/presets/{preset}.yaml")).display().to_string()
}

/// The model servers of the base.
const SERVERS: &str = "pool.selector.app=model-server";

/// What the chart renders to; none where there is no helm, which is said, and an error under `CI=true`.
pub(super) async fn template(args: &[&str]) -> Option<Objects> {
    served(SERVERS, args).await
}

async fn served(servers: &str, args: &[&str]) -> Option<Objects> {
    let output = render(&[&["--set", servers], args].concat()).await?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
    Some(Objects::parse(&String::from_utf8(output.stdout).unwrap()))
}

/// The release is called as the base's objects are.
async fn render(args: &[&str]) -> Option<Output> {
    let chart = manifests().join("chart/lodesman");
    let mut command = Command::new(helm().await?);
    command.args(["template", "lodesman"]).arg(chart).args(["--kube-version", "1.33.0"]);
    Some(command.args(args).output().await.unwrap())
}

async fn helm() -> Option<&'static str> {
    static HELM: OnceCell<Option<String>> = OnceCell::const_new();
    let path = HELM.get_or_init(async || {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/helm/build.sh");
        let output = Command::new(script).stderr(Stdio::inherit()).output().await.unwrap();
        if output.status.success() {
            return Some(String::from_utf8(output.stdout).unwrap().trim_end().to_owned());
        }
        assert!(!std::env::var("CI").is_ok_and(|ci| ci == "true"), "helm cannot be built");
        // A line that the test harness does not capture.
        std::io::stderr().write_all(b"NOT RUN, no helm: the tests of the chart\n").unwrap();
        None
    });
    path.await.as_deref()
}

#[tokio::test]
async fn the_chart_with_its_presets_is_the_overlays() {
    let Some(cluster) = Cluster::shared().await else { return };
    for (preset, folder) in PRESETS.map(|preset| (values(preset), format!("overlays/{preset}"))) {
        let how = ["--set", "pool.name=llm", "--namespace", "default", "-f", &preset];
        let Some(chart) = template(&how).await else { return };
        assert_eq!(differences(&kustomize(cluster, &folder).await, &chart), [""; 0], "{folder}");
    }
    let Some(chart) = template(&["--set", "pool.name=llm"]).await else { return };
    assert_eq!(differences(&kustomize(cluster, "base").await, &chart), [""; 0]);
}

#[tokio::test]
async fn names_in_the_chart_are_those_of_something_in_it() {
    for preset in PRESETS {
        let Some(chart) = template(&["-f", &values(preset)]).await else { return };
        assert_eq!(dangling(&chart), [""; 0], "{preset}");
    }
    let older = "pool.group=inference.networking.x-k8s.io";
    let Some(chart) = template(&["--set", older]).await else { return };
    assert_eq!(dangling(&chart), [""; 0]);
}

#[tokio::test]
async fn the_lease_is_bound_to_its_name() {
    let Some(chart) = template(&["--namespace", "chat", "--set", "pool.name=llm"]).await else {
        return;
    };
    let role = chart.of("Role").next().unwrap();
    let leases: Vec<_> =
        role.list("/rules").iter().filter(|rule| rule["resources"][0] == "leases").collect();
    assert_eq!(leases[0]["verbs"], json!(["create"]));
    assert_eq!(leases[1]["verbs"], json!(["get", "update"]));
    assert_eq!(leases[1]["resourceNames"], json!(["epp-chat-llm.llm-d.ai"]));
}

#[tokio::test]
async fn values_that_make_no_sense_are_refused() {
    let bad = [
        ("gateway.kind=nginx", "/gateway/kind"),
        ("pool.failureMode=FailClosed", "/pool/failureMode"),
        ("pool.targetPorts={8000,8000}", "/pool/targetPorts"),
        ("pool.targetPorts={0}", "/pool/targetPorts/0"),
        ("pool.selector=null", "/pool"),
        ("pool.create=false", "pool.name is empty"),
        ("gateway.kind=envoy-gateway,pool.targetPorts={1,2}", "pool.targetPorts has several"),
        ("envoy.mode=daemon", "/envoy/mode"),
        (
            "gateway.kind=standalone,gateway.metadataNamespace=ai",
            "gateway.metadataNamespace is given",
        ),
        ("config.kind=Deployment", "/config/kind"),
        ("replicas=0", "/replicas"),
        ("replica=3", "'replica'"),
    ];
    for (value, place) in bad {
        refused(&["--set", SERVERS, "--set", value], place).await;
    }
    for preset in PRESETS {
        refused(&["-f", &values(preset)], "pool.selector is empty").await;
    }
}

#[tokio::test]
async fn labels_that_are_given_are_all_that_select() {
    for preset in PRESETS {
        let given = ["-f", &values(preset)];
        let Some(chart) = served("pool.selector.role=llm", &given).await else { return };
        let text = json!(chart.0.iter().map(|object| &object.0).collect::<Vec<_>>()).to_string();
        for default in [r#""app":"model-server""#, "app=model-server"] {
            assert!(!text.contains(default), "{preset}: {text}");
        }
        assert_eq!(dangling(&chart), [""; 0], "{preset}");
    }
}

async fn refused(args: &[&str], place: &str) {
    let Some(output) = render(args).await else { return };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains(place), "{args:?}: {said}");
}

/// Where the chart's objects are not what the overlay's are.
fn differences(overlay: &Objects, chart: &Objects) -> Vec<String> {
    let plain = |objects: &Objects| -> Vec<Object> {
        let all = objects.0.iter().filter(|object| !is_test(object));
        let mut all: Vec<_> = all.cloned().map(comparable).collect();
        all.sort_by_key(|object| (object.kind().to_owned(), object.name().to_owned()));
        all
    };
    let (overlay, chart) = (plain(overlay), plain(chart));
    let mut found = Vec::new();
    let names = |objects: &[Object]| -> Value {
        objects.iter().map(|o| json!([o.kind(), o.name()])).collect()
    };
    differ("objects", &names(&overlay), &names(&chart), &mut found);
    for (one, other) in overlay.iter().zip(&chart) {
        differ(&format!("{} {}", one.kind(), one.name()), &one.0, &other.0, &mut found);
    }
    found
}

fn is_test(object: &Object) -> bool {
    object.text("/metadata/annotations/helm.sh~1hook") == "test"
}

fn differ(path: &str, one: &Value, other: &Value, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let keys = one.keys().chain(other.keys().filter(|key| !one.contains_key(*key)));
            for key in keys {
                let at = |map: &serde_json::Map<_, _>| map.get(key).cloned().unwrap_or_default();
                differ(&format!("{path}.{key}"), &at(one), &at(other), found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (at, (one, other)) in one.iter().zip(other).enumerate() {
                differ(&format!("{path}[{at}]"), one, other, found);
            }
        }
        _ if one == other => {}
        _ => found.push(format!("{path}: {one} in the overlay, {other} in the chart")),
    }
}

/// Without what kustomize and helm do each in their way: labels of an installation, names by content, variables.
fn comparable(mut object: Object) -> Object {
    if object.kind() == "ConfigMap" {
        let data = object.0["data"].as_object_mut().unwrap();
        for text in data.values_mut() {
            *text = serde_saphyr::from_str(text.as_str().unwrap()).unwrap();
        }
        object.0["metadata"]["name"] = json!(without_hash(object.name()));
    }
    if object.kind() == "Deployment" {
        pod_template(&mut object.0["spec"]["template"]);
    }
    if object.kind() == "Role" {
        // The chart knows the name of the lease; a test of its own looks at that.
        let rules = object.0["rules"].as_array_mut().unwrap();
        rules.retain(|rule| rule["resources"][0] != "leases");
    }
    let metadata = object.0["metadata"].as_object_mut().unwrap();
    metadata.remove("labels");
    metadata.remove("namespace");
    if object.kind() == "RoleBinding" {
        object.0["subjects"][0].as_object_mut().unwrap().remove("namespace");
    }
    unlabelled(&mut object.0);
    object
}

fn pod_template(template: &mut Value) {
    template["metadata"].as_object_mut().unwrap().remove("annotations");
    let spec = template["spec"].as_object_mut().unwrap();
    for key in ["containers", "initContainers"] {
        for container in spec.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
            let args = arguments(container).into_iter();
            container["args"] = args
                .map(|arg| serde_saphyr::from_str(&arg).unwrap())
                .map(|arg: Value| arg)
                .collect();
            let container = container.as_object_mut().unwrap();
            container.remove("imagePullPolicy");
            if let Some(Value::Array(variables)) = container.get_mut("env") {
                variables.retain(|variable| variable["value"].is_null());
            }
            if container.get("env").is_some_and(|env| env == &json!([])) {
                container.remove("env");
            }
        }
    }
    let volumes = spec["volumes"].as_array_mut().unwrap();
    for volume in &mut *volumes {
        let name = &mut volume["configMap"]["name"];
        *name = json!(without_hash(name.as_str().unwrap()));
    }
    volumes.sort_by_key(|volume| volume["name"].as_str().unwrap().to_owned());
}

/// A name without the hash of its content that kustomize puts behind it.
fn without_hash(name: &str) -> &str {
    let is_hash = |part: &str| part.len() == 10 && part.contains(|c: char| c.is_ascii_digit());
    name.rsplit_once('-').filter(|(_, hash)| is_hash(hash)).map_or(name, |(name, _)| name)
}

/// Drops the label that tells releases apart.
fn unlabelled(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("app.kubernetes.io/instance");
            map.values_mut().for_each(unlabelled);
        }
        Value::Array(list) => list.iter_mut().for_each(unlabelled),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
