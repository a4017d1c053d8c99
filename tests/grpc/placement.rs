//! Which endpoint a request goes to, and how the gateway is told.

use envoy_types::pb::google::protobuf::value::Kind;
use expect_test::expect;

use super::rig::{LOADS, Rig, config};
use super::stream::{CHAT, COMPLETIONS, HI};

const PROMPT: &str = r#"{"max_tokens":100,"model":"m","prompt":"test1","temperature":0}"#;
#[tokio::test]
async fn an_unread_request_goes_to_the_least_loaded_endpoint_and_passes_unchanged() {
    let only = config("requestHandler: {parsers: [{pluginRef: passthrough-parser}]}\n");
    let rig = Rig::of(&LOADS, &[&only]).await;
    let mut stream = rig.stream().await;
    stream.request_headers(&[("hi", "mom"), ("x-request-id", "id-1")], false);
    stream.last("passthrough-parser").hear(2).await;
    stream.answer("text/plain").last_chunk("ok").hear(2).await;
    expect![[r"
        > RH hi=mom x-request-id=id-1
        > RB `passthrough-parser` end
        < RH +x-gateway-destination-endpoint=pod-2 clear-route metadata{envoy.lb: {x-gateway-destination-endpoint: pod-2}}
        < RB `passthrough-parser` end
        > SH :status=200 content-type=text/plain
        > SB `ok` end
        < SH
        < SB `ok` end
        < END OK
    "]].assert_eq(&stream.closed().await);
    let labels = [r#"model_name="""#, r#"target_model_name="""#];
    rig.counts("llm_d_epp_request_total{", &labels, 1).await;
    rig.ends("ok").await;
}

#[tokio::test]
async fn a_subset_of_all_endpoints_leaves_the_choice_to_the_load() {
    let rig = Rig::of(&LOADS, &[]).await;
    let mut stream = rig.stream().await;
    let all: Vec<String> = rig.pods.iter().map(ToString::to_string).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    stream.subset(&all).post(COMPLETIONS, &[]).last(PROMPT);
    assert_eq!(stream.placed().await, rig.pods[1]);
}

#[tokio::test]
async fn a_subset_of_one_endpoint_overrules_its_load() {
    let rig = Rig::of(&LOADS, &[]).await;
    let mut stream = rig.stream().await;
    stream.subset(&[&rig.pods[2].to_string()]).post(COMPLETIONS, &[]).last(PROMPT);
    assert_eq!(stream.placed().await, rig.pods[2]);
}

#[tokio::test]
async fn a_subset_that_comes_with_the_body_counts() {
    let rig = Rig::of(&LOADS, &[]).await;
    let mut stream = rig.stream().await;
    stream.post(COMPLETIONS, &[]).subset(&[&rig.pods[2].to_string()]).last(PROMPT);
    assert_eq!(stream.placed().await, rig.pods[2]);
}

#[tokio::test]
async fn a_subset_may_be_one_text_with_commas() {
    let rig = Rig::of(&LOADS, &[]).await;
    let mut stream = rig.stream().await;
    let [first, _, third] = [0, 1, 2].map(|at: usize| rig.pods[at]);
    stream.hint(Kind::StringValue(format!("{first}, {third}"))).post(COMPLETIONS, &[]).last(PROMPT);
    assert_eq!(stream.placed().await, first);
}

#[tokio::test]
async fn a_subset_has_no_effect_when_the_operator_says_so() {
    let rig = Rig::of(&LOADS, &["--disable-endpoint-subset-filter"]).await;
    let mut stream = rig.stream().await;
    stream.subset(&["192.0.2.1:80"]).post(COMPLETIONS, &[]).last(PROMPT);
    assert_eq!(stream.placed().await, rig.pods[1]);
}

// FR-009
#[tokio::test]
async fn a_request_without_a_body_is_placed_at_once() {
    let rig = Rig::of(&LOADS, &[]).await;
    let mut stream = rig.stream().await;
    let get = [(":method", "GET"), (":path", "/v1/models"), ("x-request-id", "id-1")];
    stream.request_headers(&get, true).hear(1).await;
    stream.answer("application/json").last_chunk("{}").hear(2).await;
    expect![[r"
        > RH :method=GET :path=/v1/models x-request-id=id-1 end
        < RH +x-gateway-destination-endpoint=pod-2 clear-route metadata{envoy.lb: {x-gateway-destination-endpoint: pod-2}}
        > SH :status=200 content-type=application/json
        > SB `{}` end
        < SH
        < SB `{}` end
        < END OK
    "]].assert_eq(&stream.closed().await);
    rig.ends("ok").await;
}

// FR-003
#[tokio::test]
async fn a_body_is_sent_on_in_pieces_that_proxies_take() {
    let rig = Rig::blind(1, &[]).await;
    for (len, pieces) in [
        (0, vec![0]),
        (61_000, vec![61_000]),
        (62_000, vec![62_000]),
        (62_001, vec![62_000, 1]),
        (63_000, vec![62_000, 1_000]),
        (125_000, vec![62_000, 62_000, 1_000]),
    ] {
        let mut stream = rig.stream().await;
        stream.post("/any", &[]).hear(1).await.last(vec![b'x'; len]);
        let mut seen = Vec::new();
        for _ in &pieces {
            let reply = stream.reply().await;
            let (piece, end) = super::render::streamed(&reply).expect("a piece");
            seen.push(piece.len());
            assert_eq!(end, seen.len() == pieces.len(), "the end is with the last of {pieces:?}");
        }
        assert_eq!(seen, pieces);
        assert!(stream.closed().await.ends_with("< END OK\n"));
    }
}

// FR-003
#[tokio::test]
async fn a_long_body_that_comes_in_uneven_pieces_goes_on_bit_for_bit() {
    let rig = Rig::blind(1, &[]).await;
    let prompt: String = ('a'..='z').cycle().take(129_970).collect();
    let body = format!(r#"{{"model":"m","prompt":"{prompt}"}}"#);
    let (mut stream, mut rest) = (rig.stream().await, body.as_bytes());
    stream.post(COMPLETIONS, &[]);
    for n in 0..20_usize {
        let (piece, later) = rest.split_at((n * n * 60).min(rest.len()));
        stream.body(piece);
        rest = later;
    }
    stream.last(rest).hear(1).await;
    let (mut sent, mut ends) = (Vec::new(), 0);
    while ends == 0 {
        let reply = stream.reply().await;
        let (piece, end) = super::render::streamed(&reply).expect("a piece");
        assert!(piece.len() <= 62_000, "{}", piece.len());
        sent.extend_from_slice(piece);
        ends += usize::from(end);
    }
    assert!(sent == body.as_bytes());
    assert!(stream.closed().await.ends_with("< END OK\n"), "nothing after the end");
}

const THREE: &str = "plugins: [{type: max-score-picker, parameters: {maxNumOfEndpoints: 3}}]\n";

// FR-015
#[tokio::test]
async fn all_chosen_endpoints_are_named_in_header_and_metadata_when_configured() {
    let multi = config(&format!("{THREE}lodesman: {{destinationList: multi}}\n"));
    let rig = Rig::blind(3, &[&multi]).await;
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[]).last(HI).hear(1).await;
    let reply = stream.log().lines().last().expect("a reply").to_owned();
    let list =
        reply.split("endpoint=").nth(1).and_then(|rest| rest.split(' ').next()).expect("a list");
    let mut names: Vec<&str> = list.split(',').collect();
    names.sort_unstable();
    assert_eq!(names, ["pod-1", "pod-2", "pod-3"]);
    assert!(reply.contains(&format!("x-gateway-destination-endpoint: {list}}}")), "{reply}");
}

#[tokio::test]
async fn only_the_best_of_the_chosen_endpoints_is_named_by_default() {
    let rig = Rig::blind(3, &[&config(THREE)]).await;
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[]).last(HI);
    assert!(rig.pods.contains(&stream.placed().await));
}

#[tokio::test]
async fn the_scores_of_all_candidates_are_told_when_asked_for() {
    let weighted = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n\
        plugins: [{type: queue-scorer}, {type: kv-cache-utilization-scorer}, {type: active-request-scorer}]\n\
        schedulingProfiles:\n- name: default\n  plugins:\n  - {pluginRef: queue-scorer, weight: 2}\n\
        \x20 - {pluginRef: kv-cache-utilization-scorer, weight: 2}\n  - {pluginRef: active-request-scorer, weight: 2}\n";
    let rig = Rig::of(&LOADS, &["--emit-endpoint-scores", "--config-text", weighted]).await;
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[]).last(HI).hear(2).await;
    expect![[r#"
        > RH :method=POST :path=/v1/chat/completions x-request-id=id-1
        > RB `{"model":"m","messages":[{"role":"user","content":"hi"}]}` end
        < RH +x-gateway-destination-endpoint=pod-2 clear-route metadata{envoy.lb: {x-gateway-destination-endpoint-scores: {pod-1: 5, pod-2: 5.800000190734863, pod-3: 3.5999999046325684}, x-gateway-destination-endpoint: pod-2}}
        < RB `{"model":"m","messages":[{"role":"user","content":"hi"}]}` end
        < END OK
    "#]].assert_eq(&stream.closed().await);
}

#[tokio::test]
async fn an_ipv6_endpoint_is_named_in_brackets() {
    let rig = Rig::at(vec!["[::1]:1".parse().expect("an address")], &[]).await;
    let get = [(":method", "GET"), (":path", "/v1/models")];
    for bodyless in [true, false] {
        let mut stream = rig.stream().await;
        stream.subset(&["[::1]:1"]);
        if bodyless {
            stream.request_headers(&get, true);
        } else {
            stream.post(CHAT, &[]).last(HI);
        }
        let reply = stream.reply().await;
        assert_eq!(super::render::destination(&reply).expect("a destination"), "[::1]:1");
    }
}

#[tokio::test]
async fn a_subset_with_a_port_names_one_rank_of_a_host() {
    let ranks =
        ["127.0.1.1:1", "127.0.1.1:2", "127.0.1.1:3"].map(|at| at.parse().expect("an address"));
    let rig = Rig::at(ranks.to_vec(), &[]).await;
    let mut stream = rig.stream().await;
    stream.subset(&["127.0.1.1:2"]).post(CHAT, &[]).last(HI);
    assert_eq!(stream.placed().await, ranks[1]);
}

// FR-012
#[tokio::test]
async fn routing_headers_that_a_client_forged_are_taken_off_or_overwritten() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    let forged = [
        ("x-prefiller-host-port", "192.0.2.1:1"),
        ("x-gateway-destination-endpoint", "192.0.2.1:1"),
        ("x-gateway-destination-endpoint-served", "192.0.2.1:1"),
        ("x-llm-d-inference-objective", "first"),
    ];
    stream.post(CHAT, &forged).last(HI).hear(2).await;
    expect![[r#"
        > RH :method=POST :path=/v1/chat/completions x-request-id=id-1 x-prefiller-host-port=192.0.2.1:1 x-gateway-destination-endpoint=192.0.2.1:1 x-gateway-destination-endpoint-served=192.0.2.1:1 x-llm-d-inference-objective=first
        > RB `{"model":"m","messages":[{"role":"user","content":"hi"}]}` end
        < RH +x-gateway-destination-endpoint=pod-1 -x-gateway-destination-endpoint-served -x-llm-d-inference-objective -x-prefiller-host-port clear-route metadata{envoy.lb: {x-gateway-destination-endpoint: pod-1}}
        < RB `{"model":"m","messages":[{"role":"user","content":"hi"}]}` end
        < END OK
    "#]].assert_eq(&stream.closed().await);
}

// FR-027
#[tokio::test]
async fn a_request_without_an_id_gets_one() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    stream.request_headers(&[(":method", "POST"), (":path", CHAT)], false).last(HI).hear(1).await;
    let id = stream.log().split("+x-request-id=").nth(1).and_then(|rest| rest.split(' ').next());
    assert!(id.is_some_and(|id| id.len() == 36 && id.as_bytes()[14] == b'4'), "{}", stream.log());
}

// FR-029
// As far as it holds without objectives.
#[tokio::test]
async fn the_current_name_of_a_header_wins_over_its_old_one() {
    let (old, new) = ("x-gateway-inference-fairness-id", "x-llm-d-inference-fairness-id");
    let rig = Rig::blind(1, &[]).await;
    for headers in [&[(old, "a")][..], &[(old, "a"), (new, "b")], &[(new, ""), (old, "c")]] {
        let mut stream = rig.stream().await;
        stream.post(CHAT, headers).last(HI).hear(2).await;
    }
    for flow in ["a", "b", "c"] {
        rig.counts("llm_d_epp_request_total{", &[&format!("fairness_id=\"{flow}\"")], 1).await;
    }
    rig.counts("lodesman_header_warnings_total{", &["\"deprecated_name\""], 3).await;
}

// FR-044
#[tokio::test]
async fn a_body_of_five_megabytes_comes_in_one_message() {
    let rig = Rig::blind(1, &[]).await;
    let body = format!(r#"{{"model":"m","prompt":"{}"}}"#, "x".repeat(5 << 20));
    let mut stream = rig.stream().await;
    stream.post(COMPLETIONS, &[]).last(&body).hear(1).await;
    assert!(stream.relayed(body.len()).await == body.as_bytes());
}

#[tokio::test]
async fn prompts_of_unusual_kinds_are_forwarded() {
    let rig = Rig::blind(1, &[]).await;
    for (path, body) in [
        (
            CHAT,
            r#"{"model":"m","messages":[{"role":"user","content":[{"type":"hologram","data":1}]}]}"#,
        ),
        (COMPLETIONS, r#"{"model":"m","prompt":[[1,2],[3]]}"#),
        (COMPLETIONS, r#"{"model":"m","prompt_embeds":"AAAA"}"#),
    ] {
        let mut stream = rig.stream().await;
        stream.post(path, &[]).last(body).hear(1).await;
        assert_eq!(stream.relayed(body.len()).await, body.as_bytes());
    }
}

#[tokio::test]
async fn a_path_is_known_by_its_whole_segments() {
    let rig = Rig::blind(1, &[]).await;
    for (path, api) in [("/v1/messages/", "messages"), ("/xmessages", "passthrough")] {
        let mut stream = rig.stream().await;
        stream.post(path, &[]).last(HI).hear(2).await;
        rig.counts("lodesman_requests_received_total{", &[&format!("api=\"{api}\"")], 1).await;
    }
}

#[tokio::test]
async fn a_body_that_is_nested_too_deeply_is_forwarded_unread() {
    let rig = Rig::blind(1, &[]).await;
    let deep = format!(r#"{{"model":"m","x":{}1{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[]).last(&deep).hear(1).await;
    assert_eq!(stream.relayed(deep.len()).await, deep.as_bytes());
    rig.counts("llm_d_epp_request_total{", &[r#"model_name="""#], 1).await;
}
