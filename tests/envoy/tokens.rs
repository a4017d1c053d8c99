//! Tokens that the picker counts are those that the model servers count themselves.

use lodesman_e2e::Client;
use serde_json::{Value, json};

use super::stage::{CHAT, Stage, at_rest, chat, ended, is_whole, page, series, value};

/// A chat request whose answer ends with what it took.
fn told(number: usize) -> Value {
    let mut request = chat(5 + number % 7, number.is_multiple_of(2));
    if request["stream"] == true {
        request["stream_options"] = json!({"include_usage": true});
    }
    let shared = "All of them begin with the same long story of a harbor. ".repeat(40);
    request["messages"][0]["content"] = json!(format!("{shared}{number}"));
    request
}

/// The tokens that the picker has counted of a kind.
async fn counted(stage: &Stage, kind: &str, source: &str) -> f64 {
    let page = page(&stage.picker).await.unwrap();
    let labels = [format!(r#"kind="{kind}""#), format!(r#"source="{source}""#)];
    let lines = series(&page, "lodesman_tokens_total");
    let lines = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
    lines.map(|line| value(line).parse::<f64>().unwrap()).sum()
}

/// What a family of the servers' own pages adds up to.
async fn of_servers(stage: &Stage, family: &str) -> f64 {
    let mut sum = 0.0;
    for server in &stage.fleet.servers {
        let page = Client::http1(*server).get("/metrics").await.unwrap().text();
        sum += series(&page, family).map(|line| value(line).parse::<f64>().unwrap()).sum::<f64>();
    }
    sum
}

#[tokio::test]
async fn tokens_of_answers_with_usage_are_those_of_the_servers() {
    const REQUESTS: usize = 60;
    let stage = Stage::start(3).await;
    for number in 0..REQUESTS {
        let answer = stage.client().post(CHAT, &told(number)).await.unwrap();
        assert!(is_whole(&answer), "{} {}", answer.status, answer.text());
    }
    ended(&stage.picker, "ok", REQUESTS).await;
    at_rest(&stage.picker).await;
    for (kind, family) in [
        ("prompt", "vllm:prompt_tokens_total"),
        ("cached", "vllm:prefix_cache_hits_total"),
        ("generated", "vllm:generation_tokens_total"),
    ] {
        let (ours, theirs) =
            (counted(&stage, kind, "reported").await, of_servers(&stage, family).await);
        assert!(theirs > 0.0 && (ours / theirs - 1.0).abs() < 0.01, "{kind}: {ours} of {theirs}");
        assert!(counted(&stage, kind, "estimated").await < 0.5, "{kind}");
    }
    let page = page(&stage.picker).await.unwrap();
    let avoided = series(&page, "lodesman_prefill_tokens_avoided_total").map(value).next();
    assert!(avoided.unwrap().parse::<f64>().unwrap() > 0.0, "a shared prefix is found again");
}

#[tokio::test]
async fn tokens_of_answers_without_usage_are_estimated_and_said_to_be() {
    const REQUESTS: usize = 10;
    let stage = Stage::start(1).await;
    for _ in 0..REQUESTS {
        let answer = stage.client().post(CHAT, &chat(8, true)).await.unwrap();
        assert!(is_whole(&answer), "{} {}", answer.status, answer.text());
    }
    ended(&stage.picker, "ok", REQUESTS).await;
    assert!(counted(&stage, "prompt", "reported").await < 0.5);
    let generated = counted(&stage, "generated", "estimated").await;
    let theirs = of_servers(&stage, "vllm:generation_tokens_total").await;
    // An event for each token, and those that open and close the stream.
    assert!((theirs..theirs * 1.5).contains(&generated), "{generated} of {theirs}");
    let prompts = counted(&stage, "prompt", "estimated").await;
    assert!(prompts > 0.0, "the prompt is counted by its text");
}
