//! What a picker is sent in each processing mode.

use envoy_types::pb::envoy::service::ext_proc::v3::ProcessingRequest;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request as Message;

use super::*;

/// The kinds of the messages, body pieces of one body counted once.
fn kinds(messages: &[ProcessingRequest]) -> Vec<&'static str> {
    let kind = |message: &ProcessingRequest| match message.request.as_ref().unwrap() {
        Message::RequestHeaders(_) => "request headers",
        Message::ResponseHeaders(_) => "response headers",
        Message::RequestBody(_) => "request body",
        Message::ResponseBody(_) => "response body",
        Message::RequestTrailers(_) => "request trailers",
        Message::ResponseTrailers(_) => "response trailers",
    };
    let mut kinds: Vec<_> = messages.iter().map(kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

#[tokio::test]
async fn body_mode_decides_what_is_sent() {
    let server = Server::start().await;
    let with_bodies = ["request body", "request headers", "response body", "response headers"];
    for (body, number, expected) in [
        (BodyMode::None, 0, ["request headers", "response headers"].as_slice()),
        (BodyMode::Streamed, 1, with_bodies.as_slice()),
        (BodyMode::Buffered, 2, with_bodies.as_slice()),
        (BodyMode::BufferedPartial, 3, with_bodies.as_slice()),
        (BodyMode::FullDuplexStreamed, 4, with_bodies.as_slice()),
    ] {
        let picker = StubPicker::start(server.address).await;
        let mode = Mode::with_body(body);
        let filter = ExtProc::new(Picker::new([picker.address]), mode, mode);
        let pool = Pool::OriginalDst(Destination::Header);
        let envoy = Envoy::start(&EnvoyConfig::picked(filter, pool)).await.unwrap();
        let sent = json!({"prompt": "x".repeat(5_000)});
        let answer = envoy.client().post("/", &sent).await.unwrap();
        assert_eq!(answer.json().unwrap(), sent, "{body:?}");
        let messages = picker.messages();
        assert_eq!(messages[0].protocol_config.unwrap_or_default().request_body_mode, number);
        assert_eq!(kinds(&messages), expected, "{body:?}");
    }
}

#[tokio::test]
async fn observer_beside_the_picker_only_watches() {
    let server = Server::start().await;
    let picker = StubPicker::start(server.address).await;
    let observer = StubPicker::refusing().await;
    let mut watching = ExtProc::new(Picker::new([observer.address]), Mode::HEADERS, Mode::HEADERS);
    "observer".clone_into(&mut watching.picker.name);
    watching.observability_mode = true;
    watching.extra.insert("deferred_close_timeout".to_owned(), json!("0.05s"));
    let pool = Pool::OriginalDst(Destination::Header);
    let mut config = EnvoyConfig::picked(ExtProc::full_duplex(picker.address), pool);
    config.ext_procs.push(watching);
    let envoy = Envoy::start(&config).await.unwrap();
    let answer = envoy.client().post("/", &json!({})).await.unwrap();
    assert_eq!(answer.status, StatusCode::OK, "its refusal is ignored");
    let seen = eventually(Duration::from_secs(10), async || {
        let seen = observer.messages();
        ensure!(!seen.is_empty(), "the observer has seen nothing");
        Ok(seen)
    });
    assert!(seen.await.unwrap()[0].observability_mode);
}

#[tokio::test]
async fn attributes_are_sent_when_configured() {
    let server = Server::start().await;
    let picker = StubPicker::start(server.address).await;
    let mut filter = ExtProc::full_duplex(picker.address);
    filter.request_attributes = vec!["request.path".to_owned()];
    let pool = Pool::OriginalDst(Destination::Header);
    let envoy = Envoy::start(&EnvoyConfig::picked(filter, pool)).await.unwrap();
    envoy.client().get("/v1/models").await.unwrap();
    let attributes = &picker.messages()[0].attributes;
    assert!(attributes.values().any(|group| group.fields.contains_key("request.path")));
}

#[tokio::test]
async fn slow_answer_is_cut_by_the_message_timeout() {
    let server = Server::start().await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let mut filter = ExtProc::new(Picker::new([address]), Mode::HEADERS, Mode::SKIP);
    filter.message_timeout = Some(Duration::from_millis(100));
    let envoy = Envoy::start(&EnvoyConfig::picked(filter, both(&[server.address]))).await.unwrap();
    let answer = envoy.client().get("/").await.unwrap();
    assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT);
}

#[tokio::test]
async fn buffer_limit_bounds_a_buffered_body() {
    let server = Server::start().await;
    let picker = StubPicker::start(server.address).await;
    let mode = Mode::with_body(BodyMode::Buffered);
    let filter = ExtProc::new(Picker::new([picker.address]), mode, Mode::SKIP);
    let mut config = EnvoyConfig::picked(filter, both(&[server.address]));
    config.buffer_limit_bytes = Some(1024);
    let envoy = Envoy::start(&config).await.unwrap();
    let answer = envoy.client().post("/", &json!("x".repeat(4096))).await.unwrap();
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
}
