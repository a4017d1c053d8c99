//! What the admin port tells of decisions.

use anyhow::Result;
use lodesman_e2e::client::Answer;
use serde_json::{Value, json};

use super::rig::{LOADS, Rig};
use super::stream::COMPLETIONS;

/// What no page may ever show.
const CANARY: &str = "the quick brown canary";

fn body() -> Value {
    json!({"model": "m", "prompt": format!("{CANARY} {}", "x".repeat(2000)), "max_tokens": 7})
}

/// The page as JSON, which shows nothing of a prompt.
fn told(answer: &Result<Answer>) -> Value {
    let answer = answer.as_ref().expect("an answer");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(!answer.text().contains("canary"), "{}", answer.text());
    answer.json().expect("JSON")
}

#[tokio::test]
async fn a_decision_is_found_by_the_id_that_its_client_was_told() {
    let rig = Rig::of(&LOADS, &["--decision-log=10", "--decision-header"]).await;
    let mut stream = rig.stream().await;
    stream.post(COMPLETIONS, &[]).last(body().to_string());
    let placed = stream.placed().await;
    stream.answer("application/json").last_chunk("{}").hear(3).await;
    let log = stream.closed().await;
    let id = log.split_once("+x-lodesman-decision=").expect("the header").1;
    let id = id.split_whitespace().next().unwrap();
    assert_eq!(id.len(), 16, "{log}");
    let by_id = told(&rig.admin().get(&format!("/debug/decisions?id={id}")).await);
    let by_request = told(&rig.admin().get("/debug/decisions?request-id=id-1").await);
    let decision = &by_id[0];
    let chosen = json!([placed.to_string()]);
    assert_eq!(
        (&decision["outcome"]["endpoints"], by_request.as_array().unwrap().len()),
        (&chosen, 1)
    );
    assert_eq!(decision["decision"], id);
    assert_eq!(decision["request"]["prompt_tokens"].as_u64(), Some(506));
    let in_flight = |at: usize| decision["endpoints"][at]["in_flight"]["requests"].as_u64();
    assert_eq!([0, 1, 2].map(in_flight), [Some(0); 3]);
    assert_eq!(decision["endpoints"][2]["waiting"].as_f64(), Some(10.0));
    assert!(decision["endpoints"][0]["age_ms"].as_f64().unwrap() >= 0.0);
    assert_eq!(told(&rig.admin().get("/debug/decisions?id=1").await), json!([]));
}

#[tokio::test]
async fn a_dry_request_is_explained_and_leaves_no_trace() {
    let rig = Rig::of(&LOADS, &["--decision-log=10"]).await;
    let answer = rig.admin().post("/debug/explain?path=/v1/completions&dice=7", &body()).await;
    let dry = told(&answer);
    assert_eq!(dry["outcome"]["endpoints"], json!([rig.pods[1].to_string()]));
    assert_eq!((&dry["decision"], &dry["request"]["model"]), (&Value::Null, &json!("m")));
    let candidates = dry["passes"][0]["candidates"].as_array().unwrap();
    assert_eq!((candidates.len(), &candidates[0]["chosen"]), (3, &json!(0)));
    for candidate in candidates {
        let weighted = |score: &Value| score["weighted"].as_f64().unwrap();
        let sum: f64 = candidate["scores"].as_array().unwrap().iter().map(weighted).sum();
        assert!((candidate["sum"].as_f64().unwrap() - sum).abs() < 1e-5, "{candidate}");
    }
    assert_eq!(told(&rig.admin().get("/debug/decisions").await), json!([]));
    rig.counts("llm_d_epp_inflight_requests{", &[], 0).await;
    rig.counts("lodesman_requests_received_total", &[], 0).await;
    rig.counts("lodesman_decision_duration_seconds_count", &[], 0).await;
}

#[tokio::test]
async fn a_dry_request_may_be_as_long_as_any_and_takes_nothing_of_the_budget() {
    let rig = Rig::of(&LOADS, &["--max-request-body=3000", "--body-budget=10"]).await;
    let page = "/debug/explain?path=/v1/completions";
    told(&rig.admin().post(page, &body()).await);
    let long = json!({"model": "m", "prompt": "x".repeat(3000)});
    let long = rig.admin().post(page, &long).await.unwrap();
    assert_eq!((long.status.as_u16(), long.text().contains("3000 bytes")), (413, true));
}

#[tokio::test]
async fn a_subset_and_a_refusal_are_explained() {
    let rig = Rig::of(&LOADS, &[]).await;
    let subset = format!("/debug/explain?path=/v1/completions&subset={}", rig.pods[2]);
    let dry = told(&rig.admin().post(&subset, &body()).await);
    assert_eq!(dry["outcome"]["endpoints"], json!([rig.pods[2].to_string()]));
    assert_eq!(dry["endpoints"][0]["left_out"]["by"], "subset");
    let nowhere = "/debug/explain?path=/v1/completions&subset=192.0.2.1";
    let dry = told(&rig.admin().post(nowhere, &body()).await);
    assert_eq!(dry["outcome"]["refused"], "no endpoint that the gateway allows is in the pool");
    let unread = rig.admin().post("/debug/explain?path=/v1/completions", &json!({})).await.unwrap();
    assert_eq!(
        (unread.status.as_u16(), unread.json().unwrap()["status"].as_u64()),
        (422, Some(400))
    );
    let off = rig.admin().get("/debug/decisions").await.unwrap();
    assert_eq!((off.status.as_u16(), off.text().contains("--decision-log")), (404, true));
}
