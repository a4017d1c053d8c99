//! What the API server knows: plain questions for paths, so that what is not installed or not permitted is an answer too.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use futures_util::future::join_all;
use http::Request;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::{Target, seconds};
use crate::cli::doctor::DoctorArgs;
use crate::cli::doctor::facts::{
    Clock, Cluster, Read, Right, Wanted, at, is_ready, items, name, text,
};
use crate::config::PoolGroup;
use crate::k8s::Access;
use crate::k8s::types::{GROUP, LEGACY_GROUP, LLM_D_GROUP};

/// Objects of a list that are read: enough to see what is wrong.
const MOST: u32 = 500;

/// Versions that we read kinds of.
const VERSIONS: [&str; 3] = [
    "inference.networking.k8s.io/v1",
    "inference.networking.x-k8s.io/v1alpha2",
    "llm-d.ai/v1alpha2",
];

/// Kinds besides pools: group, plural, status, and what is off without them.
const OBJECTS: [(&str, &str, &str, &str); 5] = [
    (LLM_D_GROUP, "inferenceobjectives", "inferenceobjectives/status", "priorities of objectives"),
    (LLM_D_GROUP, "inferencemodelrewrites", "inferencemodelrewrites/status", "model rewrites"),
    (LEGACY_GROUP, "inferenceobjectives", "inferenceobjectives/status", "priorities of objectives"),
    (LEGACY_GROUP, "inferencemodelrewrites", "inferencemodelrewrites/status", "model rewrites"),
    (
        LEGACY_GROUP,
        "inferencemodels",
        "inferencemodels/status",
        "priorities and rewrites of models",
    ),
];

/// The API server, asked for one pool.
pub(super) struct Api {
    client: Client,
    server: String,
    namespace: String,
    wanted: Wanted,
    /// Whose rights are asked for; none for our own.
    account: Option<String>,
    /// Whether we are a pod of the cluster.
    pub(super) inside: bool,
}

impl Api {
    pub(super) fn new(access: Access, args: &DoctorArgs) -> Self {
        let (flags, told) = (&args.kubernetes, std::env::var("NAMESPACE").ok());
        let others = [told.as_deref(), Some(access.namespace.as_str())];
        let namespace = flags.namespace(&others).to_owned();
        let wanted = match (&flags.endpoint_selector, &flags.endpoint_target_ports) {
            (Some(labels), Some(ports)) => {
                Wanted::Selected { labels: labels.to_string(), ports: ports.as_slice().to_vec() }
            }
            _ => Wanted::Pool { name: flags.pool().1.to_owned(), group: flags.pool_group },
        };
        let account = args.service_account.clone();
        let inside = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        let server = access.server.to_string();
        Self { client: access.client, server, namespace, wanted, account, inside }
    }

    /// All that it knows, and its clock where it tells.
    pub(super) async fn cluster(&self, args: &DoctorArgs, now: i64) -> (Cluster, Option<Clock>) {
        let account = match &self.account {
            Some(account) => format!("the service account {account}"),
            None => "this account".to_owned(),
        };
        let mut cluster = Cluster {
            server: self.server.clone(),
            silent: None,
            namespace: self.namespace.clone(),
            wanted: self.wanted.clone(),
            served: BTreeMap::new(),
            account,
            rights: Vec::new(),
            pool: Ok(None),
            pods: Ok(None),
            others: Ok(None),
            service: Ok(None),
            slices: Ok(None),
            routes: Ok(None),
            extension_policies: Ok(None),
            traffic_policies: Ok(None),
            destination_rules: Ok(None),
        };
        let clock = match self.date().await {
            Ok(date) => {
                date.map(|date| Clock { whose: "the API server".to_owned(), ahead: date - now })
            }
            Err(why) => {
                cluster.silent = Some(why);
                return (cluster, None);
            }
        };
        for version in VERSIONS {
            cluster.served.insert(version.to_owned(), self.plurals(version).await);
        }
        let elected = args.kubernetes.ha_enable_leader_election;
        let rights = rights(&cluster, elected).into_iter().map(|right| self.right(right));
        cluster.rights = join_all(rights).await;
        self.members(&mut cluster).await;
        self.gateway(&mut cluster).await;
        (cluster, clock)
    }

    async fn members(&self, cluster: &mut Cluster) {
        if let Wanted::Pool { name, group } = &self.wanted {
            let version = match group {
                PoolGroup::V1 => VERSIONS[0],
                PoolGroup::V1Alpha2 => VERSIONS[1],
            };
            cluster.pool = self.one(version, "inferencepools", name).await;
        }
        let parts = cluster.pool_parts();
        let labels = match (&self.wanted, &parts) {
            (Wanted::Selected { labels, .. }, _) => Some(labels.clone()),
            (Wanted::Pool { .. }, Some(pool)) if !pool.labels.is_empty() => {
                let labels = pool.labels.iter().map(|(key, value)| format!("{key}={value}"));
                Some(labels.collect::<Vec<_>>().join(","))
            }
            _ => None,
        };
        if let Some(labels) = labels {
            cluster.pods = self.list("/api/v1", "pods", Some(&labels)).await;
            cluster.others = self.list("/api/v1", "pods", None).await;
        }
        if let Some((service, _)) = parts.and_then(|pool| pool.picker) {
            cluster.service = self.get(&self.object("/api/v1", "services", &service)).await;
            let label = format!("kubernetes.io/service-name={service}");
            cluster.slices = self.list("discovery.k8s.io/v1", "endpointslices", Some(&label)).await;
        }
    }

