//! Objectives, rewrite rules and the failure mode of a pool, as they show at the gateway.

use expect_test::expect;
use lodesman::pool::{Event, FailureMode, Routes, Targets};

use super::rig::{Load, Rig, config};
use super::stream::{CHAT, COMPLETIONS, HI, Stream, refusal};

const OBJECTIVE: &str = "x-llm-d-inference-objective";
const OLD_OBJECTIVE: &str = "x-gateway-inference-objective";
const REWRITE: &str = "x-llm-d-model-name-rewrite";
const PLACED: &str = "llm_d_epp_request_total{";

const PROMPT: &str = r#"{"model":"my-model","prompt":"test1"}"#;

/// Objectives of the priorities 2 and -1, and the rules that the test is about.
async fn rig(exact: &[(&str, &[(&str, u32)])], any: Option<&str>) -> Rig {
    Rig::told(1, vec![routes(exact, any)], &[]).await
}

fn routes(exact: &[(&str, &[(&str, u32)])], any: Option<&str>) -> Event {
    let rule = |&(model, targets): &(&str, &[(&str, u32)])| {
        let object = format!("rewrite-{model}");
        (model.into(), Targets::new(&object, targets.iter().copied()).expect("a target"))
    };
    Event::Routes(Routes {
        objectives: [("my-model".into(), 2), ("sheddable".into(), -1)].into(),
        exact: exact.iter().map(rule).collect(),
        any: any.and_then(|target| Targets::new("rewrite-all", [(target, 1)])),
        ..Routes::default()
    })
}

async fn sent_on(stream: &mut Stream, want: &str) {
    stream.hear(1).await;
    assert_eq!(String::from_utf8_lossy(&stream.relayed(want.len()).await), want);
}

