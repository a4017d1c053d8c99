//! What the conformance suite of the Gateway API Inference Extension asks of a picker, with the arguments,
//! the rights and the headers that it uses.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use http::Request;
use lodesman_e2e::client::Answer;
use lodesman_e2e::envoy::{Destination, ExtProc, Pool};
use lodesman_e2e::kube::{Account, objects};
use lodesman_e2e::{Body, Cluster, Envoy, EnvoyConfig, Fleet, Lodesman, Namespace};
use serde_json::json;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::site::{Site, cluster, manifest, servers_at, until_endpoints, until_ready};
use super::stage::{CHAT, chat};

/// The suite's own name of a pool.
const PRIMARY: &str = "primary-inference-pool";

/// Servers, a picker as the suite deploys it, and a gateway that sends the picker's choice to its pool.
struct Suite<'a> {
    site: Site<'a>,
    _more: Vec<Fleet>,
    _picker: Lodesman,
    envoy: Envoy,
    endpoints: Vec<SocketAddr>,
}

impl<'a> Suite<'a> {
    /// With so many pods, each with `ports` ports in the pool.
    async fn start(cluster: &'a Cluster, pods: usize, ports: usize) -> Self {
        let mut site = Site::new(cluster, pods).await;
        site.account = account(&site.namespace).await;
        let SocketAddr::V4(first) = site.fleet.servers[0] else { panic!("no IPv4") };
        let mut fleets = Vec::new();
        for _ in 1..ports {
            fleets.push(servers_at(*first.ip(), pods).await);
        }
        let all = || [&site.fleet].into_iter().chain(&fleets);
        let numbers: Vec<u16> = all().map(|fleet| fleet.servers[0].port()).collect();
        let endpoints: Vec<_> = all().flat_map(|fleet| fleet.servers.clone()).collect();
        site.namespace.apply(&objects::pool(PRIMARY, &numbers)).await.unwrap();
        for (at, server) in site.fleet.servers.iter().enumerate() {
            site.run_as(&format!("pod-{at}"), PRIMARY, server.ip()).await;
        }
        let picker = picker(&site).await;
        let named = endpoints.iter().map(|endpoint| {
            let at = site.fleet.servers.iter().position(|it| it.ip() == endpoint.ip()).unwrap();
            let rank = numbers.iter().position(|port| *port == endpoint.port()).unwrap();
            (format!("pod-{at}-rank-{rank}"), *endpoint)
        });
        until_endpoints(&picker, named).await;
        until_ready(&picker).await;
        let pool = Pool::OverrideHost {
            endpoints: endpoints.clone(),
            destinations: vec![Destination::Metadata, Destination::Header],
        };
        let config = EnvoyConfig::picked(ExtProc::full_duplex(picker.ext_proc), pool);
        let envoy = Envoy::start(&config).await.unwrap();
        Self { site, _more: fleets, _picker: picker, envoy, endpoints }
    }

    /// The answer to a request that names endpoints.
    async fn ask(&self, selection: &str) -> Answer {
        let request = Request::get("/v1/models").header("test-epp-endpoint-selection", selection);
        let request = request.body(Body::default()).unwrap();
        self.envoy.client().send(request).await.unwrap().collect().await
    }

    /// Where requests go that name endpoints, of so many.
    async fn places(&self, selection: &str, requests: usize) -> BTreeSet<SocketAddr> {
        let mut places = BTreeSet::new();
        for _ in 0..requests {
            let answer = self.ask(selection).await;
            assert_eq!(answer.status, 200, "{selection}: {}", answer.text());
            places.insert(answer.header("x-sim-server").unwrap().parse().unwrap());
        }
        places
    }
}

/// The rights that the suite grants to the account `default`, and no other.
async fn account(namespace: &Namespace<'_>) -> Account {
    let rule = |group: &str, resource: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": ["get", "list", "watch"]});
    let rules = [rule("inference.networking.k8s.io", "inferencepools"), rule("", "pods")];
    let rbac = "rbac.authorization.k8s.io";
    let reader = json!({
        "apiVersion": format!("{rbac}/v1"),
        "kind": "Role",
        "metadata": {"name": "inference-model-reader"},
        "rules": rules,
    });
    let binding = json!({
        "apiVersion": format!("{rbac}/v1"),
        "kind": "RoleBinding",
        "metadata": {"name": "epp-to-inference-model-reader"},
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "inference-model-reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "default"}],
    });
    namespace.apply(&reader).await.unwrap();
    namespace.apply(&binding).await.unwrap();
    namespace.account("default").await.unwrap()
}

/// A picker with the suite's arguments, each a word of its own, and the configuration that we ship for it.
async fn picker(site: &Site<'_>) -> Lodesman {
    let config = manifest("overlays/conformance/config.yaml");
    let namespace = &site.namespace.name;
    let args = ["--pool-name", PRIMARY, "--pool-namespace", namespace, "--zap-encoder", "json"];
    site.picker_of(&[&args[..], &["--config-file", &config]].concat(), "x").await
}

