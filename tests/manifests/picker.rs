//! How the picker is started.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use lodesman_e2e::kube::Cluster;
use serde_json::json;

use super::objects::arguments;
use super::render::{INSTALLS, OLDER, customized, documented, kustomize};

fn lodesman(args: &[String], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lodesman"));
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that does not read may have ended already.
    let _unread = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// What the binary says against arguments; it ends after reading them.
fn objection(mut args: Vec<String>) -> Option<String> {
    args.push("--help".to_owned());
    let output = lodesman(&args, "");
    (!output.status.success()).then(|| String::from_utf8(output.stderr).unwrap())
}

#[test]
fn an_unknown_flag_and_a_bad_value_are_objected_to() {
    assert!(objection(vec!["--no-such-flag".to_owned()]).is_some());
    assert!(objection(vec!["--drain-timeout=soon".to_owned()]).is_some());
    assert_eq!(objection(Vec::new()), None);
}

#[tokio::test]
async fn every_argument_is_one_that_the_binary_takes() {
    let Some(cluster) = Cluster::shared().await else { return };
    let mut installs = vec![customized(cluster, OLDER).await];
    for folder in INSTALLS.into_iter().chain(["models/sim"]) {
        installs.push(kustomize(cluster, folder).await);
    }
    let mut count = 0;
    for deployment in installs.iter().flat_map(|objects| objects.of("Deployment")) {
        let ours = deployment.containers().filter(|container| {
            container["image"].as_str().unwrap_or_default().starts_with("lodesman:")
        });
        for container in ours {
            let args = arguments(container);
            assert_eq!(objection(args.clone()), None, "{args:?}");
            count += 1;
        }
    }
    assert!(count > INSTALLS.len(), "{count} containers were found");
}

#[tokio::test]
async fn every_configuration_is_good_and_warns_of_nothing() {
    let Some(cluster) = Cluster::shared().await else { return };
    for folder in INSTALLS {
        let objects = kustomize(cluster, folder).await;
        let maps: Vec<_> = objects.of("ConfigMap").collect();
        let configs = maps.iter().filter_map(|map| map.0["data"]["config.yaml"].as_str());
        let configs: Vec<_> = configs.collect();
        assert_eq!(configs.len(), 1, "{folder}");
        let output = lodesman(&["check".to_owned(), "-".to_owned()], configs[0]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.as_str()), (Some(0), ""), "{folder}");
    }
}

#[test]
fn the_documented_configuration_is_good_and_warns_of_nothing() {
    let blocks = documented("docs/migration.md");
    let config = blocks.iter().find(|yaml| yaml.contains("kind: EndpointPickerConfig")).unwrap();
    let output = lodesman(&["check".to_owned(), "-".to_owned()], config);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.as_str()), (Some(0), ""));
}

/// The ports of the flags' defaults, which `--help` tells.
fn default_ports() -> Vec<u64> {
    let help = lodesman(&["--help".to_owned()], "").stdout;
    let help = String::from_utf8(help).unwrap();
    let port = |flag: &str| {
        let text = help.split_once(flag).unwrap().1.split_once("[default: ").unwrap().1;
        text.split(']').next().unwrap().parse().unwrap()
    };
    ["--grpc-port", "--grpc-health-port", "--metrics-port"].map(port).to_vec()
}

#[tokio::test]
async fn ports_probes_and_the_drain_fit_the_flags() {
    let Some(cluster) = Cluster::shared().await else { return };
    let ports = default_ports();
    for folder in INSTALLS {
        let objects = kustomize(cluster, folder).await;
        let (deployment, picker) = objects.pickers().next().unwrap();
        let declared = picker["ports"].as_array().unwrap().iter();
        let declared: Vec<_> = declared.map(|p| p["containerPort"].as_u64().unwrap()).collect();
        assert_eq!(declared, ports, "{folder}");
        for (probe, name) in [("livenessProbe", "liveness"), ("readinessProbe", "readiness")] {
            assert_eq!(picker[probe]["grpc"], json!({"port": ports[1], "service": name}));
        }
        let grace = &deployment.0["spec"]["template"]["spec"]["terminationGracePeriodSeconds"];
        let drain = format!("--drain-timeout={}s", grace.as_u64().unwrap() - 5);
        assert!(arguments(picker).contains(&drain), "{folder}");
        for pool in objects.of("InferencePool") {
            assert_eq!(pool.0["spec"]["endpointPickerRef"]["port"]["number"], ports[0]);
        }
    }
}
