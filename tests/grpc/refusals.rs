//! Requests that get an answer of ours.

use envoy_types::pb::google::protobuf::value::Kind;
use expect_test::expect;

use super::rig::{Rig, config, discovery};
use super::stream::{CHAT, COMPLETIONS, HI, refusal};

/// A picker that knows that there are no endpoints.
async fn empty() -> Rig {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("endpoints.yaml");
    std::fs::write(&path, "endpoints: []\n").expect("a file");
    let rig = Rig::elsewhere(&[&discovery(&path, false)]).await;
    rig.ready().await;
    rig
}

#[tokio::test]
async fn a_body_that_is_no_json_is_answered_400() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[("hi", "mom")]).last("no healthy upstream").hear(1).await;
    expect![[r#"
        > RH :method=POST :path=/v1/chat/completions x-request-id=id-1 hi=mom
        > RB `no healthy upstream` end
        < IM 400 +content-type=application/json +x-request-id=id-1 details=lodesman_malformed_body `{"error":{"code":"malformed_body","message":"request body is not valid JSON at byte 0","param":null,"type":"invalid_request_error"}}`
        < END OK
    "#]].assert_eq(&stream.ended().await);
    rig.ends("rejected").await;
}

#[tokio::test]
async fn without_endpoints_a_bodyless_request_is_answered_503() {
    let rig = empty().await;
    let mut stream = rig.stream().await;
    let headers = [("content-type", "application/json"), ("x-request-id", "id-1")];
    stream.request_headers(&headers, true).hear(1).await;
    expect![[r#"
        > RH content-type=application/json x-request-id=id-1 end
        < IM 503 +content-type=application/json +retry-after=1 +x-llm-d-request-dropped-reason=rejected-no-endpoints +x-request-id=id-1 details=lodesman_no_endpoints `{"error":{"code":"no_endpoints","message":"no endpoint can serve the request","param":null,"type":"server_error"}}`
        < END OK
    "#]].assert_eq(&stream.ended().await);
    rig.ends("rejected").await;
}

// FR-037
#[tokio::test]
async fn a_body_without_a_model_is_answered_400_even_when_there_are_no_endpoints() {
    let rig = empty().await;
    let mut stream = rig.stream().await;
    let headers = [("content-type", "application/json"), ("x-request-id", "id-1")];
    stream.request_headers(&headers, false).last(r#"{"prompt":"hello world"}"#).hear(1).await;
    expect![[r#"
        > RH content-type=application/json x-request-id=id-1
        > RB `{"prompt":"hello world"}` end
        < IM 400 +content-type=application/json +x-request-id=id-1 details=lodesman_no_model `{"error":{"code":"no_model","message":"model not found in request body","param":null,"type":"invalid_request_error"}}`
        < END OK
    "#]].assert_eq(&stream.ended().await);
    rig.ends("rejected").await;
}

// FR-066
#[tokio::test]
async fn a_subset_that_matches_nothing_is_answered_503() {
    let rig = Rig::blind(2, &[]).await;
    let mut stream = rig.stream().await;
    stream.subset(&["192.168.1.99:8000"]).post(CHAT, &[]).last(HI).hear(1).await;
    expect![[r#"
        > RH :method=POST :path=/v1/chat/completions x-request-id=id-1 envoy.lb.subset_hint{x-gateway-destination-endpoint-subset: [192.168.1.99:8000]}
        > RB `{"model":"m","messages":[{"role":"user","content":"hi"}]}` end
        < IM 503 +content-type=application/json +retry-after=1 +x-llm-d-request-dropped-reason=rejected-no-endpoints +x-request-id=id-1 details=lodesman_none_allowed `{"error":{"code":"none_allowed","message":"no endpoint that the gateway allows is in the pool","param":null,"type":"server_error"}}`
        < END OK
    "#]].assert_eq(&stream.ended().await);
    rig.ends("rejected").await;
    rig.counts("lodesman_protocol_anomalies_total{", &["\"none_allowed\""], 1).await;
}

// FR-159
#[tokio::test]
async fn an_empty_subset_is_answered_503() {
    let rig = Rig::blind(2, &[]).await;
    let mut stream = rig.stream().await;
    stream.subset(&[]).post(CHAT, &[]).last(HI);
    assert_eq!(refusal(&stream.reply().await).expect("a refusal").0, 503);
}

#[tokio::test]
async fn a_subset_that_is_no_list_is_answered_503_and_counted() {
    let rig = Rig::blind(2, &[]).await;
    let mut stream = rig.stream().await;
    stream.hint(Kind::NumberValue(1.0)).post(CHAT, &[]).last(HI);
    assert_eq!(refusal(&stream.reply().await).expect("a refusal").0, 503);
    rig.counts("lodesman_protocol_anomalies_total{", &["\"subset_hint\""], 1).await;
}

// FR-067
#[tokio::test]
async fn a_filter_of_capabilities_that_leaves_nothing_is_answered_503() {
    let rig = Rig::blind(2, &[&config("plugins: [{type: needs-a-capability}]\n")]).await;
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[]).last(HI).hear(1).await;
    expect![[r#"
        > RH :method=POST :path=/v1/chat/completions x-request-id=id-1
        > RB `{"model":"m","messages":[{"role":"user","content":"hi"}]}` end
        < IM 503 +content-type=application/json +retry-after=1 +x-llm-d-request-dropped-reason=rejected-no-endpoints +x-request-id=id-1 details=lodesman_no_endpoints `{"error":{"code":"no_endpoints","message":"no endpoint can serve the request","param":null,"type":"server_error"}}`
        < END OK
    "#]].assert_eq(&stream.ended().await);
    rig.ends("rejected").await;
}

// FR-067
#[tokio::test]
async fn a_filter_of_load_that_leaves_nothing_is_answered_429() {
    let rig = Rig::blind(2, &[&config("plugins: [{type: needs-room}]\n")]).await;
    let mut stream = rig.stream().await;
    stream.post("/v1/messages", &[]).last(HI).hear(1).await;
    expect![[r#"
        > RH :method=POST :path=/v1/messages x-request-id=id-1
        > RB `{"model":"m","messages":[{"role":"user","content":"hi"}]}` end
        < IM 429 +content-type=application/json +retry-after=1 +x-llm-d-request-dropped-reason=rejected-saturated +x-request-id=id-1 details=lodesman_saturated `{"error":{"message":"all endpoints are busy","type":"rate_limit_error"},"type":"error"}`
        < END OK
    "#]].assert_eq(&stream.ended().await);
    rig.ends("shed").await;
}

// FR-044
#[tokio::test]
async fn a_body_above_the_limit_is_answered_413_as_soon_as_it_crosses_it() {
    let rig = Rig::blind(1, &["--max-request-body=1000"]).await;
    let mut stream = rig.stream().await;
    stream.post(COMPLETIONS, &[]).body(vec![b' '; 600]).body(vec![b' '; 600]).hear(1).await;
    expect![[r#"
        > RH :method=POST :path=/v1/completions x-request-id=id-1
        > RB (600 bytes)
        > RB (600 bytes)
        < IM 413 +content-type=application/json +x-request-id=id-1 details=lodesman_body_too_large `{"error":{"code":"body_too_large","message":"request body exceeds 1000 bytes","param":null,"type":"invalid_request_error"}}`
        < END OK
    "#]].assert_eq(&stream.ended().await);
    rig.ends("rejected").await;
}

// FR-044
#[tokio::test]
async fn a_body_that_all_bodies_together_have_no_room_for_is_answered_429() {
    let rig = Rig::blind(1, &["--body-budget=2000"]).await;
    let (mut first, mut second) = (rig.stream().await, rig.stream().await);
    first.post(COMPLETIONS, &[]).body(vec![b' '; 600]);
    rig.counts("lodesman_body_bytes_buffered{", &[], 768 + 192 + 256).await;
    second.post(COMPLETIONS, &[]).body(vec![b' '; 600]).hear(1).await;
    expect![[r#"
        > RH :method=POST :path=/v1/completions x-request-id=id-1
        > RB (600 bytes)
        < IM 429 +content-type=application/json +retry-after=1 +x-llm-d-request-dropped-reason=rejected-saturated +x-request-id=id-1 details=lodesman_body_budget_spent `{"error":{"code":"body_budget_spent","message":"too many request bodies at once","param":null,"type":"rate_limit_error"}}`
        < END OK
    "#]].assert_eq(&second.ended().await);
    first.last(r#"{"model":"m","prompt":"hi"}"#).hear(2).await;
}

// FR-044
#[tokio::test]
async fn a_body_that_stops_coming_is_answered_408() {
    let rig = Rig::blind(1, &["--body-read-timeout=100ms"]).await;
    let mut stream = rig.stream().await;
    stream.post(COMPLETIONS, &[]).body("{").hear(1).await;
    expect![[r#"
        > RH :method=POST :path=/v1/completions x-request-id=id-1
        > RB `{`
        < IM 408 +content-type=application/json +x-request-id=id-1 details=lodesman_body_stalled `{"error":{"code":"body_stalled","message":"the request body stopped coming","param":null,"type":"invalid_request_error"}}`
        < END OK
    "#]].assert_eq(&stream.ended().await);
    rig.ends("rejected").await;
}

#[tokio::test]
async fn a_path_that_no_parser_takes_is_answered_400_where_nothing_passes_unread() {
    let only = config("requestHandler: {parsers: [{pluginRef: openai-parser}]}\n");
    let rig = Rig::blind(1, &[&only]).await;
    let mut stream = rig.stream().await;
    stream.post("/any", &[]).hear(1).await;
    expect![[r#"
        > RH :method=POST :path=/any x-request-id=id-1
        < IM 400 +content-type=application/json +x-request-id=id-1 details=lodesman_no_parser `{"error":{"code":"no_parser","message":"no parser is configured for the path of the request","param":null,"type":"invalid_request_error"}}`
        < END OK
    "#]].assert_eq(&stream.ended().await);
}