#[tokio::test]
async fn requests_go_to_the_endpoints_that_they_name() {
    let Some(cluster) = cluster().await else { return };
    let suite = Suite::start(cluster, 3, 1).await;
    let all = &suite.endpoints;
    let set = |places: &[SocketAddr]| places.iter().copied().collect::<BTreeSet<_>>();
    for (selection, places) in [
        (all[0].ip().to_string(), &all[..1]),
        (all[1].to_string(), &all[1..2]),
        (format!("{}, {}", all[0].ip(), all[1]), &all[..2]),
        (format!(" {} ,{},{} ", all[0].ip(), all[1].ip(), all[2].ip()), &all[..]),
        (format!("{},10.9.9.9", all[2].ip()), &all[2..]),
        (String::new(), &all[..]),
    ] {
        assert_eq!(suite.places(&selection, 30).await, set(places), "{selection}");
    }
}

#[tokio::test]
async fn naming_no_member_of_the_pool_is_503_and_not_fail_open() {
    let Some(cluster) = cluster().await else { return };
    let suite = Suite::start(cluster, 1, 1).await;
    let open = json!({"spec": {"endpointPickerRef": {"failureMode": "FailOpen"}}});
    suite.site.namespace.merge(objects::POOL, PRIMARY, &open).await.unwrap();
    for selection in ["10.9.9.9", "10.9.9.9:3000,10.9.9.8", "nonsense"] {
        assert_eq!(suite.ask(selection).await.status, 503, "{selection}");
    }
}

#[tokio::test]
async fn address_without_a_port_means_all_ports_of_the_pod() {
    let Some(cluster) = cluster().await else { return };
    let suite = Suite::start(cluster, 2, 3).await;
    let ip = suite.endpoints[0].ip();
    let of_pod: BTreeSet<_> = suite.endpoints.iter().copied().filter(|it| it.ip() == ip).collect();
    assert_eq!(of_pod.len(), 3);
    assert_eq!(suite.places(&ip.to_string(), 60).await, of_pod);
    for endpoint in &suite.endpoints {
        assert_eq!(suite.places(&endpoint.to_string(), 5).await, BTreeSet::from([*endpoint]));
    }
}

#[tokio::test]
async fn served_endpoint_is_reported_from_the_gateways_metadata() {
    let Some(cluster) = cluster().await else { return };
    let suite = Suite::start(cluster, 3, 1).await;
    for endpoint in &suite.endpoints {
        let answer = suite.ask(&endpoint.to_string()).await;
        let reported = answer.header("x-conformance-test-served-endpoint");
        assert_eq!(reported, Some(endpoint.to_string().as_str()));
    }
}

#[tokio::test]
async fn bodies_of_any_kind_are_answered() {
    let Some(cluster) = cluster().await else { return };
    let suite = Suite::start(cluster, 2, 1).await;
    let json = chat(1, false).to_string();
    for (path, body) in [(CHAT, json.as_str()), ("/echo", "no JSON at all"), ("/", "")] {
        let target = suite.endpoints[1].to_string();
        let request = Request::post(path).header("test-epp-endpoint-selection", &target);
        let request = request.body(Body::full(body.to_owned())).unwrap();
        let answer = suite.envoy.client().send(request).await.unwrap().collect().await;
        assert_eq!(answer.status, 200, "{path} {}", answer.text());
        assert_eq!(answer.header("x-sim-server"), Some(target.as_str()), "{path}");
    }
}

// FR-165
#[tokio::test]
async fn each_pools_picker_answers_for_its_own_pods_alone() {
    let Some(cluster) = cluster().await else { return };
    let [one, other] = [Suite::start(cluster, 2, 1).await, Suite::start(cluster, 2, 1).await];
    let both: Vec<_> =
        one.endpoints.iter().chain(&other.endpoints).map(ToString::to_string).collect();
    let both = both.join(",");
    for suite in [&one, &other] {
        let own = suite.endpoints.iter().copied().collect();
        assert_eq!(suite.places(&both, 30).await, own);
    }
}

/// What a picker says of its health under a name.
async fn health(picker: &Lodesman, service: &str) -> ServingStatus {
    let url = format!("http://127.0.0.1:{}", picker.health.port());
    let channel = tonic::transport::Endpoint::from_shared(url).unwrap().connect().await.unwrap();
    let request = HealthCheckRequest { service: service.to_owned() };
    HealthClient::new(channel).check(request).await.unwrap().into_inner().status()
}

#[tokio::test]
async fn health_is_told_in_plaintext_under_the_name_of_the_suite() {
    let Some(cluster) = cluster().await else { return };
    let mut site = Site::new(cluster, 1).await;
    site.account = account(&site.namespace).await;
    let picker = picker(&site).await;
    assert_eq!(health(&picker, "inference-extension").await, ServingStatus::NotServing);
    assert_eq!(health(&picker, "liveness").await, ServingStatus::Serving);
    site.namespace.apply(&objects::pool(PRIMARY, &[site.port()])).await.unwrap();
    until_ready(&picker).await;
    assert_eq!(health(&picker, "inference-extension").await, ServingStatus::Serving);
}

// FR-107
#[tokio::test]
async fn nothing_but_pools_and_pods_need_be_readable() {
    let Some(cluster) = cluster().await else { return };
    let suite = Suite::start(cluster, 1, 1).await;
    let answer = suite.ask("").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}
