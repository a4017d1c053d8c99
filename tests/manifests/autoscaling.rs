//! What `manifests/autoscaling` asks for is there.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use lodesman::scale::Query;
use lodesman_e2e::kube::Cluster;
use serde_json::Value;

use super::chart::template;
use super::objects::{Objects, arguments};
use super::references::dangling;
use super::render::{customized, manifests};

/// The files by their names, with their texts.
fn files() -> Vec<(String, String)> {
    let read = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read_to_string(entry.path()).unwrap())
    };
    let all: Vec<_> = fs::read_dir(manifests().join("autoscaling"))
        .unwrap()
        .map(|entry| read(entry.unwrap()))
        .collect();
    assert!(all.len() > 5, "{} files", all.len());
    all
}

/// A page of the documentation.
pub(super) fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name)).unwrap()
}

/// The names of our metrics in a text.
fn metrics(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("lodesman_") && !word.ends_with('_'))
}

#[test]
fn every_metric_that_is_asked_for_is_one_of_ours() {
    let families = page("metrics.md");
    let mut count = 0;
    for (name, text) in files().into_iter().chain([("the page".to_owned(), page("autoscaling.md"))])
    {
        for metric in metrics(&text) {
            assert!(families.contains(&format!("| `{metric}` |")), "{name}: {metric}");
            count += 1;
        }
    }
    assert!(count > 15, "{count} were found");
}

#[test]
fn every_trigger_for_lodesman_is_a_good_one() {
    let mut count = 0;
    for (name, text) in files() {
        for object in Objects::parse(&text).of("ScaledObject") {
            let ours = |trigger: &&Value| trigger["type"].as_str().unwrap().starts_with("external");
            for trigger in object.list("/spec/triggers").iter().filter(ours) {
                let metadata: HashMap<String, String> =
                    serde_json::from_value(trigger["metadata"].clone()).unwrap();
                assert_eq!(metadata["scalerAddress"], "lodesman-keda.default.svc:9004", "{name}");
                Query::read(&metadata, "llm").unwrap_or_else(|error| panic!("{name}: {error}"));
                count += 1;
            }
        }
    }
    assert_eq!(count, 4);
}

// FR-132
#[test]
fn no_file_for_autoscaling_brings_a_number_of_replicas() {
    for (name, text) in files() {
        assert!(!text.lines().any(|line| line.trim_start().starts_with("replicas:")), "{name}");
    }
    assert!(page("autoscaling.md").contains("Leave `replicas` out of a Deployment"));
}

#[test]
fn the_page_names_every_file() {
    let page = page("autoscaling.md");
    for (name, _) in files() {
        assert!(page.contains(&format!("(../manifests/autoscaling/{name})")), "{name}");
    }
}

#[tokio::test]
async fn the_component_for_keda_opens_the_port_that_its_service_names() {
    let Some(cluster) = Cluster::shared().await else { return };
    let text = "resources: ['{}/base']\ncomponents: ['{}/components/keda']\n";
    answers_keda(&customized(cluster, text).await, "lodesman-keda");
    if let Some(chart) = template(&["--set", "keda.enabled=true"]).await {
        answers_keda(&chart, "lodesman-keda");
    }
}

#[tokio::test]
async fn the_component_for_deletion_costs_gives_the_right_to_write_them() {
    let Some(cluster) = Cluster::shared().await else { return };
    let text = "resources: ['{}/base']\ncomponents: ['{}/components/deletion-cost']\n";
    writes_deletion_costs(&customized(cluster, text).await);
    if let Some(chart) = template(&["--set", "podDeletionCost.enabled=true"]).await {
        writes_deletion_costs(&chart);
    }
}

fn writes_deletion_costs(objects: &Objects) {
    let (_, picker) = objects.pickers().next().unwrap();
    assert!(arguments(picker).contains(&"--pod-deletion-cost-interval=1m".to_owned()));
    let role = objects.find("Role", "lodesman").unwrap();
    let rules = role.0["rules"].as_array().unwrap();
    let says = |rule: &Value, key: &str, word: &str| {
        rule[key].as_array().unwrap().iter().any(|it| it == word)
    };
    assert!(
        rules.iter().any(|rule| says(rule, "resources", "pods") && says(rule, "verbs", "patch"))
    );
}

/// Whether the service of this name leads to a port at which KEDA is answered.
fn answers_keda(objects: &Objects, service: &str) {
    assert_eq!(dangling(objects), [""; 0]);
    let (_, picker) = objects.pickers().next().unwrap();
    assert!(arguments(picker).contains(&"--keda-port=9004".to_owned()));
    let ports = picker["ports"].as_array().unwrap();
    assert!(ports.iter().any(|port| port["name"] == "keda" && port["containerPort"] == 9004));
    let service = objects.find("Service", service).unwrap();
    assert_eq!(service.0["spec"]["ports"][0]["targetPort"], "keda");
    assert_eq!(service.text("/spec/clusterIP"), "None");
}
