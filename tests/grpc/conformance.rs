//! What the conformance suite of the Gateway API inference extension asks of a picker.

use expect_test::expect;

use super::rig::{LOADS, Rig, config};
use super::stream::{CHAT, HI};

const SELECTION: &str = "test-epp-endpoint-selection";

/// Three endpoints and the configuration that the suite is run with.
async fn rig(args: &[&str]) -> Rig {
    let plugins = "plugins: [{type: header-based-testing-filter}, {type: destination-endpoint-served-verifier}, \
                   {type: random-picker}]\n";
    Rig::blind(3, &[&[config(plugins).as_str()], args].concat()).await
}

#[tokio::test]
async fn the_client_is_told_who_served() {
    let rig = rig(&[]).await;
    let mut stream = rig.stream().await;
    let selection = rig.pods[1].to_string();
    let get =
        [(":method", "GET"), (":path", "/"), ("x-request-id", "id-1"), (SELECTION, &selection)];
    stream.request_headers(&get, true).hear(1).await;
    stream.served_by(rig.pods[1]).response_headers(&[(":status", "200")], true).hear(1).await;
    expect![[r"
        > RH :method=GET :path=/ x-request-id=id-1 test-epp-endpoint-selection=pod-2 end
        < RH +x-gateway-destination-endpoint=pod-2 clear-route metadata{envoy.lb: {x-gateway-destination-endpoint: pod-2}}
        > SH :status=200 end envoy.lb{x-gateway-destination-endpoint-served: pod-2}
        < SH +x-conformance-test-served-endpoint=pod-2
        < END OK
    "]].assert_eq(&stream.closed().await);
}

#[tokio::test]
async fn a_gateway_that_does_not_tell_who_served_is_named_as_failing() {
    let rig = rig(&[]).await;
    let mut stream = rig.stream().await;
    stream.request_headers(&[(":method", "GET"), (":path", "/")], true).hear(1).await;
    stream.response_headers(&[(":status", "200")], true).hear(1).await;
    let want = "< SH +x-conformance-test-served-endpoint=fail: missing envoy lb metadata\n";
    assert!(stream.log().ends_with(want), "{}", stream.log());
}

#[tokio::test]
async fn a_request_goes_to_an_endpoint_that_its_header_names_with_a_body_and_without() {
    let rig = rig(&[]).await;
    let two = format!("{} , {}", rig.pods[0], rig.pods[2].ip());
    for (named, allowed) in [(rig.pods[1].to_string(), &[2][..]), (two, &[1, 3])] {
        let selection = (SELECTION, named.as_str());
        for _ in 0..3 {
            let (mut with, mut without) = (rig.stream().await, rig.stream().await);
            with.post(CHAT, &[selection]).last(HI);
            without.request_headers(&[(":method", "GET"), (":path", "/"), selection], true);
            let placed = [with.placed().await, without.placed().await];
            let pods = placed.map(|address| rig.number(address).expect("an endpoint"));
            assert!(pods.iter().all(|pod| allowed.contains(pod)), "{pods:?} for {named}");
        }
    }
}

#[tokio::test]
async fn a_request_that_names_nobody_of_the_pool_is_answered_503() {
    let rig = rig(&["--failure-mode=FailOpen"]).await;
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
async fn without_these_aids_a_client_cannot_choose_and_is_told_nothing() {
    let rig = Rig::of(&LOADS, &[]).await;
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[(SELECTION, &rig.pods[2].to_string())]).last(HI);
    assert_eq!(stream.placed().await, rig.pods[1]);
    stream.served_by(rig.pods[1]).answer("application/json").last_chunk("{}").hear(3).await;
    let transcript = stream.closed().await;
    assert!(!transcript.contains("x-conformance-test"), "{transcript}");
}
