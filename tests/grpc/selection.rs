//! The aids for tests of gateways: a client chooses its endpoint, and is told which one has served it.

use expect_test::expect;

use super::rig::{LOADS, Rig, config};
use super::stream::{CHAT, HI};

const SELECTION: &str = "test-epp-endpoint-selection";

/// Both aids, and a scorer.
const CONFORMANCE: &str = "plugins:\n- type: header-based-testing-filter\n\
                           - type: destination-endpoint-served-verifier\n- type: queue-scorer\n";

#[tokio::test]
async fn a_request_with_or_without_a_body_goes_to_the_endpoint_that_it_names() {
    let rig = Rig::of(&LOADS, &[&config(CONFORMANCE)]).await;
    for &pod in &rig.pods {
        let name = pod.to_string();
        let mut stream = rig.stream().await;
        stream.post(CHAT, &[(SELECTION, &name)]).last(HI);
        assert_eq!(stream.placed().await, pod);
        let mut stream = rig.stream().await;
        let get = [(":method", "GET"), (":path", "/"), (SELECTION, &*name)];
        stream.request_headers(&get, true);
        assert_eq!(stream.placed().await, pod);
    }
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[]).last(HI);
    assert_eq!(stream.placed().await, rig.pods[1], "the least loaded where none is named");
}

#[tokio::test]
async fn a_request_that_names_nobody_of_the_pool_is_answered_503() {
    let rig = Rig::blind(2, &[&config(CONFORMANCE), "--failure-mode=FailOpen"]).await;
    let mut stream = rig.stream().await;
    let get = [("x-request-id", "id-1"), (SELECTION, "256.256.256.256")];
    stream.request_headers(&get, true).hear(1).await;
    expect![[r#"
        > RH x-request-id=id-1 test-epp-endpoint-selection=256.256.256.256 end
        < IM 503 +content-type=application/json +retry-after=1 +x-llm-d-request-dropped-reason=rejected-no-endpoints +x-request-id=id-1 details=lodesman_no_endpoints `{"error":{"code":"no_endpoints","message":"no endpoint can serve the request","param":null,"type":"server_error"}}`
        < END OK
    "#]].assert_eq(&stream.ended().await);
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[(SELECTION, "10.9.8.7:1")]).last(HI).hear(1).await;
    expect![[r#"
        > RH :method=POST :path=/v1/chat/completions x-request-id=id-1 test-epp-endpoint-selection=10.9.8.7:1
        > RB `{"model":"m","messages":[{"role":"user","content":"hi"}]}` end
        < IM 503 +content-type=application/json +retry-after=1 +x-llm-d-request-dropped-reason=rejected-no-endpoints +x-request-id=id-1 details=lodesman_no_endpoints `{"error":{"code":"no_endpoints","message":"no endpoint can serve the request","param":null,"type":"server_error"}}`
        < END OK
    "#]].assert_eq(&stream.ended().await);
}

#[tokio::test]
async fn a_client_is_told_who_has_served_it() {
    let rig = Rig::of(&LOADS, &[&config(CONFORMANCE)]).await;
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[(SELECTION, &rig.pods[2].to_string())]).last(HI).hear(2).await;
    stream.served_by(rig.pods[2]).answer("application/json").last_chunk("{}").hear(2).await;
    let transcript = stream.closed().await;
    assert!(transcript.contains("< SH +x-conformance-test-served-endpoint=pod-3"), "{transcript}");
}

#[tokio::test]
async fn without_these_aids_a_client_cannot_choose_and_is_told_nothing() {
    let rig = Rig::of(&LOADS, &[]).await;
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[(SELECTION, &rig.pods[2].to_string())]).last(HI);
    assert_eq!(stream.placed().await, rig.pods[1]);
    stream.served_by(rig.pods[1]).answer("application/json").last_chunk("{}").hear(3).await;
    let transcript = stream.closed().await;
    assert!(!transcript.contains("x-conformance-test"), "{transcript}");
}
