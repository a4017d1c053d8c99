//! Where a test takes place: a namespace with our rights, servers that may become pods, and pickers.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use lodesman_e2e::kube::{Account, Kubelet, objects};
use lodesman_e2e::{Client, Cluster, Envoy, Fleet, Lodesman, Namespace, eventually};
use serde_json::json;
use tokio::sync::OnceCell;

use super::stage::{SOON, binary, duplex, fleet, page, series, value};

/// The pool's name, to which the Role that we ship is bound.
pub(super) const POOL: &str = "llm";

/// The shared API server with our CRDs; none where there is none.
pub(super) async fn cluster() -> Option<&'static Cluster> {
    static CRDS: OnceCell<()> = OnceCell::const_new();
    let cluster = Cluster::shared().await?;
    CRDS.get_or_init(async || install_crds(cluster).await).await;
    Some(cluster)
}

/// An API server of the test's own with our CRDs; none where there is none.
pub(super) async fn own_cluster(flags: &[&str]) -> Option<Cluster> {
    let cluster = Cluster::start(flags).await.unwrap()?;
    install_crds(&cluster).await;
    Some(cluster)
}

/// Applies our CRDs and waits until they are served.
pub(super) async fn install_crds(cluster: &Cluster) {
    let crds = manifest("crds");
    cluster.kubectl(&["apply", "--server-side", "--kustomize", &crds], "").await.unwrap();
    let served = ["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"];
    cluster.kubectl(&served, "").await.unwrap();
}

/// The path of a manifest that we ship.
pub(super) fn manifest(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests").join(name);
    path.display().to_string()
}

/// A namespace with the account and the rights that we ship, and simulated servers with an address each
/// that are no pods yet.
pub(super) struct Site<'a> {
    pub(super) namespace: Namespace<'a>,
    pub(super) kubelet: Kubelet,
    pub(super) account: Account,
    pub(super) fleet: Fleet,
}

impl<'a> Site<'a> {
    pub(super) async fn new(cluster: &'a Cluster, servers: usize) -> Self {
        Self::over(cluster, servers_at(own_network(), servers).await).await
    }

    /// A site with these servers.
    pub(super) async fn over(cluster: &'a Cluster, fleet: Fleet) -> Self {
        let namespace = cluster.namespace().await.unwrap();
        let rights = manifest("base/rbac.yaml");
        let apply = ["apply", "--namespace", &namespace.name, "--filename", &rights];
        cluster.kubectl(&apply, "").await.unwrap();
        let account = namespace.account("lodesman").await.unwrap();
        let kubelet = namespace.kubelet();
        Self { namespace, kubelet, account, fleet }
    }

    /// A site with a pool in it, all servers of which are ready pods.
    pub(super) async fn with_pods(cluster: &'a Cluster, servers: usize) -> Self {
        let site = Self::new(cluster, servers).await;
        site.run_all().await;
        site
    }

    /// Makes a pool and all servers ready pods of it.
    pub(super) async fn run_all(&self) {
        self.apply_pool().await;
        for at in 0..self.fleet.servers.len() {
            self.run(at).await;
        }
    }

    /// The port of all servers.
    pub(super) fn port(&self) -> u16 {
        self.fleet.servers[0].port()
    }

    /// Makes or restores the pool of the pods with `app: llm`.
    pub(super) async fn apply_pool(&self) {
        self.namespace.apply(&objects::pool(POOL, &[self.port()])).await.unwrap();
    }

    /// Makes the server of that number a ready pod, `pod-NUMBER`.
    pub(super) async fn run(&self, at: usize) {
        self.run_as(&format!("pod-{at}"), POOL, self.fleet.servers[at].ip()).await;
    }

    /// Makes what is at `ip` a ready pod with the label `app: APP`.
    pub(super) async fn run_as(&self, name: &str, app: &str, ip: IpAddr) {
        self.kubelet.run(name, &json!({"app": app}), &[ip]).await.unwrap();
    }

    /// Gives our account the rights of a further Role.
    pub(super) async fn bind(&self, role: &str) {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": "lodesman"}],
        });
        self.namespace.apply(&binding).await.unwrap();
    }

    /// The endpoint that the pool makes of the server of that number.
    pub(super) fn endpoint(&self, at: usize) -> (String, SocketAddr) {
        (format!("pod-{at}-rank-0"), self.fleet.servers[at])
    }

    /// A picker of the pool under our account; it looks for missing kinds often.
    pub(super) async fn picker(&self, args: &str) -> Lodesman {
        let fixed = format!("--pool-name {POOL} --kind-retry-interval 200ms {args}");
        self.picker_of(&fixed.split_whitespace().collect::<Vec<_>>(), "").await
    }

    /// A picker with `args`, whose metrics are open unless they say otherwise; `replica` tells its pod from others.
    pub(super) async fn picker_of(&self, args: &[&str], replica: &str) -> Lodesman {
        let mut command = Command::new(binary());
        command
            .env("KUBECONFIG", self.account.kubeconfig())
            .env("NAMESPACE", &self.namespace.name)
            .env("POD_NAME", format!("lodesman-7c9d8-{replica}"));
        let open = "--metrics-endpoint-auth=false";
        Lodesman::launch(command, [&[open], args].concat()).await.unwrap()
    }

    /// A picker that knows all servers as endpoints.
    pub(super) async fn synced_picker(&self, args: &str) -> Lodesman {
        let picker = self.picker(args).await;
        let all: Vec<_> = (0..self.fleet.servers.len()).map(|at| self.endpoint(at)).collect();
        until_endpoints(&picker, all).await;
        until_ready(&picker).await;
        picker
    }

    /// An Envoy that does as the picker says.
    pub(super) async fn envoy(&self, picker: &Lodesman) -> Envoy {
        Envoy::start(&duplex(picker, &self.fleet)).await.unwrap()
    }
}

