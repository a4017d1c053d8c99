//! Several profiles, side cars before ranks, and sessions.

use std::net::SocketAddr;

use expect_test::expect;

use super::rig::{Rig, config};
use super::stream::{CHAT, HI, refusal};

/// The second of the first two profiles keeps no endpoint.
const PROFILES: &str = "plugins:\n- type: header-profile-handler\n- {type: label-selector-filter, parameters: {matchLabels: {class: paid}}}\n\
                        schedulingProfiles:\n- {name: decode, plugins: []}\n- {name: paid, plugins: [{pluginRef: label-selector-filter}]}\n";

#[tokio::test]
async fn a_request_names_its_profile_and_one_that_is_not_there_is_400() {
    let rig = Rig::blind(1, &[&config(PROFILES)]).await;
    for (profile, status) in [("decode", None), ("paid", Some(503)), ("gold", Some(400))] {
        let mut stream = rig.stream().await;
        stream.post(CHAT, &[("EPP-Profile", profile)]).last(HI);
        let refused = refusal(&stream.reply().await);
        assert_eq!(refused.as_ref().map(|(status, _)| *status), status, "{profile}");
    }
    let mut stream = rig.stream().await;
    let get = [("x-request-id", "id-1"), ("epp-profile", "gold")];
    stream.request_headers(&get, true).hear(1).await;
    expect![[r#"
        > RH x-request-id=id-1 epp-profile=gold end
        < IM 400 +content-type=application/json +x-request-id=id-1 details=lodesman_no_profile `{"error":{"code":"no_profile","message":"there is no such scheduling profile","param":null,"type":"invalid_request_error"}}`
        < END OK
    "#]].assert_eq(&stream.ended().await);
}

const RANKS: &str = "plugins:\n- {type: data-parallel-profile-handler, parameters: {primaryPort: 8000}}\n- type: random-picker\n";

#[tokio::test]
async fn a_request_for_a_rank_goes_to_the_side_car_of_its_host() {
    let ranks: Vec<SocketAddr> =
        ["127.0.1.1:8000", "127.0.1.1:8001"].map(|at| at.parse().expect("an address")).to_vec();
    let rig = Rig::at(ranks, &[&config(RANKS)]).await;
    let mut stream = rig.stream().await;
    stream.subset(&["127.0.1.1:8001"]);
    stream.post(CHAT, &[("x-data-parallel-host-port", "192.0.2.1:1")]).last(HI).hear(2).await;
    // The side car answers, whose port is that of another rank.
    stream.served_by("127.0.1.1:8000".parse().expect("an address"));
    stream.response_headers(&[(":status", "200")], true).hear(1).await;
    expect![[r#"
        > RH :method=POST :path=/v1/chat/completions x-request-id=id-1 x-data-parallel-host-port=192.0.2.1:1 envoy.lb.subset_hint{x-gateway-destination-endpoint-subset: [pod-2]}
        > RB `{"model":"m","messages":[{"role":"user","content":"hi"}]}` end
        < RH +x-data-parallel-host-port=pod-2 +x-gateway-destination-endpoint=pod-1 clear-route metadata{envoy.lb: {x-gateway-destination-endpoint: pod-1}}
        < RB `{"model":"m","messages":[{"role":"user","content":"hi"}]}` end
        > SH :status=200 end envoy.lb{x-gateway-destination-endpoint-served: pod-1}
        < SH
        < END OK
    "#]].assert_eq(&stream.closed().await);
    rig.counts("lodesman_fallback_served_total{", &[], 0).await;
    rig.idle().await;
}

fn sessions(plugin: &str, strategy: &str) -> String {
    config(&format!(
        "plugins:\n- {{type: {plugin}, parameters: {{strategy: {strategy}}}}}\n- type: max-score-picker\n"
    ))
}

#[tokio::test]
async fn a_client_that_sends_the_header_of_its_answer_back_comes_back() {
    for plugin in ["session-affinity-filter", "session-affinity-scorer"] {
        let rig = Rig::blind(5, &[&sessions(plugin, "encoded_endpoint_header")]).await;
        let mut first = rig.stream().await;
        let place = first.post(CHAT, &[]).last(HI).placed().await;
        first.hear(1).await.response_headers(&[(":status", "200")], true).hear(1).await;
        let log = first.closed().await;
        let (_, token) = log.split_once("< SH +x-session-token=").expect("the answer has one");
        let token = token.lines().next().expect("a line");
        for _ in 0..8 {
            let mut next = rig.stream().await;
            next.post(CHAT, &[("X-Session-Token", token)]).last(HI);
            assert_eq!(next.placed().await, place, "{plugin}");
        }
        let mut bodyless = rig.stream().await;
        bodyless.request_headers(&[(":path", "/v1/responses/7"), ("x-session-token", token)], true);
        let at = bodyless.placed().await;
        assert!(plugin.ends_with("scorer") || at == place, "a filter binds it too");
        let mut other = rig.stream().await;
        other.post(CHAT, &[("x-session-token", "bm9ib2R5L2F0LWFsbA==")]).last(HI);
        rig.number(other.placed().await).expect("an endpoint");
    }
}

#[tokio::test]
async fn a_session_that_names_itself_comes_back_until_its_endpoint_may_not_be_chosen() {
    for plugin in ["session-affinity-filter", "session-affinity-scorer"] {
        let rig = Rig::blind(5, &[&sessions(plugin, "session_id")]).await;
        let session = [("x-session-id", "chat-7")];
        let mut first = rig.stream().await;
        let place = first.post(CHAT, &session).last(HI).placed().await;
        for _ in 0..8 {
            let mut next = rig.stream().await;
            assert_eq!(next.post(CHAT, &session).last(HI).placed().await, place, "{plugin}");
        }
        let elsewhere = rig.pods.iter().find(|pod| **pod != place).expect("five");
        let mut moved = rig.stream().await;
        moved.subset(&[&elsewhere.to_string()]).post(CHAT, &session).last(HI);
        assert_eq!(moved.placed().await, *elsewhere);
        let mut stays = rig.stream().await;
        assert_eq!(stays.post(CHAT, &session).last(HI).placed().await, *elsewhere, "{plugin}");
    }
}