#[tokio::test]
async fn an_objective_gives_a_request_its_priority_and_does_not_go_upstream() {
    let rig = rig(&[("my-model", &[("my-model-12345", 1)])], None).await;
    let mut stream = rig.stream().await;
    stream.post(COMPLETIONS, &[(OBJECTIVE, "my-model")]).last(PROMPT).hear(4).await;
    expect![[r#"
        > RH :method=POST :path=/v1/completions x-request-id=id-1 x-llm-d-inference-objective=my-model
        > RB `{"model":"my-model","prompt":"test1"}` end
        < RH +x-gateway-destination-endpoint=pod-1 -x-llm-d-inference-objective clear-route metadata{envoy.lb: {x-gateway-destination-endpoint: pod-1}}
        < RB `{"model":`
        < RB `"my-model-12345"`
        < RB `,"prompt":"test1"}` end
    "#]].assert_eq(stream.log());
    let labels =
        [r#"model_name="my-model""#, r#"target_model_name="my-model-12345""#, r#"priority="2""#];
    rig.counts(PLACED, &labels, 1).await;
    let labels = [
        r#"model_rewrite_name="rewrite-my-model""#,
        r#"model_name="my-model""#,
        r#"target_model="my-model-12345""#,
    ];
    rig.counts("llm_d_epp_model_rewrite_decisions_total{", &labels, 1).await;
}

#[tokio::test]
async fn an_unread_request_and_one_without_a_body_have_their_objectives_priority() {
    let rig = rig(&[], None).await;
    let (mut unread, mut bodyless) = (rig.stream().await, rig.stream().await);
    unread.post("/upload", &[(OBJECTIVE, "my-model")]).last("bytes").hear(2).await;
    let get = [(":method", "GET"), (":path", "/v1/models"), (OBJECTIVE, "my-model")];
    bodyless.request_headers(&get, true).hear(1).await;
    rig.counts(PLACED, &[r#"model_name="""#, r#"priority="2""#], 2).await;
}

// FR-029, FR-047
#[tokio::test]
async fn an_objective_is_read_by_either_name_and_an_unknown_one_is_ordinary() {
    let rig = rig(&[], None).await;
    for (headers, priority) in [
        (&[(OLD_OBJECTIVE, "sheddable")][..], "-1"),
        (&[(OLD_OBJECTIVE, "sheddable"), (OBJECTIVE, "my-model")], "2"),
        (&[(OBJECTIVE, "unknown")], "0"),
    ] {
        let mut stream = rig.stream().await;
        stream.post(COMPLETIONS, headers);
        stream.body(r#"{"model":"sql-lo"#).last(r#"ra","prompt":"test6"}"#).hear(2).await;
        rig.counts(PLACED, &[&format!("priority=\"{priority}\"")], 1).await;
    }
    rig.counts("lodesman_header_warnings_total{", &["\"unknown_objective\""], 1).await;
}

#[tokio::test]
async fn a_sheddable_request_is_refused_while_no_server_has_room() {
    let full = [Load::new(9, 0.5), Load::new(0, 0.95)];
    let rig = Rig::of_told(&full, vec![routes(&[], None)], &[]).await;
    let mut stream = rig.stream().await;
    stream.post(COMPLETIONS, &[(OBJECTIVE, "sheddable")]).last(PROMPT).hear(1).await;
    expect![[r#"
        > RH :method=POST :path=/v1/completions x-request-id=id-1 x-llm-d-inference-objective=sheddable
        > RB `{"model":"my-model","prompt":"test1"}` end
        < IM 429 +content-type=application/json +retry-after=1 +x-llm-d-request-dropped-reason=rejected-saturated +x-request-id=id-1 details=lodesman_shed `{"error":{"code":"shed","message":"all endpoints are busy and the request is of low priority","param":null,"type":"rate_limit_error"}}`
        < END OK
    "#]].assert_eq(&stream.ended().await);
    rig.ends("shed").await;
    rig.counts("llm_d_epp_request_error_total{", &[r#"priority="-1""#], 1).await;
    let mut bodyless = rig.stream().await;
    let get = [(":method", "GET"), (":path", "/v1/models"), (OBJECTIVE, "sheddable")];
    bodyless.request_headers(&get, true);
    assert_eq!(refusal(&bodyless.reply().await).expect("a refusal").0, 429);
    for objective in ["my-model", "unknown"] {
        let mut stream = rig.stream().await;
        stream.post(COMPLETIONS, &[(OBJECTIVE, objective)]).last(PROMPT);
        stream.placed().await;
    }
}

#[tokio::test]
async fn a_sheddable_request_is_placed_while_a_server_has_room_or_none_is_known() {
    let told = || vec![routes(&[], None)];
    let idle = Rig::of_told(&[Load::new(9, 0.5), Load::new(0, 0.1)], told(), &[]).await;
    for rig in [idle, Rig::told(2, told(), &[]).await] {
        let mut stream = rig.stream().await;
        stream.post(COMPLETIONS, &[(OBJECTIVE, "sheddable")]).last(PROMPT);
        stream.placed().await;
    }
}

#[tokio::test]
async fn a_rule_for_the_model_stands_over_the_one_for_all_and_both_over_the_header() {
    let rig = rig(&[("my-model", &[("exact", 1)])], Some("rest")).await;
    let unnamed = r#"{"prompt":"test1"}"#;
    for (body, want) in [
        (PROMPT, PROMPT.replace("my-model", "exact")),
        (r#"{"model":"other","prompt":"hi"}"#, r#"{"model":"rest","prompt":"hi"}"#.to_owned()),
        (unnamed, r#"{"model":"rest","prompt":"test1"}"#.to_owned()),
    ] {
        let mut stream = rig.stream().await;
        stream.post(COMPLETIONS, &[(REWRITE, "forced")]).last(body);
        sent_on(&mut stream, &want).await;
    }
}

#[tokio::test]
async fn requests_are_split_over_targets_by_weight() {
    let rig = rig(&[("my-model", &[("a", 3), ("b", 1)])], None).await;
    for _ in 0..200 {
        let mut stream = rig.stream().await;
        stream.post(COMPLETIONS, &[]).last(PROMPT).hear(4).await;
    }
    rig.counts("llm_d_epp_model_rewrite_decisions_total{", &[], 200).await;
    let page = rig.page("/metrics").await.expect("a page").text();
    let first = page.lines().find(|line| line.starts_with(PLACED) && line.contains("=\"a\""));
    let first: u32 = first.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("some");
    // The standard deviation is 6: a right split is outside once in hundreds of millions of runs.
    assert!((114..186).contains(&first), "{first} of 200, should be 150");
}

#[tokio::test]
async fn the_length_that_the_gateway_announces_is_that_of_the_rewritten_body() {
    let rig = rig(&[("my-model", &[("m", 1)])], None).await;
    let mut stream = rig.stream().await;
    stream.modes(2, 0).post(COMPLETIONS, &[("content-length", "37")]).last(PROMPT).hear(2).await;
    expect![[r#"
        > RH :method=POST :path=/v1/completions x-request-id=id-1 content-length=37
        > RB `{"model":"my-model","prompt":"test1"}` end
        < RH
        < RB +content-length=30 +x-gateway-destination-endpoint=pod-1 clear-route body=`{"model":"m","prompt":"test1"}` metadata{envoy.lb: {x-gateway-destination-endpoint: pod-1}}
    "#]].assert_eq(stream.log());
}

#[tokio::test]
async fn the_client_gets_its_own_name_back_from_json_and_from_events() {
    let rig = rig(&[("my-model", &[("T", 1)])], None).await;
    let events = "data: {\"model\":\"T\"}\n\ndata: [DONE]\n\n";
    for (kind, answer) in
        [("application/json", r#"{"id":1,"model":"T"}"#), ("text/event-stream", events)]
    {
        let mut stream = rig.stream().await;
        stream.post(COMPLETIONS, &[]).last(PROMPT);
        sent_on(&mut stream, &PROMPT.replace("my-model", "T")).await;
        stream.answer(kind).last_chunk(answer);
        sent_on(&mut stream, &answer.replace("\"T\"", "\"my-model\"")).await;
    }
}

#[tokio::test]
async fn a_filter_that_panics_is_left_out_where_the_pool_fails_open_whatever_the_file_says() {
    let plugins =
        config("plugins: [{type: panicking-filter}]\nlodesman: {failureMode: FailClose}\n");
    let args = [plugins.as_str()];
    let rig = |mode| Rig::told(1, vec![Event::FailureMode(mode)], &args);
    let open = rig(Some(FailureMode::FailOpen)).await;
    let mut stream = open.stream().await;
    stream.post(CHAT, &[]).last(HI);
    assert_eq!(stream.placed().await, open.pods[0]);
    let silent = rig(None).await;
    let mut stream = silent.stream().await;
    stream.post(CHAT, &[]).last(HI);
    assert_eq!(refusal(&stream.reply().await).expect("a refusal").0, 503);
}

/// A request of low priority is placed although what might refuse it fails.
async fn admitted(config_text: &str) {
    let rig = Rig::told(1, vec![routes(&[], None)], &[&config(config_text)]).await;
    let mut stream = rig.stream().await;
    stream.post(COMPLETIONS, &[(OBJECTIVE, "sheddable")]).last(PROMPT);
    stream.placed().await;
    rig.counts("lodesman_degraded_decisions_total{", &["\"panic\""], 1).await;
}

#[tokio::test]
async fn a_saturation_detector_that_panics_refuses_nobody() {
    let detector = "{saturationDetector: {pluginRef: panicking-detector}}";
    admitted(&format!("plugins: [{{type: panicking-detector}}]\nflowControl: {detector}\n")).await;
}

#[tokio::test]
async fn an_admitter_that_panics_refuses_nobody() {
    admitted("plugins: [{type: panicking-admitter}]\n").await;
}
