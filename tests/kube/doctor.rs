//! `lodesman doctor` at a cluster in which things are wrong.

use std::process::{Command, Output};

use anyhow::ensure;
use lodesman_e2e::eventually;
use lodesman_e2e::kube::objects;
use serde_json::{Value, json};

use super::site::{POOL, Site, cluster};
use super::stage::{SOON, binary};

/// Runs `lodesman doctor` with an account of the site, aside.
async fn doctor(site: &Site<'_>, args: &str) -> Output {
    let mut command = Command::new(binary());
    command.args(["doctor", "--json"]).args(args.split_whitespace());
    command.env("KUBECONFIG", site.account.kubeconfig()).env("NAMESPACE", &site.namespace.name);
    command.env_remove("KUBERNETES_SERVICE_HOST");
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// Check and severity of all findings.
fn found(output: &Output) -> Vec<(String, String)> {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{stderr}"));
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    let findings = report["findings"].as_array().unwrap().iter();
    findings.map(|it| (text(&it["check"]), text(&it["severity"]))).collect()
}

fn problems(output: &Output) -> Vec<String> {
    let wrong = found(output).into_iter().filter(|(_, severity)| severity == "problem");
    wrong.map(|(check, _)| check).collect()
}

#[tokio::test]
async fn nothing_is_wrong_where_all_is_as_we_ship_it() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::with_pods(cluster, 2).await;
    let output = doctor(&site, &format!("--pool-name {POOL}")).await;
    // The account may not read Services, which the picker does not need.
    let note = ("picker-service".to_owned(), "note".to_owned());
    assert_eq!(found(&output), [note], "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(0));
}

// FR-153
#[tokio::test]
async fn several_faults_are_found_at_once() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::new(cluster, 1).await;
    // A selector that no pod has, and a port on which nobody listens.
    site.namespace.apply(&objects::pool(POOL, &[site.port()])).await.unwrap();
    site.run_as("stranger", "other", site.fleet.servers[0].ip()).await;
    let args = format!("--pool-name {POOL} --service-account nobody");
    let output = doctor_as_administrator(&site, &args).await;
    let wrong = problems(&output);
    for check in ["pool", "rights", "picker-service"] {
        assert!(wrong.iter().any(|it| it == check), "{check}: {wrong:?}");
    }
    assert_eq!(output.status.code(), Some(1));
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("there are app=other (1)"), "{stdout}");
    assert!(stdout.contains("may not list, watch pods"), "{stdout}");
    // Now it selects the pod, on a port where nobody is.
    let labels = json!({"metadata": {"labels": {"app": POOL}}});
    site.namespace.merge(objects::POD, "stranger", &labels).await.unwrap();
    site.namespace.apply(&objects::pool(POOL, &[1])).await.unwrap();
    let wrong = problems(&doctor_as_administrator(&site, &args).await);
    assert!(
        wrong.iter().any(|it| it == "metrics") && !wrong.iter().any(|it| it == "pool"),
        "{wrong:?}"
    );
    let other = "--pool-name nowhere --pool-group inference.networking.x-k8s.io";
    // A kind that is just installed is not stored yet for a moment.
    let absent = eventually(SOON, async || {
        let output = doctor_as_administrator(&site, other).await;
        let stdout = String::from_utf8_lossy(&output.stdout);
        ensure!(stdout.contains("there is no InferencePool"), "{stdout}");
        Ok(())
    });
    absent.await.unwrap();
}

/// The same with all rights, as a person has them.
async fn doctor_as_administrator(site: &Site<'_>, args: &str) -> Output {
    let cluster = cluster().await.unwrap();
    let mut command = Command::new(binary());
    command.args(["doctor", "--json"]).args(args.split_whitespace());
    command.env("KUBECONFIG", cluster.kubeconfig()).env("NAMESPACE", &site.namespace.name);
    command.env_remove("KUBERNETES_SERVICE_HOST");
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}
