//! Requests of vLLM's gRPC service.

use expect_test::expect;

use super::render;
use super::rig::{LOADS, Rig, config};
use super::stream::refusal;

/// The text "hi", as `Generate` and `Embed` take it.
const TEXT_HI: &[u8] = &[0, 0, 0, 0, 4, 0x1a, 2, b'h', b'i'];

fn method(name: &str) -> String {
    format!("/vllm.grpc.engine.VllmEngine/{name}")
}

/// Reads nothing but this service.
fn parser() -> String {
    config("requestHandler: {parsers: [{pluginRef: vllmgrpc-parser}]}\n")
}

#[tokio::test]
async fn an_embedding_is_placed_by_load_and_passes_unchanged() {
    let rig = Rig::of(&LOADS, &[&parser()]).await;
    let mut stream = rig.stream().await;
    stream.post(&method("Embed"), &[]).last(TEXT_HI);
    assert_eq!(stream.placed().await, rig.pods[1]);
    assert_eq!(stream.relayed(TEXT_HI.len()).await, TEXT_HI);
    // A usage of 7 tokens.
    let answer = [0, 0, 0, 0, 2, 0x10, 7];
    stream.answer("application/grpc").hear(1).await.chunk(answer);
    assert_eq!(stream.relayed(answer.len()).await, answer);
    stream.answer_trailers().hear(1).await;
    assert!(stream.closed().await.ends_with("< ST\n< END OK\n"));
    rig.ends("ok").await;
    rig.counts("llm_d_epp_request_input_tokens_sum{", &[], 7).await;
    rig.counts("lodesman_requests_received_total{", &["\"vllm_grpc_embed\""], 1).await;
}

#[tokio::test]
async fn a_message_that_is_cut_anywhere_is_decided_once_and_passes_unchanged() {
    let rig = Rig::of(&LOADS, &[&parser()]).await;
    for cut in 0..=TEXT_HI.len() {
        let mut stream = rig.stream().await;
        let (first, rest) = TEXT_HI.split_at(cut);
        stream.post(&method("Generate"), &[]).body(first).last(rest).hear(1).await;
        assert_eq!(stream.relayed(TEXT_HI.len()).await, TEXT_HI, "cut at {cut}");
        let log = stream.closed().await;
        assert_eq!(log.matches("+x-gateway-destination-endpoint=").count(), 1, "{log}");
        assert!(log.ends_with(" end\n< END OK\n"), "{log}");
    }
    rig.counts("llm_d_epp_request_total{", &[], TEXT_HI.len() + 1).await;
    rig.idle().await;
}

#[tokio::test]
async fn a_subset_overrules_the_load() {
    let rig = Rig::of(&LOADS, &[&parser()]).await;
    let mut stream = rig.stream().await;
    stream.subset(&[&rig.pods[2].to_string()]).post(&method("Generate"), &[]).last(TEXT_HI);
    assert_eq!(stream.placed().await, rig.pods[2]);
}

#[tokio::test]
async fn a_subset_of_unknown_endpoints_is_503() {
    let rig = Rig::of(&LOADS, &[&parser()]).await;
    let mut stream = rig.stream().await;
    stream.subset(&["192.0.2.99:8000"]).post(&method("Generate"), &[]).last(TEXT_HI);
    let reply = stream.reply().await;
    assert_eq!(refusal(&reply).expect("a refusal").0, 503, "{}", stream.log());
    let said = render::response(&reply);
    assert!(said.contains("x-llm-d-request-dropped-reason=rejected-no-endpoints"), "{said}");
}

#[tokio::test]
async fn a_method_without_a_prompt_is_placed_unread_and_the_stream_stays_open() {
    let rig = Rig::blind(1, &[&parser()]).await;
    let mut stream = rig.stream().await;
    stream.post(&method("Abort"), &[]).last("\0\0\0\0\0").hear(2).await;
    stream.answer("application/grpc").chunk("\0\0\0\0\0").answer_trailers().hear(3).await;
    expect![[r"
        > RH :method=POST :path=/vllm.grpc.engine.VllmEngine/Abort x-request-id=id-1
        > RB `\0\0\0\0\0` end
        < RH +x-gateway-destination-endpoint=pod-1 clear-route metadata{envoy.lb: {x-gateway-destination-endpoint: pod-1}}
        < RB `\0\0\0\0\0` end
        > SH :status=200 content-type=application/grpc
        > SB `\0\0\0\0\0`
        > ST
        < SH
        < SB `\0\0\0\0\0`
        < ST
        < END OK
    "]].assert_eq(&stream.closed().await);
}
