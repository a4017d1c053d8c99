//! A model that the server knows under another name.

use http::Request;
use lodesman_e2e::client::Answer;
use lodesman_e2e::envoy::{BodyMode, ExtProc, Mode, Picker};
use lodesman_e2e::{Body, Client, Envoy};
use serde_json::{Value, json};

use super::stage::{CHAT, Stage, at_rest, chat, original_dst, picker};
use super::upstream::Echo;

const REWRITE: &str = "x-llm-d-model-name-rewrite";

async fn ask(client: Client, model: &str, body: String) -> Answer {
    let request = Request::post(CHAT).header(REWRITE, model);
    let request = request.header("content-type", "application/json");
    client.send(request.body(Body::full(body)).unwrap()).await.unwrap().collect().await
}

/// An Envoy for one body mode in both directions.
async fn envoy(picker: std::net::SocketAddr, mode: BodyMode, keeps_length: bool) -> Envoy {
    let mode = Mode::with_body(mode);
    let mut filter = ExtProc::new(Picker::new([picker]), mode, mode);
    filter.extra.insert("allow_content_length_header".to_owned(), json!(keeps_length));
    Envoy::start(&original_dst(filter)).await.unwrap()
}

#[tokio::test]
async fn length_fits_the_new_name_and_the_client_sees_its_own() {
    let echo = Echo::start().await;
    let picker = picker(&[echo.address], "").await;
    for mode in [BodyMode::FullDuplexStreamed, BodyMode::Buffered, BodyMode::BufferedPartial] {
        for keeps_length in [false, true] {
            let envoy = envoy(picker.ext_proc, mode, keeps_length).await;
            let case = format!("{mode:?}, length kept: {keeps_length}");
            fits(envoy.client(), &echo, "a-model-with-a-much-longer-name", &case).await;
            fits(envoy.client(), &echo, "m", &case).await;
        }
    }
    at_rest(&picker).await;
}

/// One byte short, and the server would read half a document or wait for ever.
async fn fits(client: Client, echo: &Echo, name: &str, case: &str) {
    let sent = chat(1, false).to_string();
    let answer = ask(client, name, sent.clone()).await;
    assert_eq!((answer.status.as_u16(), &answer.broken), (200, &None), "{case}, {name}");
    let seen = echo.last();
    let wanted = sent.replace(r#""model":"sim""#, &format!(r#""model":"{name}""#));
    assert_eq!(seen.body, wanted, "{case}");
    let length = wanted.len().to_string();
    assert!(seen.header("content-length").is_none_or(|told| told == length), "{case}, {name}");
    assert_eq!(seen.header(REWRITE), None, "{case}, {name}");
    assert_eq!(answer.text(), sent, "{case}, {name}");
}

#[tokio::test]
async fn body_that_is_not_seen_or_not_held_keeps_its_name_and_length() {
    let echo = Echo::start().await;
    let picker = picker(&[echo.address], "").await;
    let sent = chat(1, false).to_string();
    for mode in [BodyMode::None, BodyMode::Streamed] {
        let envoy = envoy(picker.ext_proc, mode, true).await;
        let answer = ask(envoy.client(), "other", sent.clone()).await;
        assert_eq!((answer.status.as_u16(), answer.text()), (200, sent.clone()), "{mode:?}");
        assert_eq!(echo.last().body, sent, "{mode:?}");
        assert_eq!(echo.last().header(REWRITE), None, "{mode:?}");
    }
    at_rest(&picker).await;
}

#[tokio::test]
async fn clients_name_comes_back_in_json_and_in_events() {
    let stage = Stage::start(1).await;
    for mode in [BodyMode::FullDuplexStreamed, BodyMode::Streamed, BodyMode::Buffered] {
        let request = Mode::with_body(BodyMode::FullDuplexStreamed);
        let filter =
            ExtProc::new(Picker::new([stage.picker.ext_proc]), request, Mode::with_body(mode));
        let envoy = Envoy::start(&original_dst(filter)).await.unwrap();
        let whole = renamed(envoy.client(), false).await;
        assert_eq!(whole.json().unwrap()["model"], "my-alias", "{mode:?}");
        let events = renamed(envoy.client(), true).await.text();
        assert!(events.ends_with("data: [DONE]\n\n"), "{mode:?} {events}");
        let data = events.lines().filter_map(|line| line.strip_prefix("data: "));
        let models: Vec<_> = data
            .filter_map(|event| serde_json::from_str::<Value>(event).ok())
            .map(|event| event["model"].clone())
            .collect();
        assert!(models.len() >= 5 && models.iter().all(|name| name == "my-alias"), "{events}");
    }
    at_rest(&stage.picker).await;
}

/// Asks for an alias of the model that the server knows as `sim`.
async fn renamed(client: Client, stream: bool) -> Answer {
    let mut body = chat(5, stream);
    body["model"] = json!("my-alias");
    let answer = ask(client, "sim", body.to_string()).await;
    assert_eq!((answer.status.as_u16(), &answer.broken), (200, &None), "{}", answer.text());
    answer
}
