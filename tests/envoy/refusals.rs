//! Answers of the picker's own.

use std::time::Duration;

use http::Request;
use lodesman_e2e::client::Answer;
use lodesman_e2e::envoy::{BodyMode, ExtProc, Mode, Picker};
use lodesman_e2e::{Body, Client, Envoy, Fleet, Lodesman, Piece};
use serde_json::{Value, json};

use super::stage::{
    CHAT, SOON, at_rest, chat, fleet, original_dst, picker, picker_of, requests_at,
};
use super::traffic::send_all;

/// What is to be seen of a refusal.
struct Expected {
    status: u16,
    reason: Option<&'static str>,
    details: &'static str,
    retry: bool,
}

const MALFORMED: Expected =
    Expected { status: 400, reason: None, details: "lodesman_malformed_body", retry: false };
const TOO_LARGE: Expected =
    Expected { status: 413, reason: None, details: "lodesman_body_too_large", retry: false };
const BUDGET_SPENT: Expected = Expected {
    status: 429,
    reason: Some("rejected-saturated"),
    details: "lodesman_body_budget_spent",
    retry: true,
};
const NO_ENDPOINTS: Expected = Expected {
    status: 503,
    reason: Some("rejected-no-endpoints"),
    details: "lodesman_no_endpoints",
    retry: true,
};

async fn post(client: Client, body: Body) -> Answer {
    let request = Request::post(CHAT).header("content-type", "application/json");
    client.send(request.body(body).unwrap()).await.unwrap().collect().await
}

fn check(answer: &Answer, logged: &Value, expected: &Expected) {
    assert_eq!(answer.status, expected.status, "{}", answer.text());
    assert_eq!(answer.broken, None);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("x-llm-d-request-dropped-reason"), expected.reason);
    assert_eq!(answer.header("retry-after"), expected.retry.then_some("1"));
    assert!(answer.header("x-request-id").is_some_and(|id| logged["request_id"] == id));
    let error = &answer.json().unwrap()["error"];
    assert!(error["message"].is_string() && error["type"].is_string(), "{error}");
    assert_eq!(
        (&logged["status"], &logged["details"]),
        (&json!(expected.status), &json!(expected.details))
    );
    assert_eq!(logged["upstream"], Value::Null);
}

/// Refused in each mode in which the body is seen, and nothing of it reaches a server.
async fn refused(picker: &Lodesman, fleet: &Fleet, body: &str, expected: Expected) {
    for mode in [BodyMode::FullDuplexStreamed, BodyMode::Buffered, BodyMode::BufferedPartial] {
        let request = Mode::with_body(mode);
        for response in [request, Mode::HEADERS] {
            let filter = ExtProc::new(Picker::new([picker.ext_proc]), request, response);
            let envoy = Envoy::start(&original_dst(filter)).await.unwrap();
            let answer = post(envoy.client(), Body::full(body.to_owned())).await;
            check(&answer, &envoy.access_log_of(1).await.unwrap()[0], &expected);
        }
    }
    for server in &fleet.servers {
        assert_eq!(requests_at(*server).await.len(), 0);
    }
    at_rest(picker).await;
}

#[tokio::test]
async fn garbage_on_the_path_of_an_api_is_400() {
    let fleet = fleet(1, "").await;
    let picker = picker(&fleet.servers, "").await;
    refused(&picker, &fleet, "\u{0}garbage {", MALFORMED).await;
}

#[tokio::test]
async fn body_over_the_limit_is_413() {
    let fleet = fleet(1, "").await;
    let picker = picker(&fleet.servers, "--max-request-body 100KiB").await;
    let mut body = chat(1, false);
    body["user"] = json!("x".repeat(200 << 10));
    refused(&picker, &fleet, &body.to_string(), TOO_LARGE).await;
}

#[tokio::test]
async fn body_over_the_budget_of_all_is_429() {
    let fleet = fleet(1, "").await;
    let picker = picker(&fleet.servers, "--body-budget 100KiB").await;
    let mut body = chat(1, false);
    body["user"] = json!("x".repeat(200 << 10));
    refused(&picker, &fleet, &body.to_string(), BUDGET_SPENT).await;
}

