//! What the gateway reports of the endpoint that served, and what our own accounting makes of load.

use super::rig::{Load, Rig};
use super::stream::{CHAT, HI};

#[tokio::test]
async fn the_load_moves_to_the_endpoint_that_served_instead() {
    let rig = Rig::blind(2, &[]).await;
    let mut stream = rig.stream().await;
    stream.subset(&[&rig.pods[0].to_string()]).post(CHAT, &[]).last(HI).hear(2).await;
    let [first, second] = [0, 1].map(|at: usize| format!("\"{}\"", rig.pods[at]));
    rig.counts("llm_d_epp_inflight_requests{", &[&first], 1).await;
    stream.served_by(rig.pods[1]).answer("application/json").hear(1).await;
    rig.counts("llm_d_epp_inflight_requests{", &[&first], 0).await;
    rig.counts("llm_d_epp_inflight_requests{", &[&second], 1).await;
    rig.counts("lodesman_fallback_served_total{", &[], 1).await;
    stream.last_chunk("{}").hear(1).await;
    stream.closed().await;
    rig.ends("ok").await;
}

#[tokio::test]
async fn the_chosen_endpoint_that_served_is_no_fallback() {
    let rig = Rig::blind(2, &[]).await;
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[]).last(HI);
    let placed = stream.placed().await;
    stream.served_by(placed).answer("application/json").last_chunk("{}").hear(3).await;
    stream.closed().await;
    rig.ends("ok").await;
    rig.counts("lodesman_fallback_served_total{", &[], 0).await;
}

#[tokio::test]
async fn a_server_that_is_no_endpoint_of_the_pool_moves_nothing() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[]).last(HI).hear(2).await;
    stream
        .served_by("192.0.2.1:80".parse().expect("an address"))
        .answer("application/json")
        .hear(1)
        .await;
    rig.counts("llm_d_epp_inflight_requests{", &[], 1).await;
    drop(stream);
    rig.ends("client_disconnect").await;
}

// FR-079
#[tokio::test]
async fn with_stale_signals_the_requests_in_flight_decide() {
    let short = ["--refresh-metrics-interval=50ms", "--metrics-staleness-threshold=200ms"];
    let rig = Rig::of(&[Load::new(1, 0.0), Load::new(9, 0.9)], &short).await;
    rig.fall_silent().await;
    let mut open = Vec::new();
    for _ in 0..6 {
        let mut stream = rig.stream().await;
        stream.post(CHAT, &[]).last(HI);
        let placed = stream.placed().await;
        open.push((rig.number(placed).expect("an endpoint"), stream));
    }
    let first = open.iter().filter(|(number, _)| *number == 1).count();
    assert_eq!(first, 3, "evenly");
    let labels = ["\"load_only\"", "\"no_signals\""];
    rig.counts("lodesman_degraded_decisions_total{", &labels, 6).await;
    rig.counts("lodesman_decision_rung{", &[], 2).await;
}

// FR-027
#[tokio::test]
async fn two_requests_with_one_id_do_not_disturb_each_other() {
    let rig = Rig::blind(2, &[]).await;
    let (mut first, mut second) = (rig.stream().await, rig.stream().await);
    first.post(CHAT, &[]).last(HI);
    let place = first.placed().await;
    second.post(CHAT, &[]).last(HI.replace("hi", "another"));
    assert_ne!(second.placed().await, place);
    rig.counts("llm_d_epp_inflight_requests{", &[], 2).await;
    first.hear(1).await.answer("application/json").last_chunk("{}").hear(2).await;
    first.closed().await;
    rig.counts("llm_d_epp_inflight_requests{", &[], 1).await;
    drop(second);
    rig.idle().await;
    for outcome in ["\"ok\"", "\"client_disconnect\""] {
        rig.counts("lodesman_request_outcomes_total{", &[outcome], 1).await;
    }
}
