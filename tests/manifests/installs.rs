//! The overlays.

use std::collections::BTreeSet;

use lodesman_e2e::kube::Cluster;
use serde_json::{Value, json};

use super::chart::template;
use super::objects::{Object, Objects, arguments, selects};
use super::references::dangling;
use super::render::{BESIDE, GUARDED, INSTALLS, OLDER, customized, documented, kustomize};

#[tokio::test]
async fn every_name_in_an_overlay_is_that_of_something_in_it() {
    let Some(cluster) = Cluster::shared().await else { return };
    for folder in INSTALLS.iter().chain(&BESIDE) {
        let objects = kustomize(cluster, folder).await;
        assert_eq!(dangling(&objects), [""; 0], "{folder}");
    }
}

#[tokio::test]
async fn names_may_be_changed_and_what_names_them_follows() {
    let Some(cluster) = Cluster::shared().await else { return };
    for folder in INSTALLS {
        let text = format!("resources: ['{{}}/{folder}']\nnamePrefix: my-\nnameSuffix: -large\n");
        let objects = customized(cluster, &text).await;
        assert_eq!(dangling(&objects), [""; 0], "{folder}");
    }
}

/// The Service of the model servers as the pool has them, without the label of an installation.
const FOLLOW: &str = "replacements:
- source: {kind: InferencePool, fieldPath: spec.selector.matchLabels}
  targets: [{select: {kind: Service, name: llm-servers}, fieldPaths: [spec.selector]}]
";

// FR-113
#[tokio::test]
async fn two_installations_in_a_namespace_do_not_meet() {
    let Some(cluster) = Cluster::shared().await else { return };
    for folder in INSTALLS.iter().filter(|folder| folder.starts_with("overlays")) {
        let mut pair = Vec::new();
        for name in ["a", "b"] {
            let labels = format!("{{app.kubernetes.io/instance: {name}}}");
            let text = format!(
                "resources: ['{{}}/{folder}']\nnameSuffix: -{name}\nlabels:\n\
                 - {{pairs: {labels}, includeSelectors: true}}\n{}",
                if folder.contains("standalone") { "" } else { FOLLOW }
            );
            pair.push(customized(cluster, &text).await);
        }
        let names = |objects: &Objects| -> BTreeSet<(String, String)> {
            objects.0.iter().map(|o| (o.kind().to_owned(), o.name().to_owned())).collect()
        };
        assert!(names(&pair[0]).is_disjoint(&names(&pair[1])), "{folder}");
        for (one, other) in [(&pair[0], &pair[1]), (&pair[1], &pair[0])] {
            assert_eq!(dangling(one), [""; 0], "{folder}");
            let stray = one.of("Service").find(|service| reaches(service, other));
            assert_eq!(stray.map(Object::name), None, "{folder}");
        }
    }
}

/// Whether a Service sends to pods of an installation; model servers are common to all.
fn reaches(service: &Object, objects: &Objects) -> bool {
    let selector = &service.0["spec"]["selector"];
    let labels = |object: &Object| object.0["spec"]["template"]["metadata"]["labels"].clone();
    objects.of("Deployment").any(|deployment| selects(selector, &labels(deployment)))
}

/// An example of the page on Kubernetes, for another overlay than the one it shows.
async fn of_ones_own(cluster: &Cluster, at: usize, overlay: &str) -> Objects {
    let example = documented("docs/kubernetes.md").remove(at);
    let (resources, rest) = example.split_once('\n').unwrap();
    assert!(resources.starts_with("resources: [../lodesman/manifests/overlays/"), "{resources}");
    customized(cluster, &format!("resources: ['{{}}/{overlay}']\n{rest}")).await
}

fn has_the_image_of_ones_own(objects: &Objects) -> bool {
    let mut images = objects.pickers().filter_map(|(_, picker)| picker["image"].as_str());
    images.all(|image| image.starts_with("registry.example/lodesman:"))
}

#[tokio::test]
async fn the_documented_overlay_of_ones_own_fits_all_that_have_a_pool() {
    let Some(cluster) = Cluster::shared().await else { return };
    let (labels, port) = (json!({"role": "vllm"}), json!(8080));
    for folder in ["istio", "envoy-gateway", "envoy-gateway-failopen"] {
        let objects = of_ones_own(cluster, 0, &format!("overlays/{folder}")).await;
        assert_eq!(dangling(&objects), [""; 0], "{folder}");
        let pool = &objects.find("InferencePool", "llm-large").unwrap().0["spec"];
        assert_eq!(pool["selector"]["matchLabels"], labels, "{folder}");
        assert_eq!(pool["targetPorts"], json!([{"number": port}]), "{folder}");
        assert!(has_the_image_of_ones_own(&objects), "{folder}");
        let route = &objects.of("HTTPRoute").next().unwrap().0["spec"];
        assert_eq!(route["parentRefs"][0]["name"], "my-gateway", "{folder}");
        assert_eq!(route["hostnames"], json!(["large.example"]), "{folder}");
        for servers in objects.of("Service").filter(|s| s.name().starts_with("llm-servers")) {
            assert_eq!(servers.0["spec"]["selector"], labels, "{folder}");
            assert_eq!(servers.0["spec"]["ports"][0]["targetPort"], port, "{folder}");
        }
    }
}

