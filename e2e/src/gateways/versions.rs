//! What the results were seen with.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use tokio::process::Command;

use super::parts::Parts;
use crate::kube::assets;

/// The control planes: name, folder of the module that builds it, its own module.
const PLANES: [(&str, &str, &str); 2] = [
    ("Envoy Gateway", "envoy-gateway", "github.com/envoyproxy/gateway"),
    ("Istio", "istiod", "istio.io/istio"),
];

/// The day, and all programs with their versions.
///
/// # Errors
/// When one does not tell.
pub(super) async fn all(parts: &Parts) -> Result<String> {
    let mut versions = vec![Timestamp::now().strftime("%Y-%m-%d").to_string()];
    for (name, folder, module) in PLANES {
        versions.push(format!("{name} {}", required(folder, module)?));
    }
    let envoy = said(&parts.envoy).await?;
    // `PATH  version: COMMIT/VERSION/…`
    let envoy = envoy.split_once("version:").and_then(|(_, version)| version.split('/').nth(1));
    let envoy = envoy.context("Envoy tells no version")?;
    versions.push(format!("Envoy {envoy}"));
    versions.push(said(&assets::folder().await?.join("kube-apiserver")).await?);
    versions.push(said(&parts.lodesman).await?);
    Ok(versions.join(", "))
}

/// The version of `module` that the module in `folder` requires.
fn required(folder: &str, module: &str) -> Result<String> {
    let path = [env!("CARGO_MANIFEST_DIR"), "gateways", folder, "go.mod"];
    let path: PathBuf = path.iter().collect();
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut words = text.split_whitespace().skip_while(|word| *word != module);
    let version = words.nth(1).context("no version")?;
    Ok(version.to_owned())
}

/// What a program says of its version.
async fn said(program: &Path) -> Result<String> {
    let output = Command::new(program).arg("--version").output().await?;
    ensure!(output.status.success(), "{} tells no version", program.display());
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_of_each_control_plane_is_required_in_a_version() {
        for (name, folder, module) in PLANES {
            let version = required(folder, module).unwrap();
            assert!(version.starts_with('v') && version.contains('.'), "{name} {version}");
        }
    }
}