#[tokio::test]
async fn empty_pool_is_503() {
    let directory = tempfile::tempdir().unwrap();
    let endpoints = directory.path().join("endpoints.yaml");
    std::fs::write(&endpoints, "endpoints: []\n").unwrap();
    let file = json!({
        "apiVersion": "llm-d.ai/v1alpha1",
        "kind": "EndpointPickerConfig",
        "plugins": [{"type": "file-discovery", "parameters": {"path": endpoints}}],
        "dataLayer": {"discovery": {"pluginRef": "file-discovery"}},
    });
    let picker = picker_of(["--config-text".to_owned(), file.to_string()]).await;
    let filter = ExtProc::full_duplex(picker.ext_proc);
    let envoy = Envoy::start(&original_dst(filter)).await.unwrap();
    let answer = post(envoy.client(), Body::full(chat(1, false).to_string())).await;
    check(&answer, &envoy.access_log_of(1).await.unwrap()[0], &NO_ENDPOINTS);
}

#[tokio::test]
async fn upload_without_end_is_refused_before_it_ends() {
    let fleet = fleet(1, "").await;
    let picker = picker(&fleet.servers, "--max-request-body 100KiB").await;
    let envoy = Envoy::start(&original_dst(ExtProc::full_duplex(picker.ext_proc))).await.unwrap();
    let head = Piece::data(r#"{"model":"sim","prompt":""#);
    let endless = std::iter::repeat_n(Piece::data(vec![b'x'; 40 << 10]), 4);
    let pieces = [head].into_iter().chain(endless).chain([Piece::Pause(10 * SOON)]);
    let client = Client::http2(envoy.address());
    let answer = tokio::time::timeout(SOON, post(client, Body::pieces(pieces))).await.unwrap();
    assert_eq!(answer.status, 413, "{}", answer.text());
    at_rest(&picker).await;
}

#[tokio::test]
async fn upload_that_stops_is_408() {
    let fleet = fleet(1, "").await;
    let picker = picker(&fleet.servers, "--body-read-timeout 200ms").await;
    let envoy = Envoy::start(&original_dst(ExtProc::full_duplex(picker.ext_proc))).await.unwrap();
    let pieces = [Piece::data(r#"{"model":"#), Piece::Pause(10 * SOON)];
    let client = Client::http2(envoy.address());
    let answer = tokio::time::timeout(SOON, post(client, Body::pieces(pieces))).await.unwrap();
    assert_eq!(answer.status, 408, "{}", answer.text());
    at_rest(&picker).await;
}

#[tokio::test]
async fn refusals_do_not_disturb_their_neighbors() {
    let fleet = fleet(1, "--time-scale 50").await;
    let picker = picker(&fleet.servers, "").await;
    let envoy = Envoy::start(&original_dst(ExtProc::full_duplex(picker.ext_proc))).await.unwrap();
    let good = chat(1, false).to_string();
    for (body, status) in
        [("nonsense", 400), (good.as_str(), 200), ("[1]", 400), (good.as_str(), 200)]
    {
        let pause = Piece::Pause(Duration::from_millis(1));
        let body = Body::pieces([Piece::data(body.to_owned()), pause]);
        assert_eq!(post(envoy.client(), body).await.status, status);
    }
    at_rest(&picker).await;
}

// FR-146, FR-147
#[tokio::test]
async fn requests_are_not_logged_one_by_one_unless_that_is_asked_for() {
    const REQUESTS: usize = 100;
    let fleet = fleet(2, "--time-scale 50").await;
    let picker = picker(&fleet.servers, "").await;
    let envoy = Envoy::start(&original_dst(ExtProc::full_duplex(picker.ext_proc))).await.unwrap();
    let answers = send_all(envoy.client(), 4, vec![chat(1, false); REQUESTS]).await;
    assert!(answers.iter().all(|answer| answer.status == 200));
    at_rest(&picker).await;
    let log = picker.process.output();
    assert!(log.lines().count() < REQUESTS / 2, "{log}");
}

#[tokio::test]
async fn no_word_of_a_body_is_logged_or_shown() {
    let fleet = fleet(1, "--time-scale 50").await;
    let picker = picker(&fleet.servers, "-v 5").await;
    let envoy = Envoy::start(&original_dst(ExtProc::full_duplex(picker.ext_proc))).await.unwrap();
    let mut good = chat(4, true);
    good["messages"][0]["content"] = json!("tell nobody");
    for body in [good.to_string(), r#"{"model":"sim","messages":"tell nobody""#.to_owned()] {
        let answer = post(envoy.client(), Body::full(body)).await;
        assert!(!answer.text().contains("nobody"), "{}", answer.text());
    }
    at_rest(&picker).await;
    let pages = [(picker.metrics, "/metrics"), (picker.admin, "/debug/snapshot")];
    for (address, path) in pages {
        let page = Client::http1(address).get(path).await.unwrap().text();
        assert!(!page.contains("nobody"), "{page}");
    }
    let log = picker.process.output();
    assert!(log.contains("listening") && !log.contains("nobody"), "{log}");
}
