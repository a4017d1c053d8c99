//! What gateways send although the protocol does not foresee it, or hardly.

use envoy_types::pb::envoy::service::ext_proc::v3::HttpHeaders;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use expect_test::expect;
use http::uri::PathAndQuery;
use prost::bytes::{Buf, BufMut};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use super::rig::Rig;
use super::stream::{CHAT, HI};

#[tokio::test]
async fn a_request_that_ends_with_trailers_is_placed_then() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[]).body(HI).trailers().hear(3).await;
    expect![[r#"
        > RH :method=POST :path=/v1/chat/completions x-request-id=id-1
        > RB `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
        > RT
        < RH +x-gateway-destination-endpoint=pod-1 clear-route metadata{envoy.lb: {x-gateway-destination-endpoint: pod-1}}
        < RB `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
        < RT
        < END OK
    "#]].assert_eq(&stream.closed().await);
}

#[tokio::test]
async fn an_unread_request_that_ends_with_trailers_has_each_piece_sent_on_at_once() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    stream.post("/any", &[]).hear(1).await;
    stream.body("a").hear(1).await.body("b").hear(1).await.trailers().hear(1).await;
    expect![[r"
        > RH :method=POST :path=/any x-request-id=id-1
        < RH +x-gateway-destination-endpoint=pod-1 clear-route metadata{envoy.lb: {x-gateway-destination-endpoint: pod-1}}
        > RB `a`
        < RB `a`
        > RB `b`
        < RB `b`
        > RT
        < RT
        < END OK
    "]].assert_eq(&stream.closed().await);
}

#[tokio::test]
async fn a_second_end_of_the_body_is_counted_and_ignored() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[]).last(HI).last("").hear(2).await;
    rig.counts("lodesman_protocol_anomalies_total{", &["\"duplicate_eos\""], 1).await;
    rig.counts("llm_d_epp_inflight_requests{", &[], 1).await;
    rig.counts("llm_d_epp_request_total{", &[], 1).await;
    stream.last("more").answer("application/json").hear(1).await;
    assert!(stream.log().ends_with("< SH\n"), "{}", stream.log());
    rig.counts("lodesman_protocol_anomalies_total{", &["\"body_after_eos\""], 1).await;
}

#[tokio::test]
async fn request_trailers_that_come_twice_are_answered_once() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[]).body(HI).trailers().trailers().hear(3).await;
    stream.answer("application/json").hear(1).await;
    assert!(stream.log().ends_with("< SH\n"), "{}", stream.log());
    let labels = ["\"duplicate_request_trailers\""];
    rig.counts("lodesman_protocol_anomalies_total{", &labels, 1).await;
}

#[tokio::test]
async fn headers_without_a_map_are_no_crash() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    stream.tell(Request::RequestHeaders(HttpHeaders {
        end_of_stream: true,
        ..HttpHeaders::default()
    }));
    assert_eq!(stream.placed().await, rig.pods[0]);
    rig.counts("lodesman_protocol_anomalies_total{", &["\"no_header_map\""], 1).await;
}

#[tokio::test]
async fn a_tunnel_is_placed_before_anything_comes_through_it() {
    let rig = Rig::blind(1, &[]).await;
    for more in [None, Some((":path", CHAT))] {
        let mut stream = rig.stream().await;
        let pairs = [(":method", "CONNECT"), (":authority", "x:80")].into_iter().chain(more);
        stream.request_headers(&pairs.collect::<Vec<_>>(), false);
        assert_eq!(stream.placed().await, rig.pods[0]);
    }
}

#[tokio::test]
async fn a_message_without_a_kind_is_counted_and_ignored() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    stream.send().post(CHAT, &[]).send().last(HI).hear(2).await;
    rig.counts("lodesman_protocol_anomalies_total{", &["\"unknown_message\""], 2).await;
}

#[tokio::test]
async fn a_message_of_a_newer_protocol_is_counted_and_ignored() {
    let rig = Rig::blind(1, &[]).await;
    let field_111 = Raw(vec![0xfa, 0x06, 2, 8, 1]);
    let path = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";
    let mut client = tonic::client::Grpc::new(rig.channel());
    client.ready().await.expect("a connection");
    let request = tonic::Request::new(tokio_stream::once(field_111));
    let replies = client.streaming(request, PathAndQuery::from_static(path), RawCodec).await;
    let mut replies = replies.expect("a stream").into_inner();
    assert!(replies.message().await.expect("a good end").is_none());
    rig.counts("lodesman_protocol_anomalies_total{", &["\"unknown_message\""], 1).await;
}

/// Bytes that are a message as they stand.
struct Raw(Vec<u8>);

#[derive(Clone, Copy)]
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Raw;
    type Decode = Raw;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for RawCodec {
    type Item = Raw;
    type Error = Status;

    fn encode(&mut self, Raw(bytes): Raw, buffer: &mut EncodeBuf<'_>) -> Result<(), Self::Error> {
        buffer.put_slice(&bytes);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Raw;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Raw>, Self::Error> {
        let mut bytes = vec![0; buffer.remaining()];
        buffer.copy_to_slice(&mut bytes);
        Ok(Some(Raw(bytes)))
    }
}

#[tokio::test]
async fn request_headers_that_come_twice_are_counted_and_ignored() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[]).post("/any", &[]).last(HI).hear(2).await;
    rig.counts("lodesman_protocol_anomalies_total{", &["\"duplicate_request_headers\""], 1).await;
    rig.counts("lodesman_requests_received_total{", &[], 1).await;
}

#[tokio::test]
async fn a_stream_that_begins_with_the_answer_is_answered() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    stream.answer("application/json").last_chunk("{}").answer_trailers().hear(3).await;
    expect![[r"
        > SH :status=200 content-type=application/json
        > SB `{}` end
        > ST
        < SH
        < SB `{}` end
        < ST
        < END OK
    "]]
    .assert_eq(&stream.closed().await);
    rig.counts("lodesman_request_outcomes_total{", &[], 0).await;
}

// 1.2: some gateways half-close as soon as the request is told
#[tokio::test]
async fn a_half_closed_stream_ends_in_good_order() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[]).last(HI).hear(2).await;
    assert!(stream.closed().await.ends_with("< END OK\n"));
    rig.ends("unobserved").await;
}
