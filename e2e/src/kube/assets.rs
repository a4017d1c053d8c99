//! The binaries of etcd, kube-apiserver and kubectl, and what is applied.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

/// The folder that has them, filled on first use by `scripts/testkube.sh`.
///
/// # Errors
/// When the script fails; what it says goes to standard error.
pub(crate) async fn folder() -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/testkube.sh");
    let mut command = Command::new(&script);
    // With a cluster given, the caller would not be here but for a server of its own.
    command.env_remove("LODESMAN_TEST_KUBECONFIG").stderr(Stdio::inherit());
    let output =
        command.output().await.with_context(|| format!("could not run {}", script.display()))?;
    ensure!(output.status.success(), "{} failed", script.display());
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim_end()))
}

/// A file or folder of the manifests that we ship.
pub(crate) fn manifests(part: &str) -> String {
    format!("{}/../manifests/{part}", env!("CARGO_MANIFEST_DIR"))
}
