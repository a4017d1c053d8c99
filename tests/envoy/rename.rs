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
    let sent = chat(1, false).to_string();
    for mode in [BodyMode::FullDuplexStreamed, BodyMode::Buffered, BodyMode::BufferedPartial] {
        for keeps_length in [false, true] {
            let envoy = envoy(picker.ext_proc, mode, keeps_length).await;
            for name in ["a-model-with-a-much-longer-name", "m"] {
                let answer = ask(envoy.client(), name, sent.clone()).await;
                let case = format!("{mode:?}, length kept: {keeps_length}, {name}");
                assert_eq!((answer.status.as_u16(), &answer.broken), (200, &None), "{case}");
                let seen = echo.last();
                let wanted = sent.replace(r#""model":"sim""#, &format!(r#""model":"{name}""#));
                assert_eq!(seen.body, wanted, "{case}");
                let length = wanted.len().to_string();
                assert!(seen.header("content-length").is_none_or(|told| told == length), "{case}");
                assert_eq!(seen.header(REWRITE), None, "{case}");
                assert_eq!(answer.text(), sent, "{case}");
            }
        }
    }
    at_rest(&picker).await;
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
        for stream in [false, true] {
            let mut body = chat(5, stream);
            body["model"] = json!("my-alias");
            let answer = ask(envoy.client(), "sim", body.to_string()).await;
            let text = answer.text();
            assert_eq!((answer.status.as_u16(), &answer.broken), (200, &None), "{mode:?} {text}");
            let messages: Vec<Value> = if stream {
                let data = text.lines().filter_map(|line| line.strip_prefix("data: {"));
                data.map(|rest| serde_json::from_str(&format!("{{{rest}")).unwrap()).collect()
            } else {
                vec![answer.json().unwrap()]
            };
            assert!(messages.len() >= if stream { 5 } else { 1 }, "{text}");
            assert!(messages.iter().all(|json| json["model"] == "my-alias"), "{mode:?} {text}");
            assert_eq!(text.ends_with("data: [DONE]\n\n"), stream, "{text}");
        }
    }
    at_rest(&stage.picker).await;
}
