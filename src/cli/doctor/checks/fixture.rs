//! A cluster in which nothing is wrong, for tests to break.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cli::doctor::facts::{Cluster, Facts, Page, Told, Wanted};
use crate::cli::doctor::finding::{Check, Severity};
use crate::config::PoolGroup;

/// A cluster as it should be: the pool `llm` of one pod on port 8000, the picker `lodesman` on 9002, a route.
pub(in crate::cli::doctor) fn cluster() -> Cluster {
    let served = [
        ("inference.networking.k8s.io/v1", vec!["inferencepools"]),
        (
            "inference.networking.x-k8s.io/v1alpha2",
            vec!["inferencepools", "inferencemodels", "inferenceobjectives"],
        ),
        ("llm-d.ai/v1alpha2", vec!["inferenceobjectives", "inferencemodelrewrites"]),
    ];
    let served = served.map(|(version, plurals)| {
        (version.to_owned(), Ok(Some(plurals.into_iter().map(str::to_owned).collect())))
    });
    let pool = json!({"spec": {
        "selector": {"matchLabels": {"app": "llm"}},
        "targetPorts": [{"number": 8000}],
        "endpointPickerRef": {"name": "lodesman", "port": {"number": 9002}, "failureMode": "FailClose"},
    }});
    let backend = json!({"kind": "InferencePool", "name": "llm"});
    let route =
        json!({"metadata": {"name": "chat"}, "spec": {"rules": [{"backendRefs": [backend]}]}});
    let pods = Ok(Some(vec![pod("llm-0", &json!({"app": "llm"}), 8000)]));
    Cluster {
        server: "https://10.0.0.1".to_owned(),
        silent: None,
        namespace: "prod".to_owned(),
        wanted: Wanted::Pool { name: "llm".to_owned(), group: PoolGroup::V1 },
        served: BTreeMap::from(served),
        account: "this account".to_owned(),
        rights: Vec::new(),
        pool: Ok(Some(pool)),
        pods: pods.clone(),
        others: pods,
        service: Ok(Some(json!({"spec": {"ports": [{"port": 9002}]}}))),
        slices: Ok(Some(vec![json!({"endpoints": [{"conditions": {"ready": true}}]})])),
        routes: Ok(Some(vec![route])),
        extension_policies: Ok(None),
        traffic_policies: Ok(None),
        destination_rules: Ok(None),
    }
}

/// A pod that is ready and declares one port.
pub(in crate::cli::doctor) fn pod(name: &str, labels: &Value, port: u16) -> Value {
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "server", "ports": [{"containerPort": port}]}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

pub(in crate::cli::doctor) fn page(endpoint: &str, told: Result<Told, String>) -> Page {
    Page { endpoint: endpoint.to_owned(), told }
}

/// Facts of nothing but a cluster.
pub(in crate::cli::doctor) fn with(cluster: Cluster) -> Facts {
    Facts { cluster: Some(cluster), ..Facts::default() }
}

/// What a check finds, a line each; a line with the reason where it had nothing to look at.
pub(in crate::cli::doctor) fn told(check: Check, facts: &Facts) -> Vec<String> {
    let findings = match (check.run)(facts) {
        Ok(findings) => findings,
        Err(reason) => return vec![format!("not checked: {reason}")],
    };
    assert!(findings.iter().all(|it| it.check == check.name && !it.fix.is_empty()));
    let line = |severity, found| match severity {
        Severity::Problem => format!("problem: {found}"),
        Severity::Note => format!("note: {found}"),
    };
    findings.into_iter().map(|finding| line(finding.severity, finding.found)).collect()
}
