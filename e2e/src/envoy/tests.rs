//! The harness against a real Envoy, a stub picker and stub model servers.

mod modes;

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Request, StatusCode};
use serde_json::{Value, json};

use super::*;
use crate::client::{Body, Piece};
use crate::stub::{self, Server, StubPicker};
use crate::wait::free_address;

fn both(endpoints: &[SocketAddr]) -> Pool {
    Pool::Static { endpoints: endpoints.to_vec(), policy: Policy::RoundRobin }
}

fn duplex() -> Mode {
    Mode::with_body(BodyMode::FullDuplexStreamed)
}

fn post(pieces: impl IntoIterator<Item = Piece>) -> Request<Body> {
    Request::post("/v1/chat/completions").body(Body::pieces(pieces)).unwrap()
}

#[tokio::test]
async fn plain_proxy_alternates_and_logs_each_request() {
    let servers = [Server::start().await, Server::start().await];
    let addresses = servers.each_ref().map(|server| server.address);
    let envoy = Envoy::start(&EnvoyConfig::plain(both(&addresses))).await.unwrap();
    for _ in 0..4 {
        assert_eq!(envoy.client().get("/").await.unwrap().status, StatusCode::OK);
    }
    let log = envoy.access_log_of(4).await.unwrap();
    for address in addresses {
        let count =
            log.iter().filter(|line| line["upstream"] == json!(address.to_string())).count();
        assert_eq!(count, 2, "{log:?}");
    }
    assert_eq!(log[0]["details"], "via_upstream");
    assert_eq!(envoy.stat("cluster.pool.upstream_rq_total").await.unwrap(), Some(4));
}

#[tokio::test]
async fn full_duplex_picker_chooses_by_header_and_echoes_every_byte() {
    let servers = [Server::start().await, Server::start().await];
    let picker = StubPicker::start(servers[1].address).await;
    let pool = Pool::OriginalDst(Destination::Header);
    let mut config = EnvoyConfig::picked(ExtProc::full_duplex(picker.address), pool);
    config.subset_hint = Some(json!("10.0.0.1:8000"));
    let envoy = Envoy::start(&config).await.unwrap();
    let body: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
    let request = Request::post("/").body(Body::full(body.clone())).unwrap();
    let answer = envoy.client().send(request).await.unwrap().collect().await;
    assert_eq!(answer.broken, None);
    assert_eq!(answer.header("x-served-by"), Some(servers[1].address.to_string().as_str()));
    assert_eq!(
        answer.chunks.iter().flat_map(|chunk| chunk.data.to_vec()).collect::<Vec<_>>(),
        body
    );
    let first = picker.messages().remove(0);
    let protocol = first.protocol_config.unwrap();
    assert_eq!((protocol.request_body_mode, protocol.response_body_mode), (4, 4));
    assert!(first.metadata_context.unwrap().filter_metadata.contains_key("envoy.lb.subset_hint"));
}

#[tokio::test]
async fn metadata_picks_a_member_and_the_served_endpoint_is_logged() {
    let servers = [Server::start().await, Server::start().await];
    let picker = StubPicker::start(servers[0].address).await;
    let pool = Pool::OverrideHost {
        endpoints: servers.iter().map(|server| server.address).collect(),
        destinations: vec![Destination::Metadata, Destination::Header],
    };
    let mode = Mode::with_body(BodyMode::Buffered);
    let filter = ExtProc::new(Picker::new([picker.address]), mode, Mode::SKIP);
    let envoy = Envoy::start(&EnvoyConfig::picked(filter, pool)).await.unwrap();
    for _ in 0..3 {
        let answer = envoy.client().post("/", &json!({"prompt": "x"})).await.unwrap();
        assert_eq!(answer.header("x-served-by"), Some(servers[0].address.to_string().as_str()));
    }
    let log = envoy.access_log_of(3).await.unwrap();
    let chosen = servers[0].address.to_string();
    assert_eq!(log[2]["lb"]["x-gateway-destination-endpoint-served"], json!(chosen), "{log:?}");
    assert_eq!(picker.messages()[0].protocol_config.unwrap().request_body_mode, 2);
}

#[tokio::test]
async fn metadata_alone_reaches_an_original_destination() {
    let server = Server::start().await;
    let picker = StubPicker::start(server.address).await;
    let pool = Pool::OriginalDst(Destination::Metadata);
    let config = EnvoyConfig::picked(ExtProc::full_duplex(picker.address), pool);
    let envoy = Envoy::start(&config).await.unwrap();
    assert_eq!(envoy.client().get("/").await.unwrap().status, StatusCode::OK);
}

#[tokio::test]
async fn dead_picker_is_500_unless_its_health_check_empties_the_cluster() {
    let server = Server::start().await;
    let mut picker = Picker::new([free_address().unwrap()]);
    for (health_check, status) in [
        (None, StatusCode::INTERNAL_SERVER_ERROR),
        (Some(HealthCheck { interval: Duration::from_millis(200) }), StatusCode::OK),
    ] {
        picker.health_check = health_check;
        let mut filter = ExtProc::new(picker.clone(), duplex(), duplex());
        filter.failure_mode_allow = true;
        let envoy = Envoy::start(&EnvoyConfig::picked(filter, both(&[server.address]))).await;
        let answer = envoy.unwrap().client().post("/", &json!({})).await.unwrap();
        assert_eq!(answer.status, status);
    }
}

