//! The image, without Docker.

use std::fs;
use std::path::Path;
use std::process::Command;

use lodesman_e2e::kube::Cluster;

use super::objects::Object;
use super::render::{INSTALLS, kustomize};

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn the_image_has_every_library_that_the_binary_needs() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/image-check.sh");
    let output = Command::new(&script).arg(env!("CARGO_BIN_EXE_lodesman")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // A binary that was built on a younger system runs there, and the image is built on its own.
    assert!(output.status.success() || said.contains("GLIBC_"), "{said}");
    let text = Command::new(&script).arg(script.as_os_str()).output().unwrap();
    assert!(!text.status.success(), "a script is no such binary");
}

#[test]
fn the_image_is_built_with_the_toolchain_of_the_project() {
    let toolchain = read("rust-toolchain.toml");
    let channel = toolchain.split("channel = \"").nth(1).unwrap().split('"').next().unwrap();
    let dockerfile = read("Dockerfile");
    assert!(dockerfile.contains(&format!("ARG RUST={channel}\n")), "{channel}");
    // The C library of the first stage is that of the second.
    assert!(dockerfile.contains("-bookworm AS build") && dockerfile.contains("cc-debian12"));
}

#[tokio::test]
async fn manifests_and_chart_name_the_version_of_the_crate() {
    let version = env!("CARGO_PKG_VERSION");
    let chart = read("manifests/chart/lodesman/Chart.yaml");
    assert!(chart.contains(&format!("\nappVersion: {version}\n")));
    assert!(read("docs/kubernetes.md").contains(&format!("lodesman:{version}")));
    let Some(cluster) = Cluster::shared().await else { return };
    for folder in INSTALLS.into_iter().chain(["models/sim"]) {
        let objects = kustomize(cluster, folder).await;
        let images = objects.of("Deployment").flat_map(Object::containers);
        let images = images.map(|container| container["image"].as_str().unwrap());
        for image in images.filter(|image| image.starts_with("lodesman")) {
            assert_eq!(image, format!("lodesman:{version}"), "{folder}");
        }
    }
}
