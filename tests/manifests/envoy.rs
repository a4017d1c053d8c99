//! The Envoys of standalone, as their manifests configure them but for addresses.

use std::path::Path;
use std::time::Duration;

use lodesman_e2e::kube::Cluster;
use lodesman_e2e::{Body, Client, Envoy, Fleet, Lodesman};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::objects::{Object, arguments};
use super::render::kustomize;

const OVERLAYS: [&str; 2] = ["overlays/standalone", "overlays/standalone-service"];

/// What a client may wait for an answer that needs no picker.
const PROMPT: Duration = Duration::from_secs(10);

struct Stage {
    _fleet: Fleet,
    picker: Lodesman,
    envoy: Envoy,
}

impl Stage {
    async fn start(cluster: &Cluster, overlay: &str) -> Self {
        let binary = Path::new(env!("CARGO_BIN_EXE_lodesman"));
        let fleet = Fleet::start(binary, 2, ["--time-scale", "50"]).await.unwrap();
        let servers: Vec<_> = fleet.servers.iter().map(ToString::to_string).collect();
        let picker = Lodesman::start(binary, ["--endpoints", &servers.join(",")]).await.unwrap();
        let mut bootstrap = bootstrap(cluster, overlay).await;
        bootstrap["admin"]["address"]["socket_address"]["port_value"] = json!(0);
        let resources = &mut bootstrap["static_resources"];
        resources["listeners"][0]["address"]["socket_address"]["port_value"] = json!(0);
        let to_picker = json!({"socket_address":
            {"address": picker.ext_proc.ip().to_string(), "port_value": picker.ext_proc.port()}});
        let cluster = &mut resources["clusters"][1]["load_assignment"];
        cluster["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"] = to_picker;
        let envoy = Envoy::start_with(&bootstrap).await.unwrap();
        Self { _fleet: fleet, picker, envoy }
    }

    fn client(&self) -> Client {
        self.envoy.client()
    }
}

/// The file and what the command line adds to it, merged as Envoy does.
async fn bootstrap(cluster: &Cluster, overlay: &str) -> Value {
    let objects = kustomize(cluster, overlay).await;
    let file = objects.of("ConfigMap").find_map(|map| map.0["data"]["envoy.yaml"].as_str());
    let mut whole: Value = serde_saphyr::from_str(file.unwrap()).unwrap();
    let envoy = objects.of("Deployment").find_map(|d: &Object| d.container("envoy")).unwrap();
    let args = arguments(envoy);
    let at = args.iter().position(|arg| arg == "--config-yaml").unwrap();
    let added: Value = serde_saphyr::from_str(&args[at + 1]).unwrap();
    let clusters = added["static_resources"]["clusters"].as_array().unwrap().clone();
    whole["static_resources"]["clusters"].as_array_mut().unwrap().extend(clusters);
    whole
}

fn chat() -> Value {
    json!({"model": "sim", "max_tokens": 2, "messages": [{"role": "user", "content": "Hello"}]})
}

#[tokio::test]
async fn a_request_is_routed_and_a_destination_of_the_clients_is_not_followed() {
    let Some(cluster) = Cluster::shared().await else { return };
    for overlay in OVERLAYS {
        let stage = Stage::start(cluster, overlay).await;
        let answer = stage.client().post("/v1/chat/completions", &chat()).await.unwrap();
        assert_eq!(answer.status, 200, "{overlay}: {}", answer.text());
        // Nobody answers there.
        let forged = http::Request::get("/v1/models")
            .header("x-gateway-destination-endpoint", "192.0.2.1:9")
            .body(Body::default())
            .unwrap();
        let answer = stage.client().send(forged).await.unwrap().collect().await;
        assert_eq!(answer.status, 200, "{overlay}: {}", answer.text());
    }
}

#[tokio::test]
async fn without_a_picker_a_request_is_refused_at_once() {
    let Some(cluster) = Cluster::shared().await else { return };
    for overlay in OVERLAYS {
        let mut stage = Stage::start(cluster, overlay).await;
        stage.picker.process.kill().unwrap();
        let (client, body) = (stage.client(), chat());
        let answer = timeout(PROMPT, client.post("/v1/chat/completions", &body)).await;
        let answer = answer.unwrap().unwrap();
        assert_eq!(answer.status, 503, "{overlay}: {}", answer.text());
    }
}

#[tokio::test]
async fn a_picker_that_hangs_holds_no_request_for_long() {
    let Some(cluster) = Cluster::shared().await else { return };
    for overlay in OVERLAYS {
        let stage = Stage::start(cluster, overlay).await;
        let (client, body) = (stage.client(), chat());
        // A connection to the picker is open, and its health is not yet in doubt.
        assert_eq!(client.post("/v1/chat/completions", &body).await.unwrap().status, 200);
        stage.picker.process.freeze().unwrap();
        for _ in 0..2 {
            let answer = timeout(PROMPT, client.post("/v1/chat/completions", &body)).await;
            let answer = answer.unwrap().unwrap();
            assert_eq!(answer.status, 503, "{overlay}: {}", answer.text());
        }
        stage.picker.process.thaw().unwrap();
    }
}
