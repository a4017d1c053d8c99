//! What the conformance suite of the Gateway API inference extension asks of a picker.

use expect_test::expect;

use super::rig::{Rig, config};
use super::stream::{CHAT, HI, refusal};

const SELECTION: &str = "test-epp-endpoint-selection";

/// Three endpoints and the configuration that the suite is run with.
async fn rig() -> Rig {
    let plugins = "plugins: [{type: header-based-testing-filter}, {type: destination-endpoint-served-verifier}, \
                   {type: random-picker}]\n";
    Rig::blind(3, &[&config(plugins)]).await
}

// G50
#[tokio::test]
async fn the_client_is_told_who_served() {
    let rig = rig().await;
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

// G50
#[tokio::test]
async fn a_gateway_that_does_not_tell_who_served_is_named_as_failing() {
    let rig = rig().await;
    let mut stream = rig.stream().await;
    stream.request_headers(&[(":method", "GET"), (":path", "/")], true).hear(1).await;
    stream.response_headers(&[(":status", "200")], true).hear(1).await;
    let want = "< SH +x-conformance-test-served-endpoint=fail: missing envoy lb metadata\n";
    assert!(stream.log().ends_with(want), "{}", stream.log());
}

#[tokio::test]
async fn a_request_goes_to_an_endpoint_that_its_header_names_with_a_body_and_without() {
    let rig = rig().await;
    let two = format!("{} , {}", rig.pods[0], rig.pods[2].ip());
    for (named, allowed) in [(rig.pods[1].to_string(), &[2][..]), (two, &[1, 3])] {
        let selection = [(SELECTION, named.as_str())];
        for bodyless in [true, false, true, false, true, false] {
            let mut stream = rig.stream().await;
            let get = [(":method", "GET"), (":path", "/"), selection[0]];
            let _asked = if bodyless {
                stream.request_headers(&get, true)
            } else {
                stream.post(CHAT, &selection).last(HI)
            };
            let number = rig.number(stream.placed().await).expect("an endpoint");
            assert!(allowed.contains(&number), "pod-{number} for {named}");
        }
    }
}

#[tokio::test]
async fn a_header_that_names_no_endpoint_of_the_pool_is_answered_503() {
    let rig = rig().await;
    for bodyless in [true, false] {
        let mut stream = rig.stream().await;
        let headers = [
            (":method", if bodyless { "GET" } else { "POST" }),
            (":path", "/"),
            (SELECTION, "192.0.2.1"),
        ];
        stream.request_headers(&headers, bodyless);
        assert_eq!(refusal(&stream.reply().await).expect("a refusal").0, 503);
    }
}