    async fn gateway(&self, cluster: &mut Cluster) {
        let envoy = "gateway.envoyproxy.io/v1alpha1";
        cluster.routes = self.list("gateway.networking.k8s.io/v1", "httproutes", None).await;
        cluster.extension_policies = self.list(envoy, "envoyextensionpolicies", None).await;
        cluster.traffic_policies = self.list(envoy, "backendtrafficpolicies", None).await;
        cluster.destination_rules =
            self.list("networking.istio.io/v1", "destinationrules", None).await;
    }

    /// The metrics page of a pod, through the API server.
    pub(super) async fn page(&self, pod: &str, port: u16, path: &str) -> Result<String, String> {
        let pods = self.object("/api/v1", "pods", &format!("{pod}:{port}"));
        let request = Request::get(format!("{pods}/proxy{path}")).body(Vec::new());
        let request = request.map_err(|error| error.to_string())?;
        self.client.request_text(request).await.map_err(|error| words(&error))
    }

    /// When the API server thinks that it is, in seconds since 1970.
    async fn date(&self) -> Result<Option<i64>, String> {
        let request = Request::get("/version").body(Body::empty());
        let request = request.map_err(|error| error.to_string())?;
        let answer = self.client.send(request).await.map_err(|error| words(&error))?;
        let date = answer.headers().get("date").and_then(|date| date.to_str().ok());
        Ok(date.and_then(seconds))
    }

    async fn plurals(&self, version: &str) -> Read<Vec<String>> {
        let list = self.get(&format!("/apis/{version}")).await?;
        let plural = |it: &Value| text(at(it, "/name")).map(str::to_owned);
        Ok(list.map(|list| {
            at(&list, "/resources").as_array().into_iter().flatten().filter_map(plural).collect()
        }))
    }

    /// Whether a right is given.
    async fn right(&self, mut right: Right) -> Right {
        let (resource, sub) = match right.resource.split_once('/') {
            Some((resource, sub)) => (resource, Some(sub)),
            None => (right.resource, None),
        };
        let attributes = json!({
            "namespace": self.namespace, "group": right.group, "resource": resource,
            "subresource": sub, "verb": right.verb, "name": right.name,
        });
        let (kind, plural, spec) = match &self.account {
            None => (
                "SelfSubjectAccessReview",
                "selfsubjectaccessreviews",
                json!({"resourceAttributes": attributes}),
            ),
            Some(account) => {
                let namespace = &self.namespace;
                let groups = [
                    "system:serviceaccounts".to_owned(),
                    format!("system:serviceaccounts:{namespace}"),
                    "system:authenticated".to_owned(),
                ];
                let user = format!("system:serviceaccount:{namespace}:{account}");
                let spec =
                    json!({"resourceAttributes": attributes, "user": user, "groups": groups});
                ("SubjectAccessReview", "subjectaccessreviews", spec)
            }
        };
        let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec});
        right.allowed = self
            .post(&format!("/apis/authorization.k8s.io/v1/{plural}"), &body)
            .await
            .map(|answer| at(&answer, "/status/allowed").as_bool() == Some(true));
        right
    }

    async fn get(&self, path: &str) -> Read {
        let request = Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
        match self.client.request::<Value>(request).await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(words(&error)),
        }
    }

    /// One object, asked for as the picker does: whoever may list it by its name need not be let to get it.
    async fn one(&self, version: &str, plural: &str, name: &str) -> Read {
        let field = url_encoded(&format!("metadata.name={name}"));
        let path = format!("{}?fieldSelector={field}", self.objects(version, plural));
        let list = self.get(&path).await?;
        Ok(list.and_then(|list| items(at(&list, "/items")).next().cloned()))
    }

    async fn list(&self, version: &str, plural: &str, labels: Option<&str>) -> Read<Vec<Value>> {
        let labels = labels.map(|labels| format!("&labelSelector={}", url_encoded(labels)));
        let labels = labels.unwrap_or_default();
        let path = format!("{}?limit={MOST}{labels}", self.objects(version, plural));
        let list = match self.get(&path).await {
            // What is not installed cannot be permitted either, and is known to everyone.
            Err(why) => match self.get(&format!("/apis/{version}")).await {
                Ok(None) => return Ok(None),
                _ => return Err(why),
            },
            Ok(list) => list,
        };
        Ok(list.map(|list| items(at(&list, "/items")).cloned().collect()))
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value, String> {
        let request = Request::post(path).header("content-type", "application/json");
        let request =
            request.body(body.to_string().into_bytes()).map_err(|error| error.to_string())?;
        self.client.request::<Value>(request).await.map_err(|error| words(&error))
    }

    /// The path of the objects of a kind, of a group and version or of `/api/v1`.
    fn objects(&self, version: &str, plural: &str) -> String {
        let base =
            if version.starts_with('/') { version.to_owned() } else { format!("/apis/{version}") };
        format!("{base}/namespaces/{}/{plural}", self.namespace)
    }

    fn object(&self, version: &str, plural: &str, name: &str) -> String {
        format!("{}/{}", self.objects(version, plural), url_encoded(name))
    }
}

