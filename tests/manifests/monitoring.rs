//! `manifests/monitoring`: pods that are there are scraped, every alert has a runbook, every panel says what it shows.

use std::collections::HashSet;
use std::fs;

use lodesman_e2e::kube::Cluster;
use serde_json::Value;

use super::autoscaling::page;
use super::chart::template;
use super::objects::{Objects, selects};
use super::promql::{groups, selectors, shown};
use super::render::{INSTALLS, kustomize, manifests};

/// An expression that Prometheus is asked for.
#[derive(Debug)]
pub(super) struct Asked {
    /// The panel or the alert.
    pub place: String,
    /// What is asked for.
    pub expression: String,
    /// Texts that show labels of the answer.
    texts: Vec<String>,
    /// Whether it is an alert's, which is empty while all is well.
    pub alert: bool,
}

fn file(name: &str) -> String {
    fs::read_to_string(manifests().join("monitoring").join(name)).unwrap()
}

/// The groups of rules, as Prometheus reads them from a file.
pub(super) fn rules() -> Value {
    Objects::parse(&file("alerts.yaml")).of("PrometheusRule").next().unwrap().0["spec"].clone()
}

fn alerts() -> Vec<Value> {
    let groups = rules()["groups"].as_array().unwrap().clone();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

fn dashboard() -> Value {
    serde_json::from_str(&file("dashboard.json")).unwrap()
}

fn panels() -> Vec<Value> {
    dashboard()["panels"].as_array().unwrap().clone()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// All that is asked for.
pub(super) fn asked() -> Vec<Asked> {
    let target = |panel: &Value, target: &Value| Asked {
        place: text(&panel["title"]),
        expression: text(&target["expr"]),
        texts: vec![text(&target["legendFormat"])],
        alert: false,
    };
    let of_panel = |panel: &Value| {
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        targets.iter().map(|t| target(panel, t)).collect::<Vec<_>>()
    };
    let of_alert = |rule: &Value| Asked {
        place: text(&rule["alert"]),
        expression: text(&rule["expr"]),
        texts: ["summary", "description"].map(|name| text(&rule["annotations"][name])).into(),
        alert: true,
    };
    panels().iter().flat_map(of_panel).chain(alerts().iter().map(of_alert)).collect()
}

#[test]
fn labels_that_are_shown_are_in_the_answer() {
    for Asked { place, expression, texts, .. } in asked() {
        let groups = groups(&expression);
        for label in texts.iter().flat_map(|text| shown(text)) {
            assert!(groups.contains(&label), "{place}: {label} is not in {expression}");
        }
    }
}

#[test]
fn every_panel_says_what_it_shows_of_the_pool_that_was_chosen() {
    let (mut ids, mut places) = (HashSet::new(), HashSet::new());
    for panel in panels() {
        let title = text(&panel["title"]);
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its id is another's");
        let [x, y, w, h] =
            ["x", "y", "w", "h"].map(|name| panel["gridPos"][name].as_u64().unwrap());
        let cells = (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y)));
        assert!(cells.into_iter().all(|cell| places.insert(cell)), "{title} covers another");
        assert!(x + w <= 24, "{title} does not fit");
        if panel["type"] == "row" {
            continue;
        }
        assert!(text(&panel["description"]).ends_with('.'), "{title}: no description");
        assert!(!text(&panel["fieldConfig"]["defaults"]["unit"]).is_empty(), "{title}: no unit");
        for target in panel["targets"].as_array().unwrap() {
            assert!(!text(&target["legendFormat"]).is_empty(), "{title}: no legend");
            let expression = text(&target["expr"]);
            assert!(expression.contains(r#"namespace="$namespace",pool="$pool""#), "{title}");
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
        }
    }
    let variables = dashboard()["templating"]["list"].as_array().unwrap().clone();
    let names: Vec<_> = variables.iter().map(|variable| text(&variable["name"])).collect();
    assert_eq!(names, ["datasource", "namespace", "pool"]);
}

#[test]
fn every_alert_lasts_before_it_is_told_and_has_a_runbook() {
    let runbooks = page("runbooks.md");
    let headings: Vec<_> = runbooks.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let names: Vec<_> = alerts().iter().map(|rule| text(&rule["alert"])).collect();
    assert_eq!(headings, names, "the runbooks are those of the alerts, in their order");
    for rule in alerts() {
        let name = text(&rule["alert"]);
        let anchor = format!("docs/runbooks.md#{}", name.to_lowercase());
        assert_eq!(rule["annotations"]["runbook_url"], anchor.as_str());
        assert!(text(&rule["for"]).ends_with('m'), "{name}: for {}", rule["for"]);
        let severity = text(&rule["labels"]["severity"]);
        assert!(["critical", "warning"].contains(&&*severity), "{name}: {severity}");
    }
}

#[test]
fn runbooks_name_metrics_that_are_there() {
    let (runbooks, families) = (page("runbooks.md"), page("metrics.md"));
    let named: Vec<_> = selectors(&runbooks).iter().map(|selector| selector.name).collect();
    assert!(named.len() > 10, "{named:?}");
    for metric in named {
        assert!(families.contains(&format!("| `{metric}` |")), "{metric}");
    }
    let alerts: Vec<_> = alerts().iter().map(|rule| text(&rule["alert"])).collect();
    let words = runbooks.split(|c: char| !c.is_ascii_alphanumeric());
    for word in words.filter(|word| word.starts_with("Lodesman") && word.len() > 8) {
        assert!(alerts.iter().any(|alert| alert == word), "there is no alert {word}");
    }
}

#[tokio::test]
async fn what_is_scraped_are_the_pickers_of_every_installation() {
    let Some(cluster) = Cluster::shared().await else { return };
    let monitoring = kustomize(cluster, "monitoring").await;
    let monitor = monitoring.of("PodMonitor").next().unwrap();
    let selector = &monitor.0["spec"]["selector"]["matchLabels"];
    let mut installations = Vec::new();
    for folder in INSTALLS {
        installations.push((folder, kustomize(cluster, folder).await));
    }
    installations.extend(template(&[]).await.map(|chart| ("the chart", chart)));
    let deployments = installations
        .iter()
        .flat_map(|(name, objects)| objects.of("Deployment").map(move |it| (name, it)));
    for (name, deployment) in deployments {
        let picker = deployment.container("lodesman");
        let labels = &deployment.0["spec"]["template"]["metadata"]["labels"];
        assert_eq!(selects(selector, labels), picker.is_some(), "{name}: {labels}");
        let ports = picker.map(|picker| picker["ports"].as_array().unwrap());
        let named = |name| ports.is_none_or(|ports| ports.iter().any(|port| port["name"] == name));
        for endpoint in monitor.list("/spec/podMetricsEndpoints") {
            assert!(named(endpoint["port"].clone()), "{name}: {endpoint}");
        }
    }
    let map = monitoring.find("ConfigMap", "lodesman-dashboard").unwrap();
    assert_eq!(map.text("/metadata/labels/grafana_dashboard"), "1");
    let shipped: Value = serde_json::from_str(map.text("/data/lodesman.json")).unwrap();
    assert_eq!(shipped, dashboard());
}
