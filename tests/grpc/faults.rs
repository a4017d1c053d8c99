//! Faults of ours, each provoked: the request is placed all the same, or refused in good order, and it shows.

use expect_test::expect;

use super::rig::{LOADS, Rig, config};
use super::stream::{CHAT, HI, refusal};

const QUEUE_AND: &str = "plugins: [{type: queue-scorer}, ";
const DEGRADED: &str = "lodesman_degraded_decisions_total{";

/// One request to servers under [`LOADS`], which must be placed on one of these; then it ends.
async fn placed(plugins: &str, args: &[&str], on: &[usize]) -> Rig {
    let config = config(plugins);
    let rig = Rig::of(&LOADS, &[&[config.as_str()], args].concat()).await;
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[]).last(HI);
    let number = rig.number(stream.placed().await).expect("an endpoint");
    assert!(on.contains(&number), "pod-{number}, not one of {on:?}");
    stream.hear(1).await.answer("application/json").last_chunk("{}").hear(2).await;
    stream.closed().await;
    rig.ends("ok").await;
    rig
}

// FR-018
#[tokio::test]
async fn a_scorer_that_panics_is_left_out_and_the_others_decide() {
    let rig = placed(&format!("{QUEUE_AND}{{type: panicking-scorer}}]\n"), &[], &[2]).await;
    rig.counts(DEGRADED, &["\"policy\"", "\"panic\""], 1).await;
}

// FR-019
#[tokio::test]
async fn a_scorer_that_is_too_slow_ends_the_policy_and_load_decides() {
    let rig = placed(&format!("{QUEUE_AND}{{type: slow-scorer}}]\n"), &[], &[1, 2, 3]).await;
    rig.counts(DEGRADED, &["\"load_only\"", "\"deadline\""], 1).await;
    rig.counts("lodesman_decision_rung{", &[], 2).await;
}

// FR-019
#[tokio::test]
async fn a_late_decision_takes_the_endpoint_with_least_in_flight() {
    let rig = Rig::of(&LOADS, &[&config(&format!("{QUEUE_AND}{{type: slow-scorer}}]\n"))]).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut stream = rig.stream().await;
        stream.post(CHAT, &[]).last(HI);
        open.push((rig.number(stream.placed().await).expect("an endpoint"), stream));
    }
    let mut numbers: Vec<usize> = open.iter().map(|(number, _)| *number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3]);
}

#[tokio::test]
async fn a_picker_that_panics_is_replaced_by_load() {
    let rig = placed(&format!("{QUEUE_AND}{{type: panicking-picker}}]\n"), &[], &[1, 2, 3]).await;
    rig.counts(DEGRADED, &["\"load_only\"", "\"panic\""], 1).await;
}

#[tokio::test]
async fn a_filter_that_panics_is_left_out_under_fail_open() {
    let plugins = format!("{QUEUE_AND}{{type: panicking-filter}}]\n");
    let rig = placed(&plugins, &["--failure-mode=FailOpen"], &[2]).await;
    rig.counts(DEGRADED, &["\"policy\"", "\"panic\""], 1).await;
}

// FR-018
#[tokio::test]
async fn a_filter_that_panics_refuses_the_request_under_fail_close() {
    let rig =
        Rig::of(&LOADS, &[&config(&format!("{QUEUE_AND}{{type: panicking-filter}}]\n"))]).await;
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[]).last(HI).hear(1).await;
    expect![[r#"
        > RH :method=POST :path=/v1/chat/completions x-request-id=id-1
        > RB `{"model":"m","messages":[{"role":"user","content":"hi"}]}` end
        < IM 503 +content-type=application/json +retry-after=1 +x-llm-d-request-dropped-reason=rejected-internal +x-request-id=id-1 details=lodesman_filter_failed `{"error":{"code":"filter_failed","message":"the request could not be placed safely","param":null,"type":"server_error"}}`
        < END OK
    "#]].assert_eq(&stream.ended().await);
    rig.ends("epp_error").await;
    rig.counts(DEGRADED, &["\"refused\"", "\"panic\""], 1).await;
}

#[tokio::test]
async fn a_profile_handler_that_panics_has_chosen_the_first_profile() {
    let plugins = format!("{QUEUE_AND}{{type: panicking-handler}}]\n");
    let rig = placed(&plugins, &[], &[2]).await;
    rig.counts(DEGRADED, &["\"policy\"", "\"panic\""], 1).await;
}

#[tokio::test]
async fn the_failure_mode_of_the_configuration_counts_where_no_flag_is_given() {
    let plugins =
        format!("{QUEUE_AND}{{type: panicking-filter}}]\nlodesman: {{failureMode: FailOpen}}\n");
    placed(&plugins, &[], &[2]).await;
}

#[tokio::test]
async fn a_fault_of_one_request_leaves_the_next_ones_alone() {
    let rig =
        Rig::of(&LOADS, &[&config(&format!("{QUEUE_AND}{{type: panicking-scorer}}]\n"))]).await;
    for _ in 0..50 {
        let mut stream = rig.stream().await;
        stream.post(CHAT, &[]).last(HI);
        assert_eq!(stream.placed().await, rig.pods[1]);
    }
    rig.counts(DEGRADED, &["\"panic\""], 50).await;
    rig.idle().await;
}

/// A picker whose endpoints are not known yet.
async fn unsynced(mode: &str) -> Rig {
    Rig::unsynced(&[&format!("--failure-mode={mode}")]).await
}

// FR-018
#[tokio::test]
async fn before_the_pool_is_known_a_bodyless_request_fails_open() {
    let rig = unsynced("FailOpen").await;
    let mut stream = rig.stream().await;
    stream.request_headers(&[(":method", "GET"), (":path", "/v1/models")], true);
    assert!(stream.ended().await.ends_with("< END Unavailable\n"));
    rig.ends("epp_error").await;
}

#[tokio::test]
async fn before_the_pool_is_known_a_buffered_request_fails_open() {
    let rig = unsynced("FailOpen").await;
    let mut stream = rig.stream().await;
    stream.modes(2, 0).post(CHAT, &[]).hear(1).await.last(HI);
    assert!(stream.ended().await.ends_with("< END Unavailable\n"));
    rig.ends("epp_error").await;
}

#[tokio::test]
async fn before_the_pool_is_known_a_streamed_request_is_refused_even_when_failing_open() {
    let rig = unsynced("FailOpen").await;
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[]).last(HI);
    assert_eq!(refusal(&stream.reply().await).expect("a refusal").0, 503);
    rig.ends("rejected").await;
}

#[tokio::test]
async fn before_the_pool_is_known_every_request_is_refused_when_failing_closed() {
    let rig = unsynced("FailClose").await;
    let mut stream = rig.stream().await;
    let get = [(":method", "GET"), (":path", "/v1/models"), ("x-request-id", "id-1")];
    stream.request_headers(&get, true).hear(1).await;
    expect![[r#"
        > RH :method=GET :path=/v1/models x-request-id=id-1 end
        < IM 503 +content-type=application/json +retry-after=1 +x-llm-d-request-dropped-reason=rejected-no-endpoints +x-request-id=id-1 details=lodesman_not_synced `{"error":{"code":"not_synced","message":"the endpoints are not known yet","param":null,"type":"server_error"}}`
        < END OK
    "#]].assert_eq(&stream.ended().await);
    rig.ends("rejected").await;
    assert_eq!(rig.page("/readyz").await.expect("a page").status, 503);
}
