//! Starts what a test looks at: the API server, a namespace with pods, a picker under its own account.

use std::path::Path;

use lodesman_e2e::Cluster;
use tokio::sync::OnceCell;

/// The shared API server with our CRDs; none where there is none.
pub(super) async fn cluster() -> Option<&'static Cluster> {
    static CRDS: OnceCell<()> = OnceCell::const_new();
    let cluster = Cluster::shared().await?;
    CRDS.get_or_init(async || install_crds(cluster).await).await;
    Some(cluster)
}

/// Applies our CRDs and waits until they are served.
pub(super) async fn install_crds(cluster: &Cluster) {
    let crds = manifests("crds");
    cluster.kubectl(&["apply", "--server-side", "--kustomize", &crds], "").await.unwrap();
    let served = ["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"];
    cluster.kubectl(&served, "").await.unwrap();
}

/// A folder of the manifests that we ship.
pub(super) fn manifests(folder: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests").join(folder);
    path.display().to_string()
}