#[tokio::test]
async fn the_documented_overlay_without_a_pool_selects_by_flags() {
    let Some(cluster) = Cluster::shared().await else { return };
    for folder in ["overlays/standalone", "overlays/standalone-service"] {
        let objects = of_ones_own(cluster, 1, folder).await;
        assert_eq!(dangling(&objects), [""; 0], "{folder}");
        assert!(has_the_image_of_ones_own(&objects), "{folder}");
        let (_, picker) = objects.pickers().next().unwrap();
        let args = arguments(picker);
        assert_eq!(args[..2], ["--endpoint-selector=role=vllm", "--endpoint-target-ports=8080"]);
        assert!(!args.iter().any(|arg| arg.contains("model-server")), "{folder}: {args:?}");
    }
}

#[tokio::test]
async fn pods_of_a_trial_are_those_of_its_pool() {
    let Some(cluster) = Cluster::shared().await else { return };
    for model in ["models/sim", "models/vllm"] {
        let servers = kustomize(cluster, model).await;
        let server = servers.of("Deployment").next().unwrap();
        let labels = &server.0["spec"]["template"]["metadata"]["labels"];
        let port = &server.list("/spec/template/spec/containers/0/ports")[0]["containerPort"];
        let base = kustomize(cluster, "base").await;
        let pool = &base.of("InferencePool").next().unwrap().0["spec"];
        assert!(selects(&pool["selector"]["matchLabels"], labels), "{model}");
        assert_eq!(pool["targetPorts"][0]["number"], *port, "{model}");
    }
}

#[tokio::test]
async fn the_older_pool_is_watched_where_it_is_made() {
    let Some(cluster) = Cluster::shared().await else { return };
    let objects = customized(cluster, OLDER).await;
    assert_eq!(dangling(&objects), [""; 0]);
    let group = "inference.networking.x-k8s.io";
    let pools: Vec<_> = objects.of("InferencePool").map(Object::group).collect();
    assert_eq!(pools, [group]);
    let (_, picker) = objects.pickers().next().unwrap();
    let args = picker["args"].as_array().unwrap();
    assert!(args.contains(&Value::from(format!("--pool-group={group}"))), "{args:?}");
    let role = objects.of("Role").next().unwrap();
    let pools = role.list("/rules").iter().find(|rule| rule["resources"][0] == "inferencepools");
    assert_eq!(pools.unwrap()["apiGroups"][0], group);
}

#[tokio::test]
async fn who_reads_metrics_is_asked_where_that_is_wanted_and_may_be() {
    let Some(cluster) = Cluster::shared().await else { return };
    let objects = customized(cluster, GUARDED).await;
    assert_eq!(dangling(&objects), [""; 0]);
    let (_, picker) = objects.pickers().next().unwrap();
    let mut args = picker["args"].as_array().unwrap().iter().filter_map(Value::as_str);
    let last = args.rfind(|arg| arg.starts_with("--metrics-endpoint-auth"));
    assert_eq!(last, Some("--metrics-endpoint-auth=true"), "the last of a repeated flag counts");
    let binding = objects.of("ClusterRoleBinding").next().unwrap();
    assert_eq!(binding.text("/roleRef/name"), "system:auth-delegator");
    let account = objects.of("ServiceAccount").next().unwrap();
    let subject = &binding.list("/subjects")[0];
    assert_eq!(subject["name"], account.name());
    assert_eq!(subject["namespace"], "chat", "of the kustomization that uses it");
    let Some(chart) = template(&["--namespace", "chat", "--set", "metrics.auth=true"]).await else {
        return;
    };
    assert_eq!(dangling(&chart), [""; 0]);
    let of_chart = chart.of("ClusterRoleBinding").next().unwrap();
    assert_eq!(of_chart.list("/subjects")[0], *subject);
    assert_eq!(of_chart.0["roleRef"], binding.0["roleRef"]);
    let rules = |objects: &Objects| objects.of("ClusterRole").next().unwrap().0["rules"].clone();
    assert_eq!(rules(&chart), rules(&objects));
}

#[tokio::test]
async fn without_a_pool_none_is_asked_for() {
    let Some(cluster) = Cluster::shared().await else { return };
    for folder in ["overlays/standalone", "overlays/standalone-service"] {
        let objects = kustomize(cluster, folder).await;
        assert_eq!(objects.of("InferencePool").count(), 0, "{folder}");
        let role = objects.of("Role").next().unwrap().0.to_string();
        assert!(!role.contains("inferencepools"), "{folder}");
    }
}
