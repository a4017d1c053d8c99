//! The choice is obeyed, whoever else says where a request should go.

use std::net::SocketAddr;

use http::Request;
use lodesman_e2e::envoy::{BodyMode, Destination, ExtProc, Mode, Picker, Pool};
use lodesman_e2e::{Body, Envoy, EnvoyConfig, free_address};
use serde_json::json;

use super::stage::{
    CHAT, Stage, at_rest, chat, duplex, ended, fleet, order, original_dst, picker, picker_of,
    requests_at, total, unlike,
};
use super::traffic::server_of;

const DESTINATION: &str = "x-gateway-destination-endpoint";

/// What a client must not be able to say to a model server or to what routes behind us.
const FORGED: [&str; 16] = [
    "x-data-parallel-host-port",
    "x-encoder-hosts-ports",
    "x-gateway-destination-endpoint-fallback",
    "x-gateway-destination-endpoint-served",
    "x-gateway-destination-endpoint-subset",
    "x-gateway-inference-fairness-id",
    "x-gateway-inference-objective",
    "x-kv-cache-source-host-port",
    "x-llm-d-inference-fairness-id",
    "x-llm-d-inference-objective",
    "x-llm-d-request-dropped-reason",
    "x-llm-d-slo-tpot-ms",
    "x-llm-d-slo-ttft-ms",
    "x-prefiller-host-port",
    "x-slo-tpot-ms",
    "x-slo-ttft-ms",
];

fn override_host(endpoints: &[SocketAddr], source: Destination) -> Pool {
    Pool::OverrideHost { endpoints: endpoints.to_vec(), destinations: vec![source] }
}

// FR-015
#[tokio::test]
async fn original_destination_is_found_by_header_and_by_metadata() {
    let fleet = fleet(2, "--time-scale 50").await;
    let picker = picker(&fleet.servers[1..], "").await;
    for source in [Destination::Header, Destination::Metadata] {
        for mode in [BodyMode::FullDuplexStreamed, BodyMode::Buffered, BodyMode::Streamed] {
            let filter = ExtProc::new(
                Picker::new([picker.ext_proc]),
                Mode::with_body(mode),
                Mode::with_body(mode),
            );
            let config = EnvoyConfig::picked(filter, Pool::OriginalDst(source));
            let envoy = Envoy::start(&config).await.unwrap();
            let answer = envoy.client().post(CHAT, &chat(1, false)).await.unwrap();
            assert_eq!(server_of(&answer), fleet.servers[1], "{source:?} {mode:?}");
        }
    }
    at_rest(&picker).await;
}

#[tokio::test]
async fn member_of_a_pool_is_chosen_by_metadata_or_header_and_told_as_served() {
    let fleet = fleet(3, "--time-scale 50").await;
    let picker = picker(&fleet.servers[2..], "").await;
    for source in [Destination::Metadata, Destination::Header] {
        let pool = override_host(&fleet.servers, source);
        let config = EnvoyConfig::picked(ExtProc::full_duplex(picker.ext_proc), pool);
        let envoy = Envoy::start(&config).await.unwrap();
        for _ in 0..4 {
            let answer = envoy.client().post(CHAT, &chat(1, false)).await.unwrap();
            assert_eq!(server_of(&answer), fleet.servers[2], "{source:?}");
        }
        let log = envoy.access_log_of(4).await.unwrap();
        let served = json!(fleet.servers[2].to_string());
        assert_eq!(log[3]["lb"][format!("{DESTINATION}-served")], served, "{log:?}");
    }
    assert_eq!(total(&picker, "lodesman_fallback_served_total", "").await.unwrap(), 0);
    at_rest(&picker).await;
}

#[tokio::test]
async fn server_that_the_gateway_took_instead_is_charged() {
    let fleet = fleet(2, "--time-scale 50").await;
    let picker = picker(&fleet.servers, "").await;
    // The pool of the gateway lacks the server that the picker is made to choose.
    let pool = override_host(&fleet.servers[..1], Destination::Metadata);
    let mut config = EnvoyConfig::picked(ExtProc::full_duplex(picker.ext_proc), pool);
    config.subset_hint = Some(json!([fleet.servers[1].to_string()]));
    let envoy = Envoy::start(&config).await.unwrap();
    let answer = envoy.client().post(CHAT, &chat(1, false)).await.unwrap();
    assert_eq!(server_of(&answer), fleet.servers[0]);
    at_rest(&picker).await;
    assert_eq!(total(&picker, "lodesman_fallback_served_total", "").await.unwrap(), 1);
}

// FR-012, FR-045
#[tokio::test]
async fn forged_headers_neither_steer_nor_arrive() {
    let fleet = fleet(2, "--time-scale 50").await;
    let picker = picker(&fleet.servers[..1], "").await;
    let pool = Pool::OriginalDst(Destination::Header);
    let config = EnvoyConfig::picked(ExtProc::full_duplex(picker.ext_proc), pool);
    let envoy = Envoy::start(&config).await.unwrap();
    for (path, body) in [
        (CHAT, Body::full(chat(1, false).to_string())),
        ("/any", Body::full("x")),
        ("/none", Body::default()),
    ] {
        let mut request = Request::post(path).header(DESTINATION, fleet.servers[1].to_string());
        for name in FORGED {
            request = request.header(name, fleet.servers[1].to_string());
        }
        let answer = envoy.client().send(request.body(body).unwrap()).await.unwrap();
        assert_eq!(answer.collect().await.status, 200);
        let seen = requests_at(fleet.servers[0]).await.pop().unwrap();
        assert_eq!(seen["path"], path);
        assert_eq!(seen["headers"][DESTINATION], fleet.servers[0].to_string());
        for name in FORGED {
            assert_eq!(seen["headers"].get(name), None, "{name}");
        }
    }
    assert_eq!(requests_at(fleet.servers[1]).await.len(), 0);
}

