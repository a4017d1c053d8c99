//! What the gateway is told at the end of an answer.

use expect_test::expect;
use lodesman::pool::{Event, Routes, Targets};

use super::rig::{Load, Rig};
use super::stream::{CHAT, HI, Stream};

const TOLD: &str = "--response-metadata-namespace=ai";
const USAGE: &str = r#"{"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":4}}}"#;

const TOKEN: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";

/// The fields that the last reply tells, a line each and times and ids without their values; none when it tells nothing.
fn told(log: &str) -> String {
    let line = log.lines().rfind(|line| line.starts_with("< S")).expect("a reply to an answer");
    let Some((_, fields)) = line.split_once(" metadata{ai: {") else { return String::new() };
    fields.trim_end_matches('}').split(", ").map(field).collect()
}

fn field(field: &str) -> String {
    let (key, value) = field.split_once(": ").expect("a value");
    let steady = match key {
        "decision_id" => {
            assert!(value.len() == 16 && u64::from_str_radix(value, 16).is_ok(), "{value}");
            key
        }
        "first_token_ms" => {
            assert!(value.parse::<f64>().expect("a number") > 0.0, "{value}");
            key
        }
        _ => field,
    };
    format!("{steady}\n")
}

/// The fields that the documentation lists, sorted.
fn documented() -> Vec<Option<&'static str>> {
    let page = include_str!("../../docs/gateway-policies.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split("` | ").next());
    let mut fields: Vec<_> = rows.map(Some).collect();
    fields.sort_unstable();
    fields
}

/// A placed request over one endpoint, in these body modes.
async fn placed(rig: &Rig, (request, response): (i32, i32)) -> Stream {
    let mut stream = rig.stream().await;
    stream.modes(request, response).post(CHAT, &[]).last(HI).hear(2).await;
    stream
}

#[tokio::test]
async fn the_last_reply_tells_where_a_request_went_and_what_it_took() {
    let routes = Routes {
        objectives: [("urgent".into(), 7)].into(),
        exact: [("m".into(), Targets::new("canary", [("lora", 1)]).expect("a target"))].into(),
        ..Routes::default()
    };
    let loads = [Load::new(0, 0.1).adapting(&["lora"])];
    let rig = Rig::of_told(&loads, vec![Event::Routes(routes)], &[TOLD]).await;
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[("x-llm-d-inference-objective", "urgent")]).last(HI).hear(4).await;
    stream.answer("text/event-stream").chunk(TOKEN).hear(1).await.relayed(TOKEN.len()).await;
    assert!(!stream.log().contains("metadata{ai"), "{}", stream.log());
    let end = format!("data: {USAGE}\n\ndata: [DONE]\n\n");
    stream.last_chunk(&end).relayed(end.len()).await;
    let told = told(stream.log());
    expect![[r"
        adapter: lora
        cached_tokens: 4
        decision_id
        endpoint: pod-1
        first_token_ms
        generated_tokens: 3
        model: m
        objective: urgent
        prompt_tokens: 7
        queue_ms: 0
        served_model: lora
        tokens_source: reported
        total_tokens: 10
    "]]
    .assert_eq(&told);
    let fields: Vec<_> = told.lines().map(|line| line.split(": ").next()).collect();
    assert_eq!(documented(), fields);
    assert!(stream.closed().await.ends_with("< END OK\n"));
}

#[tokio::test]
async fn it_comes_with_whatever_the_gateway_sends_last() {
    let rig = Rig::blind(1, &[TOLD]).await;
    let whole = "prompt_tokens: 7\nqueue_ms: 0\nserved_model: m\ntokens_source: reported\n";
    for mode in [1, 2, 4] {
        let mut stream = placed(&rig, (4, mode)).await;
        stream.answer("application/json").last_chunk(USAGE).hear(2).await;
        assert!(told(stream.log()).contains(whole), "{mode}: {}", stream.log());
    }
    let mut trailed = placed(&rig, (4, 4)).await;
    trailed.answer("application/json").chunk(USAGE).hear(2).await;
    trailed.answer_trailers().hear(1).await;
    assert!(told(trailed.log()).contains(whole), "{}", trailed.log());
    for (mode, end) in [(4, true), (0, false)] {
        let mut headed = placed(&rig, (4, mode)).await;
        headed.response_headers(&[(":status", "200")], end).hear(1).await;
        assert_eq!(
            told(headed.log()),
            "decision_id\nendpoint: pod-1\nmodel: m\nqueue_ms: 0\nserved_model: m\n",
            "the end of the answer, or all that is seen of it"
        );
    }
}

#[tokio::test]
async fn tokens_that_no_server_tells_are_estimates_and_named_so() {
    let rig = Rig::blind(1, &[TOLD]).await;
    let mut stream = placed(&rig, (4, 4)).await;
    stream.answer("text/event-stream").hear(1).await;
    for _ in 0..3 {
        stream.chunk(TOKEN).hear(1).await;
    }
    stream.last_chunk("data: [DONE]\n\n").hear(1).await;
    let told = told(stream.log());
    for line in ["generated_tokens: 3\n", "tokens_source: estimated\n", "\nprompt_tokens: "] {
        assert!(told.contains(line), "{told}");
    }
    assert!(!told.contains("cached_tokens"), "{told}");
}

#[tokio::test]
async fn an_answer_that_is_an_error_took_nothing() {
    let rig = Rig::blind(1, &[TOLD]).await;
    let mut stream = placed(&rig, (4, 4)).await;
    stream.response_headers(&[(":status", "500"), ("content-type", "application/json")], false);
    stream.last_chunk(r#"{"error":{}}"#).hear(2).await;
    let told = told(stream.log());
    assert!(told.contains("endpoint: pod-1\n") && !told.contains("tokens"), "{told}");
}

#[tokio::test]
async fn a_request_without_an_endpoint_and_a_gateway_that_wants_nothing_are_told_nothing() {
    let refused = Rig::unsynced(&[TOLD]).await;
    let mut stream = refused.stream().await;
    stream.post(CHAT, &[]).last(HI).hear(1).await;
    assert!(!stream.log().contains("metadata{"), "{}", stream.log());
    let rig = Rig::blind(1, &["--response-metadata-namespace=none"]).await;
    let mut stream = placed(&rig, (4, 4)).await;
    stream.answer("application/json").last_chunk(USAGE).hear(2).await;
    assert_eq!(told(stream.log()), "");
}
