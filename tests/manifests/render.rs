//! kustomize, by the kubectl that the tests of Kubernetes have.

use std::fs;
use std::path::{Path, PathBuf};

use lodesman_e2e::kube::Cluster;

use super::objects::Objects;

/// All that picks, as a user applies it.
pub(super) const INSTALLS: [&str; 10] = [
    "base",
    "overlays/conformance",
    "overlays/envoy-gateway",
    "overlays/envoy-gateway-failopen",
    "overlays/istio",
    "overlays/standalone",
    "overlays/standalone-service",
    "try/envoy-gateway",
    "try/istio",
    "try/standalone",
];

/// What is put beside it.
pub(super) const BESIDE: [&str; 4] = ["crds", "models/sim", "models/vllm", "monitoring"];

/// An installation for the older group of pools, as a user writes it.
pub(super) const OLDER: &str =
    "resources: ['{}/base']\ncomponents: ['{}/components/pool-v1alpha2']\n";

/// An installation whose metrics the API server guards, as a user writes it.
pub(super) const GUARDED: &str =
    "namespace: chat\nresources: ['{}/base']\ncomponents: ['{}/components/metrics-auth']\n";

pub(super) fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests")
}

/// What a folder below `manifests` renders to.
pub(super) async fn kustomize(cluster: &Cluster, folder: &str) -> Objects {
    at(cluster, &manifests().join(folder)).await
}

/// What a kustomization of a user's renders to; `{}` stands for the path of `manifests`.
pub(super) async fn customized(cluster: &Cluster, kustomization: &str) -> Objects {
    // kustomize takes relative paths only.
    let folder = tempfile::Builder::new().tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let up = "../".repeat(folder.path().components().count() - 1);
    let path = format!("{up}{}", manifests().strip_prefix("/").unwrap().display());
    let text = kustomization.replace("{}", &path);
    fs::write(folder.path().join("kustomization.yaml"), text).unwrap();
    // For those that bring a configuration.
    fs::copy(manifests().join("base/config.yaml"), folder.path().join("config.yaml")).unwrap();
    at(cluster, folder.path()).await
}

async fn at(cluster: &Cluster, folder: &Path) -> Objects {
    let yaml = cluster.kubectl(&["kustomize", folder.to_str().unwrap()], "").await;
    Objects::parse(&yaml.unwrap_or_else(|error| panic!("{}: {error:#}", folder.display())))
}

/// The blocks of YAML in a document.
pub(super) fn documented(document: &str) -> Vec<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(document)).unwrap();
    let blocks = text.split("```yaml\n").skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// The lists above are all there is.
#[test]
fn every_kustomization_is_tested() {
    let mut found = Vec::new();
    collect(&manifests(), &mut found);
    found.sort();
    let mut listed: Vec<_> = INSTALLS.iter().chain(&BESIDE).map(ToString::to_string).collect();
    listed.sort();
    assert_eq!(found, listed);
}

#[test]
fn documents_name_files_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    let documents = [
        "README.md",
        "docs/kubernetes.md",
        "docs/gateways.md",
        "docs/migration.md",
        "docs/runbooks.md",
    ];
    for document in documents {
        let text = fs::read_to_string(root.join(document)).unwrap();
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "-_./".contains(c)));
        for word in words.filter(|word| word.starts_with("manifests/")) {
            assert!(root.join(word.trim_end_matches('.')).exists(), "{document}: {word}");
            count += 1;
        }
    }
    assert!(count > 10, "{count} names were found");
}

fn collect(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file = path.join("kustomization.yaml");
        if path.is_dir() && !path.is_symlink() {
            collect(&path, found);
            let text = fs::read_to_string(file).unwrap_or_default();
            if text.contains("kind: Kustomization") {
                let relative = path.strip_prefix(manifests()).unwrap();
                found.push(relative.display().to_string());
            }
        }
    }
}