#[tokio::test]
async fn subset_hint_is_a_boundary() {
    let fleet = fleet(3, "--time-scale 50").await;
    let picker = picker(&fleet.servers, "").await;
    let [first, second] = [0, 1].map(|at: usize| fleet.servers[at].to_string());
    for (hint, allowed) in [
        (json!([first]), &fleet.servers[..1]),
        (json!(format!("{first},{second}")), &fleet.servers[..2]),
        (json!([fleet.servers[2].ip().to_string()]), &fleet.servers[2..]),
        (json!(["10.9.8.7:1"]), &[]),
        (json!([]), &[]),
        (json!(7), &[]),
    ] {
        let pool = Pool::OriginalDst(Destination::Header);
        let mut config = EnvoyConfig::picked(ExtProc::full_duplex(picker.ext_proc), pool);
        config.subset_hint = Some(hint.clone());
        let envoy = Envoy::start(&config).await.unwrap();
        for _ in 0..4 {
            let answer = envoy.client().post(CHAT, &chat(1, false)).await.unwrap();
            let right = match allowed {
                [] => answer.status == 503,
                _ => allowed.contains(&server_of(&answer)),
            };
            assert!(right, "{hint}: {} {}", answer.status, answer.text());
        }
    }
    at_rest(&picker).await;
}

#[tokio::test]
async fn choice_follows_the_load() {
    let stage = Stage::start(3).await;
    let mut open = Vec::new();
    for number in 0..3 {
        let held = unlike(number, 20_000, true).to_string();
        let request = Request::post(CHAT).body(Body::full(held)).unwrap();
        let mut response = stage.client().send(request).await.unwrap();
        response.chunk().await.unwrap().unwrap();
        open.push(response);
    }
    let servers = open.iter().map(|response| response.headers["x-sim-server"].clone());
    let mut servers: Vec<_> = servers.map(|server| server.to_str().unwrap().to_owned()).collect();
    servers.sort();
    servers.dedup();
    assert_eq!(servers.len(), 3, "three long answers are on three servers: {servers:?}");
    drop(open);
    at_rest(&stage.picker).await;
}

#[tokio::test]
async fn server_may_have_an_address_of_ipv6() {
    let stage = Stage::with(1, "--address ::1 --time-scale 50", "", duplex).await;
    let answer = stage.client().post(CHAT, &chat(1, false)).await.unwrap();
    assert_eq!(server_of(&answer), stage.fleet.servers[0]);
    let seen = requests_at(stage.fleet.servers[0]).await.pop().unwrap();
    let told = seen["headers"][DESTINATION].as_str().unwrap().to_owned();
    assert!(told.starts_with("[::1]:"), "{told}");
}

#[tokio::test]
async fn list_of_destinations_gives_a_retry_somewhere_to_go() {
    let config = json!({
        "apiVersion": "llm-d.ai/v1alpha1",
        "kind": "EndpointPickerConfig",
        "plugins": [
            {"type": "queue-scorer"},
            {"type": "max-score-picker", "parameters": {"maxNumOfEndpoints": 2}},
        ],
        "schedulingProfiles": [{"name": "default", "plugins": [
            {"pluginRef": "queue-scorer"}, {"pluginRef": "max-score-picker"},
        ]}],
        "lodesman": {"destinationList": "multi"},
    });
    let fleet = fleet(3, "--time-scale 50").await;
    let endpoints = format!("{},{}", fleet.servers[0], fleet.servers[1]);
    let args = ["--endpoints", &endpoints, "--config-text", &config.to_string()];
    let picker = picker_of(args.map(str::to_owned)).await;
    // Without the list the retry would go to any of the three.
    let pool = override_host(&fleet.servers, Destination::Metadata);
    let mut config = EnvoyConfig::picked(ExtProc::full_duplex(picker.ext_proc), pool);
    config.retries = 1;
    let envoy = Envoy::start(&config).await.unwrap();
    order(fleet.servers[0], json!({"kind": "error-500"})).await;
    for _ in 0..8 {
        let answer = envoy.client().post(CHAT, &chat(1, false)).await.unwrap();
        assert_eq!(server_of(&answer), fleet.servers[1]);
    }
    let seen = requests_at(fleet.servers[1]).await.pop().unwrap();
    let told = seen["headers"][DESTINATION].as_str().unwrap().to_owned();
    assert!(fleet.servers[..2].iter().all(|server| told.contains(&server.to_string())), "{told}");
    at_rest(&picker).await;
}

#[tokio::test]
async fn server_that_refuses_is_an_answer_of_the_gateway() {
    let picker = picker(&[free_address().unwrap()], "").await;
    let envoy = Envoy::start(&original_dst(ExtProc::full_duplex(picker.ext_proc))).await.unwrap();
    let answer = envoy.client().post(CHAT, &chat(1, false)).await.unwrap();
    assert_eq!(answer.status, 503);
    assert_eq!(envoy.access_log_of(1).await.unwrap()[0]["flags"], "UF");
    at_rest(&picker).await;
    ended(&picker, "upstream_5xx", 1).await;
}