/// What the picker asks for, of the kinds that are installed.
fn rights(cluster: &Cluster, elected: bool) -> Vec<Right> {
    let right = |group, resource, verb, purpose| Right {
        group,
        resource,
        verb,
        name: None,
        purpose,
        allowed: Ok(false),
    };
    let read = |group, resource, purpose| {
        ["list", "watch"].map(|verb| right(group, resource, verb, purpose))
    };
    let installed = |version: &str, plural: &str| {
        let served = cluster.served.get(version).and_then(|read| read.as_ref().ok()?.as_ref());
        served.is_some_and(|plurals| plurals.iter().any(|it| it == plural))
    };
    let mut all: Vec<Right> = read("", "pods", "the endpoints").into();
    if let Wanted::Pool { name, group } = &cluster.wanted {
        let group = match group {
            PoolGroup::V1 => GROUP,
            PoolGroup::V1Alpha2 => LEGACY_GROUP,
        };
        let pool = read(group, "inferencepools", "the endpoints");
        all.extend(pool.map(|right| Right { name: Some(name.clone()), ..right }));
    }
    for (group, plural, status, purpose) in OBJECTS {
        if installed(&format!("{group}/v1alpha2"), plural) {
            all.extend(read(group, plural, purpose));
            all.push(right(group, status, "patch", "conditions on these objects"));
        }
    }
    let events = "Kubernetes Events that tell what is wrong with an object";
    all.extend(["create", "patch"].map(|verb| right("events.k8s.io", "events", verb, events)));
    let leases = if elected {
        "readiness: a leader is elected by the Lease"
    } else {
        "conditions and Events: one replica writes them, by a Lease"
    };
    all.extend(
        ["get", "create", "update"]
            .map(|verb| right("coordination.k8s.io", "leases", verb, leases)),
    );
    all
}

/// The endpoints of the pods that are ready.
pub(super) fn targets(cluster: &Cluster) -> Vec<Target> {
    let ports = cluster.ports();
    let pods = Cluster::list(&cluster.pods).iter().filter(|pod| is_ready(pod));
    let target = |pod: &Value, port: u16| {
        let address = text(at(pod, "/status/podIP"))?.parse().ok()?;
        let name = name(pod).to_owned();
        Some(Target {
            name: format!("{name}:{port}"),
            address: SocketAddr::new(address, port),
            pod: Some((name, port)),
        })
    };
    pods.flat_map(|pod| ports.iter().filter_map(move |&port| target(pod, port))).collect()
}

/// Why, with its causes, in a line.
fn words(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return status.message.clone();
    }
    let first = std::error::Error::source(error);
    let causes = std::iter::successors(first, |error| error.source());
    causes.fold(error.to_string(), |chain, cause| format!("{chain}: {cause}"))
}

/// A text as it may stand in a path or a query.
fn url_encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
    let letter = |byte: u8| {
        if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::checks::fixture::{cluster, pod};

    #[test]
    fn rights_are_those_of_the_role_that_we_ship() {
        let role = include_str!("../../../../manifests/base/rbac.yaml");
        let all = rights(&cluster(), true);
        for right in &all {
            assert!(role.contains(right.resource) && role.contains(right.verb), "{right:?}");
        }
        let pool: Vec<_> = all.iter().filter(|it| it.resource == "inferencepools").collect();
        assert!(pool.len() == 2 && pool.iter().all(|it| it.name.as_deref() == Some("llm")));
        let rewrites = |it: &&Right| it.resource.starts_with("inferencemodelrewrites");
        assert_eq!(all.iter().filter(rewrites).count(), 3, "only where they are installed");
    }

    #[test]
    fn pods_that_are_ready_are_read_on_each_port() {
        let mut two = cluster();
        let mut pods = ["a", "b"].map(|name| pod(name, &json!({}), 8000));
        pods[0]["status"]["podIP"] = json!("10.0.0.7");
        pods[1]["status"]["conditions"] = json!([]);
        two.pods = Ok(Some(pods.to_vec()));
        two.wanted = Wanted::Selected { labels: "app=llm".to_owned(), ports: vec![8000, 8001] };
        let targets = targets(&two);
        let addresses: Vec<_> = targets.iter().map(|it| it.address.to_string()).collect();
        assert_eq!(addresses, ["10.0.0.7:8000", "10.0.0.7:8001"]);
    }

    #[test]
    fn selectors_can_stand_in_a_query() {
        assert_eq!(url_encoded("app=llm,tier in (a,b)"), "app%3Dllm%2Ctier%20in%20%28a%2Cb%29");
    }
}
