//! The orders in which messages come.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, Request};
use lodesman_e2e::envoy::{BodyMode, ExtProc, HeaderMode, Mode, Picker};
use lodesman_e2e::{Body, Client, Envoy, Piece};

use super::stage::{CHAT, at_rest, chat, original_dst, outcomes, picker, total};
use super::upstream::Echo;

const ANOMALIES: &str = "lodesman_protocol_anomalies_total";
const OUTCOMES: &str = "lodesman_request_outcomes_total";

fn trailers() -> HeaderMap {
    HeaderMap::from_iter([("x-end".parse().unwrap(), HeaderValue::from_static("1"))])
}

/// The same request in every form that Envoy tells differently.
fn forms() -> Vec<(&'static str, Method, &'static str, Body)> {
    let text = chat(1, false).to_string();
    let (first, second) = text.split_at(text.len() / 2);
    let halves = [first, second].map(|half| Piece::data(half.to_owned()));
    let paused = [halves[0].clone(), Piece::Pause(Duration::from_millis(30)), halves[1].clone()];
    vec![
        ("one piece", Method::POST, CHAT, Body::full(text.clone())),
        ("chunks", Method::POST, CHAT, Body::pieces(paused)),
        ("no body", Method::GET, "/v1/models", Body::default()),
        ("empty body", Method::POST, "/anything", Body::full("")),
        (
            "trailers",
            Method::POST,
            CHAT,
            Body::pieces(halves.into_iter().chain([Piece::Trailers(trailers())])),
        ),
        (
            "trailers, unread",
            Method::POST,
            "/anything",
            Body::pieces([Piece::data("x"), Piece::Trailers(trailers())]),
        ),
        ("deletion", Method::DELETE, "/anything", Body::default()),
    ]
}

fn request(method: Method, path: &str, body: Body) -> Request<Body> {
    let builder = Request::builder().method(method).uri(path);
    builder.header("te", "trailers").header("trailer", "x-end").body(body).unwrap()
}

#[tokio::test]
async fn every_order_of_messages_is_answered_in_full_duplex() {
    let echo = Echo::start().await;
    let picker = picker(&[echo.address], "").await;
    let envoy = Envoy::start(&original_dst(ExtProc::full_duplex(picker.ext_proc))).await.unwrap();
    for client in [Client::http1(envoy.address()), Client::http2(envoy.address())] {
        for (form, method, path, body) in forms() {
            let answer = client.send(request(method.clone(), path, body)).await.unwrap();
            let answer = answer.collect().await;
            assert_eq!((answer.status.as_u16(), answer.broken.as_deref()), (200, None), "{form}");
            let seen = echo.last();
            assert_eq!(seen.line, format!("{method} {path}"), "{form}");
            assert_eq!(answer.text().as_bytes(), seen.body, "{form}");
            let ends = form.starts_with("trailers").then(trailers);
            assert_eq!(seen.trailers, ends.clone().unwrap_or_default(), "{form}");
            assert_eq!(answer.trailers, ends, "{form}");
        }
    }
    at_rest(&picker).await;
    assert_eq!(total(&picker, ANOMALIES, "").await.unwrap(), 0);
    assert_eq!(outcomes(&picker, "ok").await.unwrap(), 2 * forms().len());
}

#[tokio::test]
async fn headers_alone_are_enough_to_place_a_request() {
    let echo = Echo::start().await;
    let picker = picker(&[echo.address], "").await;
    for response in [Mode::SKIP, Mode::HEADERS] {
        let filter = ExtProc::new(Picker::new([picker.ext_proc]), Mode::HEADERS, response);
        let envoy = Envoy::start(&original_dst(filter)).await.unwrap();
        for (form, method, path, body) in forms() {
            let answer = envoy.client().send(request(method, path, body)).await.unwrap();
            let answer = answer.collect().await;
            assert_eq!((answer.status.as_u16(), answer.broken.as_deref()), (200, None), "{form}");
            assert_eq!(answer.text().as_bytes(), echo.last().body, "{form}");
        }
        at_rest(&picker).await;
    }
    assert_eq!(total(&picker, ANOMALIES, "").await.unwrap(), 0);
    assert_eq!(total(&picker, OUTCOMES, "").await.unwrap(), 2 * forms().len());
    // Three of the answers end with their headers.
    assert_eq!(outcomes(&picker, "ok").await.unwrap(), 3);
}

#[tokio::test]
async fn trailers_are_answered_in_every_mode() {
    let echo = Echo::start().await;
    let picker = picker(&[echo.address], "").await;
    for body in [BodyMode::None, BodyMode::Streamed, BodyMode::Buffered, BodyMode::BufferedPartial]
    {
        let mode = Mode { trailers: HeaderMode::Send, ..Mode::with_body(body) };
        let filter = ExtProc::new(Picker::new([picker.ext_proc]), mode, mode);
        let envoy = Envoy::start(&original_dst(filter)).await.unwrap();
        for (form, method, path, sent) in forms() {
            let answer = envoy.client().send(request(method, path, sent)).await.unwrap();
            let answer = answer.collect().await;
            assert_eq!((answer.status.as_u16(), answer.broken.as_deref()), (200, None), "{form}");
            assert_eq!(answer.text().as_bytes(), echo.last().body, "{body:?} {form}");
            let ends = form.starts_with("trailers").then(trailers);
            assert_eq!(answer.trailers, ends, "{body:?} {form}");
        }
    }
    at_rest(&picker).await;
    assert_eq!(total(&picker, ANOMALIES, "").await.unwrap(), 0);
}

#[tokio::test]
async fn more_than_is_needed_may_be_told() {
    let echo = Echo::start().await;
    let picker = picker(&[echo.address], "").await;
    let mut filter = ExtProc::full_duplex(picker.ext_proc);
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    filter.request_attributes = names(&["request.path", "source.address"]);
    filter.response_attributes =
        names(&["response.flags", "response.code_details", "upstream.address"]);
    filter.extra.insert("allow_mode_override".to_owned(), true.into());
    filter.extra.insert("disable_clear_route_cache".to_owned(), true.into());
    let envoy = Envoy::start(&original_dst(filter)).await.unwrap();
    for (form, method, path, body) in forms() {
        let answer = envoy.client().send(request(method, path, body)).await.unwrap();
        assert_eq!(answer.collect().await.text().as_bytes(), echo.last().body, "{form}");
    }
    at_rest(&picker).await;
    assert_eq!(total(&picker, ANOMALIES, "").await.unwrap(), 0);
}