#[tokio::test]
async fn stream_is_opened_again_on_the_next_replica() {
    let server = Server::start().await;
    let picker = StubPicker::start(server.address).await;
    let replicas = Picker::new([free_address().unwrap(), picker.address]);
    let mut filter = ExtProc::new(replicas, duplex(), duplex());
    filter.retries = 3;
    let pool = Pool::OriginalDst(Destination::Header);
    let envoy = Envoy::start(&EnvoyConfig::picked(filter, pool)).await.unwrap();
    for _ in 0..4 {
        let answer = envoy.client().post("/", &json!({})).await.unwrap();
        assert_eq!(answer.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn name_of_the_picker_cluster_is_the_authority() {
    let server = Server::start().await;
    let picker = StubPicker::start(server.address).await;
    for (name, status) in [
        ("outbound_9002", StatusCode::OK),
        // the h2 crate, on which the stub stands, refuses such an authority
        ("outbound|9002||epp.default.svc.cluster.local", StatusCode::INTERNAL_SERVER_ERROR),
    ] {
        let mut filter = ExtProc::full_duplex(picker.address);
        name.clone_into(&mut filter.picker.name);
        let pool = Pool::OriginalDst(Destination::Header);
        let envoy = Envoy::start(&EnvoyConfig::picked(filter, pool)).await.unwrap();
        let answer = envoy.client().post("/", &json!({})).await.unwrap();
        assert_eq!(answer.status, status, "{name}");
    }
}

#[tokio::test]
async fn tls_to_the_picker_sends_the_server_name() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut filter = ExtProc::full_duplex(listener.local_addr().unwrap());
    filter.picker.tls = Some(Tls { sni: Some("epp.default.svc".to_owned()) });
    let server = Server::start().await;
    let envoy = Envoy::start(&EnvoyConfig::picked(filter, both(&[server.address]))).await.unwrap();
    let client = envoy.client();
    let (hello, _) = tokio::join!(stub::first_bytes(&listener), client.get("/"));
    assert_eq!(hello[0], 0x16, "not a TLS handshake");
    assert!(hello.windows(15).any(|part| part == b"epp.default.svc"));
}

#[tokio::test]
async fn trailers_and_pauses_pass_in_both_http_versions() {
    let server = Server::start().await;
    let picker = StubPicker::start(server.address).await;
    let pool = Pool::OriginalDst(Destination::Header);
    let config = EnvoyConfig::picked(ExtProc::full_duplex(picker.address), pool);
    let envoy = Envoy::start(&config).await.unwrap();
    let pause = Duration::from_millis(80);
    let trailers =
        HeaderMap::from_iter([("x-end".parse().unwrap(), HeaderValue::from_static("1"))]);
    for client in [Client::http1(envoy.address()), Client::http2(envoy.address())] {
        let mut request = post([
            Piece::data("one "),
            Piece::Pause(pause),
            Piece::data("two"),
            Piece::Trailers(trailers.clone()),
        ]);
        request.headers_mut().insert("trailer", HeaderValue::from_static("x-end"));
        request.headers_mut().insert("te", HeaderValue::from_static("trailers"));
        let answer = client.send(request).await.unwrap().collect().await;
        assert_eq!((answer.text().as_str(), &answer.broken), ("one two", &None));
        let last = answer.chunks.last().unwrap();
        assert!(last.at >= answer.chunks[0].at + pause / 2, "{:?}", answer.chunks);
        assert_eq!(answer.trailers.unwrap()["x-end"], "1", "{client:?}");
    }
}

#[tokio::test]
async fn aborted_upload_ends_without_a_status() {
    let server = Server::start().await;
    let envoy = Envoy::start(&EnvoyConfig::plain(both(&[server.address]))).await.unwrap();
    let request =
        post([Piece::data("part"), Piece::Pause(Duration::from_millis(50)), Piece::Abort]);
    if let Ok(response) = envoy.client().send(request).await {
        assert!(response.collect().await.broken.is_some());
    }
    let flags = envoy.access_log_of(1).await.unwrap()[0]["flags"].clone();
    assert!(flags == "DR" || flags == "DC" || flags == "DPE", "{flags}");
}

#[tokio::test]
async fn refused_configuration_fails_at_once_with_the_reason() {
    let mut filter = ExtProc::full_duplex(free_address().unwrap());
    filter.request.trailers = HeaderMode::Skip;
    let config = EnvoyConfig::picked(filter, Pool::OriginalDst(Destination::Header));
    let error = format!("{:#}", Envoy::start(&config).await.unwrap_err());
    assert!(error.contains("request_trailer_mode"), "{error}");
}

#[tokio::test]
async fn header_route_and_extra_fields_are_rendered() {
    let server = Server::start().await;
    let mut filter = ExtProc::full_duplex(free_address().unwrap());
    filter.extra.insert("status_on_error".to_owned(), json!({"code": "ServiceUnavailable"}));
    let dead = both(&[free_address().unwrap()]);
    let mut config = EnvoyConfig::plain(dead);
    config.routes = vec![HeaderRoute {
        header: "x-model".to_owned(),
        value: "big".to_owned(),
        pool: both(&[server.address]),
    }];
    let envoy = Envoy::start(&config).await.unwrap();
    let routed = Request::get("/").header("x-model", "big").body(Body::default()).unwrap();
    assert_eq!(envoy.client().send(routed).await.unwrap().status, StatusCode::OK);
    config.ext_procs.push(filter);
    let envoy = Envoy::start(&config).await.unwrap();
    let answer = envoy.client().post("/", &Value::Null).await.unwrap();
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
}