/// The first address of a random part of the loopback network, so that tests do not meet.
pub(super) fn own_network() -> Ipv4Addr {
    Ipv4Addr::new(127, fastrand::u8(16..=239), fastrand::u8(..), 1)
}

/// Fast simulated servers at consecutive addresses on one port.
pub(super) async fn servers_at(first: Ipv4Addr, servers: usize) -> Fleet {
    fleet(servers, &format!("--time-scale 50 --address {first}")).await
}

/// Name and address of the endpoints that a picker knows.
pub(super) async fn endpoints_of(picker: &Lodesman) -> Result<BTreeSet<(String, SocketAddr)>> {
    let shown = Client::http1(picker.admin).get("/debug/snapshot").await?.json()?;
    let endpoints = shown["endpoints"].as_array().cloned().unwrap_or_default();
    let known = endpoints.iter().map(|endpoint| {
        let text = |key: &str| endpoint[key].as_str().unwrap_or_default();
        Ok((text("name").to_owned(), text("address").parse()?))
    });
    known.collect()
}

/// Waits until a picker knows these endpoints and no other.
pub(super) async fn until_endpoints(
    picker: &Lodesman,
    expected: impl IntoIterator<Item = (String, SocketAddr)>,
) {
    let expected: BTreeSet<_> = expected.into_iter().collect();
    let known = eventually(SOON, async || {
        let seen = endpoints_of(picker).await?;
        ensure!(seen == expected, "{seen:?}, not {expected:?}");
        Ok(())
    });
    known.await.unwrap();
}

/// Waits until a picker says where an endpoint stands, and why.
pub(super) async fn until_state(picker: &Lodesman, endpoint: &str, state: &str, reason: &str) {
    let told = eventually(SOON, async || {
        let shown = Client::http1(picker.admin).get("/debug/snapshot").await?.json()?;
        let all = shown["endpoints"].as_array().cloned().unwrap_or_default();
        let one = all.iter().find(|one| one["name"] == endpoint);
        let seen = one.map(|one| (&one["state"], &one["state_reason"]));
        ensure!(seen.is_some_and(|it| it.0 == state && it.1 == reason), "{seen:?}");
        Ok(())
    });
    told.await.unwrap();
}

/// Waits until a picker is ready.
pub(super) async fn until_ready(picker: &Lodesman) {
    until_page(picker, 200, "").await;
}

/// Waits until a picker is not ready and says so with `reason`.
pub(super) async fn until_unready(picker: &Lodesman, reason: &str) {
    until_page(picker, 503, reason).await;
}

/// Waits until a picker is ready and warns of `reason`.
pub(super) async fn until_warned(picker: &Lodesman, reason: &str) {
    until_page(picker, 200, &format!("[!] {reason}")).await;
}

/// Waits until a picker is ready and warns of nothing.
pub(super) async fn until_well(picker: &Lodesman) {
    let seen = eventually(SOON, async || {
        let answer = Client::http1(picker.metrics).get("/readyz").await?;
        let seen = answer.text();
        ensure!(answer.status == 200 && !seen.contains("[!]"), "{} {seen}", answer.status);
        Ok(())
    });
    seen.await.unwrap();
}

async fn until_page(picker: &Lodesman, status: u16, text: &str) {
    let seen = eventually(SOON, async || {
        let answer = Client::http1(picker.metrics).get("/readyz").await?;
        let seen = answer.text();
        ensure!(answer.status == status && seen.contains(text), "{} {seen}", answer.status);
        Ok(())
    });
    seen.await.unwrap();
}

/// Waits until the series of `family` that have all `labels` add up to `sum`.
pub(super) async fn until_sum(picker: &Lodesman, family: &str, labels: &[&str], sum: f64) {
    let reached = eventually(SOON, async || {
        let page = page(picker).await?;
        let all = series(&page, family);
        let lines: Vec<_> = all.filter(|line| labels.iter().all(|it| line.contains(it))).collect();
        let values = lines.iter().map(|line| value(line).parse::<f64>());
        let seen: f64 = values.sum::<Result<f64, _>>()?;
        ensure!((seen - sum).abs() < 1e-9 && !lines.is_empty(), "{family} {labels:?}: {lines:?}");
        Ok(())
    });
    reached.await.unwrap();
}

/// Waits until the watch of a kind is in a state.
pub(super) async fn until_watch(picker: &Lodesman, kind: &str, state: &str) {
    let labels = [format!("kind=\"{kind}\""), format!("state=\"{state}\"")];
    until_sum(picker, "lodesman_watch_state", &[&labels[0], &labels[1]], 1.0).await;
}

/// Waits until a picker has logged a line with all `parts`.
pub(super) async fn until_logged(picker: &mut Lodesman, parts: &[&str]) {
    let found = |lines: &[&str]| {
        lines.iter().any(|line| parts.iter().all(|part| line.contains(part))).then_some(())
    };
    picker.process.find(SOON, found).await.unwrap();
}
