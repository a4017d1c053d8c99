//! What a gateway makes of what it is told at the end of an answer: as `docs/gateway-policies.md` says.

use std::fs;
use std::path::Path;

use anyhow::ensure;
use http::{Request, StatusCode};
use lodesman_e2e::client::Answer;
use lodesman_e2e::envoy::{BodyMode, ExtProc, Mode, Picker, RateLimits, validate};
use lodesman_e2e::{Body, EnvoyConfig, eventually};
use serde_json::{Value, json};

use super::limiter::Limiter;
use super::stage::{CHAT, SOON, Stage, chat, duplex, is_whole, original_dst};

/// A chat request whose answer says what it took.
fn asked(tokens: usize, stream: bool) -> Value {
    let mut request = chat(tokens, stream);
    if stream {
        request["stream_options"] = json!({"include_usage": true});
    }
    request
}

/// What an answer says that it took.
fn usage(answer: &Answer) -> Value {
    assert!(is_whole(answer), "{} {}", answer.status, answer.text());
    let text = answer.text();
    let events = text.lines().filter_map(|line| line.strip_prefix("data: {"));
    let whole =
        events.map(|event| format!("{{{event}")).next_back().unwrap_or_else(|| text.clone());
    serde_json::from_str::<Value>(&whole).unwrap()["usage"].take()
}

/// Whether a line of the access log has these tokens.
fn tells(line: &Value, usage: &Value) {
    for (field, of_usage) in [
        ("prompt_tokens", "prompt_tokens"),
        ("generated_tokens", "completion_tokens"),
        ("total_tokens", "total_tokens"),
    ] {
        assert!(usage[of_usage].as_u64().is_some_and(|tokens| tokens > 0), "{usage}");
        assert_eq!(line[field].as_f64(), usage[of_usage].as_f64(), "{field}: {line}, not {usage}");
    }
    let cached = usage["prompt_tokens_details"]["cached_tokens"].as_f64();
    assert_eq!(line["cached_tokens"].as_f64(), cached, "{line}, not {usage}");
    assert_eq!(line["tokens_source"], "reported", "{line}");
}

#[tokio::test]
async fn the_access_log_has_the_tokens_that_the_servers_tell() {
    let stage = Stage::start(2).await;
    let mut usages = Vec::new();
    for number in 0..10 {
        let request = asked(3 + number, number.is_multiple_of(2));
        usages.push(usage(&stage.client().post(CHAT, &request).await.unwrap()));
    }
    let log = stage.envoy.access_log_of(usages.len()).await.unwrap();
    for (number, (line, usage)) in log.iter().zip(&usages).enumerate() {
        let told = &line["lodesman"];
        tells(told, usage);
        assert_eq!((&told["model"], &told["served_model"]), (&json!("sim"), &json!("sim")));
        assert_eq!(told["endpoint"], line["upstream"], "{line}");
        assert_eq!(
            told["first_token_ms"].is_number(),
            number.is_multiple_of(2),
            "if streamed: {line}"
        );
        assert!(told["decision_id"].as_str().is_some_and(|id| id.len() == 16), "{line}");
    }
}

#[tokio::test]
async fn every_body_mode_that_shows_the_end_of_an_answer_tells_it() {
    for mode in [BodyMode::FullDuplexStreamed, BodyMode::Streamed, BodyMode::Buffered] {
        let stage = Stage::with(1, "--time-scale 50", "", |picker, _| {
            let request = Mode::with_body(BodyMode::FullDuplexStreamed);
            let picker = Picker::new([picker.ext_proc]);
            original_dst(ExtProc::new(picker, request, Mode::with_body(mode)))
        })
        .await;
        let usage = usage(&stage.client().post(CHAT, &asked(4, false)).await.unwrap());
        let log = stage.envoy.access_log_of(1).await.unwrap();
        tells(&log[0]["lodesman"], &usage);
    }
}

#[tokio::test]
async fn another_namespace_is_told_beside_what_it_has_and_none_is_not() {
    let stage = Stage::with(1, "", "--response-metadata-namespace envoy.lb", duplex).await;
    let usage = usage(&stage.client().post(CHAT, &asked(4, false)).await.unwrap());
    let line = stage.envoy.access_log_of(1).await.unwrap().remove(0);
    tells(&line["lb"], &usage);
    assert_eq!(line["lb"]["x-gateway-destination-endpoint"], line["upstream"], "{line}");
    assert_eq!(line["lodesman"], Value::Null);
    let silent = Stage::with(1, "", "--response-metadata-namespace=none", duplex).await;
    assert!(is_whole(&silent.client().post(CHAT, &asked(4, false)).await.unwrap()));
    let line = silent.envoy.access_log_of(1).await.unwrap().remove(0);
    assert_eq!(line["lodesman"], Value::Null, "{line}");
}

/// A page of the documentation.
fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name)).unwrap()
}

/// What the documentation gives a field of Envoy's.
fn documented(field: &str) -> Value {
    let page = page("gateway-policies.md");
    let (_, rest) = page.split_once(&format!("```yaml\n{field}:\n")).unwrap();
    serde_saphyr::from_str(rest.split_once("```").unwrap().0).unwrap()
}

#[tokio::test]
async fn the_documented_access_log_is_one() {
    let mut whole: Value = serde_saphyr::from_str(&page("envoy.yaml")).unwrap();
    let chain = &mut whole["static_resources"]["listeners"][0]["filter_chains"][0];
    chain["filters"][0]["typed_config"]["access_log"] = documented("access_log");
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    fs::write(file.path(), whole.to_string()).unwrap();
    validate(file.path()).await.unwrap();
}

async fn ask_for(stage: &Stage, user: &str, request: &Value) -> Answer {
    let request = Request::post(CHAT)
        .header("content-type", "application/json")
        .header("x-user-id", user)
        .body(Body::full(request.to_string()));
    stage.client().send(request.unwrap()).await.unwrap().collect().await
}

#[tokio::test]
async fn the_tokens_of_answers_use_up_the_budget_of_their_user() {
    const BUDGET: u64 = 100;
    let limiter = Limiter::start(BUDGET).await;
    let limits =
        RateLimits { service: limiter.address, limits: documented("typed_per_filter_config") };
    let stage = Stage::with(1, "--time-scale 50", "", |picker, fleet| EnvoyConfig {
        rate_limits: Some(limits),
        ..duplex(picker, fleet)
    })
    .await;
    let mut spent = 0;
    for number in 0.. {
        let answer = ask_for(&stage, "ada", &asked(20, number % 2 == 0)).await;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            break;
        }
        assert!(spent < BUDGET, "served with {spent} of {BUDGET} spent");
        spent += usage(&answer)["total_tokens"].as_u64().unwrap();
        // Envoy tells the service once the answer has ended.
        let charged = eventually(SOON, async || {
            let seen = limiter.spent("ada");
            ensure!(seen == spent, "{seen} tokens are charged, not {spent}");
            Ok(())
        });
        charged.await.unwrap();
    }
    assert!(spent >= BUDGET, "refused with {spent} of {BUDGET} spent");
    assert_eq!(limiter.spent("ada"), spent, "what is refused costs nothing");
    assert!(is_whole(&ask_for(&stage, "bob", &asked(20, false)).await), "another user's budget");
}
