//! Another model name on the way to the server, and back.

use expect_test::expect;

use super::rig::{LOADS, Rig};
use super::stream::{CHAT, COMPLETIONS, Stream};

const OLD: &str = "x-gateway-model-name-rewrite";
const NEW: &str = "x-llm-d-model-name-rewrite";

/// A chat for the client's model `mine` that was sent on to the server's model `T`.
async fn renamed(rig: &Rig) -> Stream {
    let mut stream = rig.stream().await;
    let body = r#"{"model":"mine","messages":[{"role":"user","content":"hi"}]}"#;
    stream.post(CHAT, &[(NEW, "T")]).last(body).hear(1).await;
    let want = body.replace("mine", "T");
    assert_eq!(String::from_utf8_lossy(&stream.relayed(want.len()).await), want);
    stream
}

#[tokio::test]
async fn a_request_is_placed_by_load_and_its_model_is_rewritten() {
    let rig = Rig::of(&LOADS, &[]).await;
    let mut stream = rig.stream().await;
    let headers = [("hi", "mom"), (NEW, "my-model-12345")];
    let body = r#"{"max_tokens":100,"model":"my-model","prompt":"test1","temperature":0}"#;
    stream.post(COMPLETIONS, &headers).last(body).hear(4).await;
    expect![[r#"
        > RH :method=POST :path=/v1/completions x-request-id=id-1 hi=mom x-llm-d-model-name-rewrite=my-model-12345
        > RB `{"max_tokens":100,"model":"my-model","prompt":"test1","temperature":0}` end
        < RH +x-gateway-destination-endpoint=pod-2 -x-llm-d-model-name-rewrite clear-route metadata{envoy.lb: {x-gateway-destination-endpoint: pod-2}}
        < RB `{"max_tokens":100,"model":`
        < RB `"my-model-12345"`
        < RB `,"prompt":"test1","temperature":0}` end
    "#]].assert_eq(stream.log());
    let labels = [r#"model_name="my-model""#, r#"target_model_name="my-model-12345""#];
    rig.counts("llm_d_epp_request_total{", &labels, 1).await;
    rig.counts("llm_d_epp_ready_endpoints{", &[], 3).await;
}

#[tokio::test]
async fn a_model_that_is_cut_between_two_pieces_is_rewritten() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    stream.post(COMPLETIONS, &[(OLD, "other")]);
    stream.body(r#"{"model":"sql-lo"#).last(r#"ra","prompt":"test6"}"#).hear(1).await;
    let want = r#"{"model":"other","prompt":"test6"}"#;
    assert_eq!(stream.relayed(want.len()).await, want.as_bytes());
}

// By the header that names a model.
#[tokio::test]
async fn the_current_rewrite_header_wins_over_the_old_one() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    stream.post(COMPLETIONS, &[(OLD, "old"), (NEW, "new")]);
    stream.last(r#"{"model":"m","prompt":"hi"}"#).hear(4).await;
    expect![[r#"
        > RH :method=POST :path=/v1/completions x-request-id=id-1 x-gateway-model-name-rewrite=old x-llm-d-model-name-rewrite=new
        > RB `{"model":"m","prompt":"hi"}` end
        < RH +x-gateway-destination-endpoint=pod-1 -x-gateway-model-name-rewrite -x-llm-d-model-name-rewrite clear-route metadata{envoy.lb: {x-gateway-destination-endpoint: pod-1}}
        < RB `{"model":`
        < RB `"new"`
        < RB `,"prompt":"hi"}` end
    "#]].assert_eq(stream.log());
}

#[tokio::test]
async fn nothing_but_the_value_of_the_model_changes() {
    let rig = Rig::blind(1, &[]).await;
    let body = "{ \"n\" : 12345678901234567890123,\r\n\t\"a\":1,\"a\":2, \"\\u006dodel\" :\t\"\\u006d\" , \
                \"e\":1E+2, \"messages\":[ {\"role\":\"user\",\"content\":\"\\\"model\\\":\\u0022m\\u0022 é\"} ] }";
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[(NEW, "te\"st")]).last(body).hear(1).await;
    let want = body.replace("\"\\u006d\" ,", "\"te\\\"st\" ,");
    assert_eq!(String::from_utf8_lossy(&stream.relayed(want.len()).await), want);
}

#[tokio::test]
async fn an_answer_gets_the_clients_model_name_back_however_it_is_spaced() {
    let rig = Rig::blind(1, &[]).await;
    for answer in
        [r#"{"model":"T","x":{"model":"T"}}"#, r#"{"id":1, "model": "T"}"#, r#"{"model":"U"}"#]
    {
        let mut stream = renamed(&rig).await;
        stream.answer("application/json").last_chunk(answer).hear(1).await;
        let want = answer.replacen("\"T\"", "\"mine\"", 1);
        assert_eq!(String::from_utf8_lossy(&stream.relayed(want.len()).await), want);
    }
}

#[tokio::test]
async fn an_answer_passes_unchanged_when_no_model_was_rewritten() {
    let rig = Rig::blind(1, &[]).await;
    for headers in [&[][..], &[(NEW, "T")]] {
        let mut stream = rig.stream().await;
        stream.post(CHAT, headers);
        stream.last(r#"{"model":"T","messages":[{"role":"user","content":"hi"}]}"#).hear(2).await;
        stream.answer("application/json").last_chunk(r#"{"model":"T"}"#).hear(1).await;
        assert_eq!(stream.relayed(13).await, br#"{"model":"T"}"#);
    }
}

// The unit tests cut at every place, here the transport is in between.
#[tokio::test]
async fn an_event_stream_that_is_cut_anywhere_gets_its_model_back_and_its_usage_counted() {
    let rig = Rig::blind(1, &[]).await;
    let events = "data: {\"id\":\"1\",\"model\":\"T\",\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n\
                  data: {\"model\":\"T\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":10,\"total_tokens\":17}}\n\n\
                  data: [DONE]\n\n";
    let want = events.replace("\"T\"", "\"mine\"");
    let cuts = (1..events.len()).step_by(17);
    for cut in cuts.clone() {
        let (before, after) = events.split_at(cut);
        let mut stream = renamed(&rig).await;
        stream.answer("text/event-stream").chunk(before).last_chunk(after).hear(1).await;
        assert_eq!(
            String::from_utf8_lossy(&stream.relayed(want.len()).await),
            want,
            "cut at {cut}"
        );
        stream.closed().await;
    }
    rig.counts("llm_d_epp_request_input_tokens_sum{", &[], 7 * cuts.len()).await;
    rig.counts("llm_d_epp_request_output_tokens_sum{", &[], 10 * cuts.len()).await;
}
