//! Body modes other than full duplex, and streams that only watch.

use expect_test::expect;

use super::rig::Rig;
use super::stream::{CHAT, COMPLETIONS, HI};

const TO_B: (&str, &str) = ("x-llm-d-model-name-rewrite", "model-b");

const NONE: i32 = 0;
const STREAMED: i32 = 1;
const BUFFERED: i32 = 2;
const BUFFERED_PARTIAL: i32 = 3;
const FULL_DUPLEX: i32 = 4;

// FR-004
#[tokio::test]
async fn buffered_headers_are_answered_at_once_and_the_body_with_the_place() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    stream.modes(BUFFERED, BUFFERED).post(CHAT, &[]).hear(1).await;
    stream.last(HI).hear(1).await;
    stream.answer("application/json").hear(1).await.last_chunk("{}").hear(1).await;
    expect![[r#"
        > RH :method=POST :path=/v1/chat/completions x-request-id=id-1
        < RH
        > RB `{"model":"m","messages":[{"role":"user","content":"hi"}]}` end
        < RB +x-gateway-destination-endpoint=pod-1 clear-route metadata{envoy.lb: {x-gateway-destination-endpoint: pod-1}}
        > SH :status=200 content-type=application/json
        < SH
        > SB `{}` end
        < SB
        < END OK
    "#]].assert_eq(&stream.closed().await);
    rig.ends("ok").await;
}

#[tokio::test]
async fn a_buffered_body_is_replaced_with_its_length_when_the_model_is_rewritten() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    let length = HI.len().to_string();
    stream.modes(BUFFERED, NONE).post(CHAT, &[TO_B, ("content-length", &length)]).hear(1).await;
    stream.last(HI).hear(1).await;
    expect![[r#"
        > RH :method=POST :path=/v1/chat/completions x-request-id=id-1 x-llm-d-model-name-rewrite=model-b content-length=57
        < RH
        > RB `{"model":"m","messages":[{"role":"user","content":"hi"}]}` end
        < RB +content-length=63 +x-gateway-destination-endpoint=pod-1 -x-llm-d-model-name-rewrite clear-route body=`{"model":"model-b","messages":[{"role":"user","content":"hi"}]}` metadata{envoy.lb: {x-gateway-destination-endpoint: pod-1}}
        < END OK
    "#]].assert_eq(&stream.closed().await);
}

#[tokio::test]
async fn a_buffered_body_before_trailers_is_placed_before_they_come() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    stream.modes(BUFFERED, NONE).post(CHAT, &[]).hear(1).await;
    stream.body(HI).hear(1).await.trailers().hear(1).await;
    expect![[r#"
        > RH :method=POST :path=/v1/chat/completions x-request-id=id-1
        < RH
        > RB `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
        < RB +x-gateway-destination-endpoint=pod-1 clear-route metadata{envoy.lb: {x-gateway-destination-endpoint: pod-1}}
        > RT
        < RT
        < END OK
    "#]].assert_eq(&stream.closed().await);
}

#[tokio::test]
async fn a_truncated_body_is_placed_and_left_alone() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    stream.modes(BUFFERED_PARTIAL, NONE).post(CHAT, &[TO_B]).hear(1).await;
    stream.body(HI.split_at(40).0).hear(1).await;
    expect![[r#"
        > RH :method=POST :path=/v1/chat/completions x-request-id=id-1 x-llm-d-model-name-rewrite=model-b
        < RH
        > RB `{"model":"m","messages":[{"role":"user",`
        < RB +x-gateway-destination-endpoint=pod-1 -x-llm-d-model-name-rewrite clear-route metadata{envoy.lb: {x-gateway-destination-endpoint: pod-1}}
        < END OK
    "#]].assert_eq(&stream.closed().await);
}

#[tokio::test]
async fn a_streamed_request_is_placed_by_its_headers_and_each_piece_has_one_reply() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    stream.modes(STREAMED, STREAMED).post(CHAT, &[]).hear(1).await;
    stream.body("a").hear(1).await.last("b").hear(1).await;
    stream.answer("application/json").hear(1).await;
    stream.chunk("{").hear(1).await.last_chunk("}").hear(1).await;
    expect![[r"
        > RH :method=POST :path=/v1/chat/completions x-request-id=id-1
        < RH +x-gateway-destination-endpoint=pod-1 clear-route metadata{envoy.lb: {x-gateway-destination-endpoint: pod-1}}
        > RB `a`
        < RB
        > RB `b` end
        < RB
        > SH :status=200 content-type=application/json
        < SH
        > SB `{`
        < SB
        > SB `}` end
        < SB
        < END OK
    "]].assert_eq(&stream.closed().await);
    rig.ends("ok").await;
}

#[tokio::test]
async fn a_request_whose_body_is_not_sent_is_placed_by_its_headers() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    stream.modes(NONE, NONE).post(CHAT, &[]).hear(1).await;
    expect![[r"
        > RH :method=POST :path=/v1/chat/completions x-request-id=id-1
        < RH +x-gateway-destination-endpoint=pod-1 clear-route metadata{envoy.lb: {x-gateway-destination-endpoint: pod-1}}
        < END OK
    "]].assert_eq(&stream.closed().await);
}

// FR-005
#[tokio::test]
async fn a_body_that_comes_ahead_of_the_answer_is_taken_whatever_the_gateway_says_of_that() {
    let rig = Rig::blind(1, &[]).await;
    for ahead in [false, true] {
        let mut stream = rig.stream().await;
        stream.modes(FULL_DUPLEX, FULL_DUPLEX).ahead(ahead).post(CHAT, &[]);
        let (head, tail) = HI.split_at(20);
        stream.body(head).last(tail);
        assert_eq!(stream.placed().await, rig.pods[0]);
        assert_eq!(stream.relayed(HI.len()).await, HI.as_bytes());
    }
}

#[tokio::test]
async fn a_stream_that_only_watches_is_counted_and_never_answered() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    let at = rig.pods[0].to_string();
    let placed = [("x-gateway-destination-endpoint", &*at)];
    stream.modes(FULL_DUPLEX, FULL_DUPLEX).observed().post(COMPLETIONS, &placed);
    stream.observed().last(r#"{"model":"m","prompt":"hi"}"#);
    rig.counts("llm_d_epp_inflight_requests{", &[], 1).await;
    stream.observed().answer("application/json");
    stream
        .observed()
        .last_chunk(r#"{"usage":{"prompt_tokens":7,"completion_tokens":10,"total_tokens":17}}"#);
    let log = stream.closed().await;
    assert_eq!(log.lines().filter(|line| line.starts_with('<')).collect::<Vec<_>>(), ["< END OK"]);
    rig.counts("llm_d_epp_request_input_tokens_sum{", &[], 7).await;
    rig.ends("ok").await;
}

#[tokio::test]
async fn a_long_buffered_body_is_placed_though_it_is_read_in_turns() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    let body = format!(r#"{{"model":"m","prompt":"{}"}}"#, "tide ".repeat(120_000));
    stream.modes(BUFFERED, NONE).post(COMPLETIONS, &[]).hear(1).await.last(&body).hear(1).await;
    let said = stream.closed().await;
    assert!(said.contains("\n< RB +x-gateway-destination-endpoint=pod-1 "), "not placed");
    rig.ends("unobserved").await;
}
