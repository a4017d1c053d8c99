//! The answer on its way back, and how a request ends.

use expect_test::expect;

use super::rig::{HELD_20, Rig};
use super::stream::{CHAT, HI, Stream};

/// A stream whose request is placed.
async fn placed(rig: &Rig) -> Stream {
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[]).last(HI).hear(2).await;
    stream
}

/// What came after the request.
fn answer(log: &str) -> String {
    log.split_inclusive('\n').skip_while(|line| !line.starts_with("> S")).collect()
}

// FR-017
#[tokio::test]
async fn an_answer_is_sent_on_piece_by_piece_with_its_headers_untouched() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = placed(&rig).await;
    stream.answer("application/json").hear(1).await;
    stream.chunk("part1").hear(1).await.last_chunk("part2").hear(1).await;
    expect![[r"
        > SH :status=200 content-type=application/json
        < SH
        > SB `part1`
        < SB `part1`
        > SB `part2` end
        < SB `part2` end
        < END OK
    "]]
    .assert_eq(&answer(&stream.closed().await));
    rig.ends("ok").await;
}

#[tokio::test]
async fn an_answer_that_is_not_what_it_says_passes_unchanged() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = placed(&rig).await;
    stream.answer("application/json").last_chunk("no json at all").hear(2).await;
    expect![[r"
        > SH :status=200 content-type=application/json
        > SB `no json at all` end
        < SH
        < SB `no json at all` end
        < END OK
    "]]
    .assert_eq(&answer(&stream.closed().await));
}

#[tokio::test]
async fn an_empty_last_piece_carries_the_end() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = placed(&rig).await;
    stream.answer("application/json").chunk("{}").last_chunk("").hear(3).await;
    expect![[r"
        > SH :status=200 content-type=application/json
        > SB `{}`
        > SB `` end
        < SH
        < SB `{}`
        < SB `` end
        < END OK
    "]]
    .assert_eq(&answer(&stream.closed().await));
}

#[tokio::test]
async fn trailers_come_last_and_take_the_end_from_the_body() {
    let rig = Rig::blind(1, &[]).await;
    for (content_type, ended) in [
        ("application/json", false),
        ("application/json", true),
        ("text/event-stream", false),
        ("text/event-stream", true),
    ] {
        let mut stream = placed(&rig).await;
        stream.answer(content_type).chunk("data: 1\n\n");
        if ended {
            stream.last_chunk("data: 2\n\n");
        } else {
            stream.chunk("data: 2\n\n");
        }
        stream.answer_trailers().hear(4).await;
        let log = stream.closed().await;
        let replies: Vec<&str> = log.lines().filter(|line| line.starts_with('<')).skip(2).collect();
        let second = if ended { r"< SB `data: 2\n\n` end" } else { r"< SB `data: 2\n\n`" };
        assert_eq!(
            replies,
            ["< SH", r"< SB `data: 1\n\n`", second, "< ST", "< END OK"],
            "{content_type}"
        );
    }
    rig.counts("lodesman_request_outcomes_total{", &["\"ok\""], 4).await;
    rig.idle().await;
}

#[tokio::test]
async fn repeated_response_headers_are_left_alone() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = placed(&rig).await;
    let cookies = [(":status", "200"), ("set-cookie", "a=1"), ("set-cookie", "b=2")];
    stream.response_headers(&cookies, false).hear(1).await;
    assert!(stream.log().ends_with("< SH\n"), "{}", stream.log());
}

#[tokio::test]
async fn an_answer_without_a_body_is_complete_with_its_headers() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = placed(&rig).await;
    stream.response_headers(&[(":status", "204")], true).hear(1).await;
    drop(stream);
    rig.ends("ok").await;
}

#[tokio::test]
async fn an_error_of_the_server_is_its_own_outcome_wherever_the_status_stands() {
    use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue};
    use envoy_types::pb::envoy::service::ext_proc::v3::HttpHeaders;
    use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;

    let rig = Rig::blind(1, &[]).await;
    let mut stream = placed(&rig).await;
    let status = HeaderValue {
        key: ":status".to_owned(),
        value: "500".to_owned(),
        ..HeaderValue::default()
    };
    let headers = Some(HeaderMap { headers: vec![status] });
    stream.tell(Request::ResponseHeaders(HttpHeaders { headers, ..HttpHeaders::default() }));
    stream.last_chunk("oh no").hear(2).await;
    stream.closed().await;
    rig.ends("upstream_5xx").await;
    rig.counts("llm_d_epp_request_error_total{", &["\"ModelServerError\""], 1).await;
}

#[tokio::test]
async fn a_client_that_goes_away_in_the_middle_of_an_answer_gives_its_place_back() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = placed(&rig).await;
    stream.answer("text/event-stream").chunk("data: 1\n\n").chunk("data: 2\n\n").hear(3).await;
    rig.counts("llm_d_epp_inflight_requests{", &[], 1).await;
    drop(stream);
    rig.ends("client_disconnect").await;
}

#[tokio::test]
async fn a_client_that_goes_away_before_its_body_is_complete_leaves_nothing_behind() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    stream.post(CHAT, &[]).body(HI.split_at(20).0);
    rig.counts("lodesman_body_bytes_buffered{", &[], HELD_20).await;
    drop(stream);
    rig.ends("client_disconnect").await;
}

#[tokio::test]
async fn counting_tokens_is_placed_unread_and_the_stream_stays_open() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    stream.post("/v1/messages/count_tokens", &[]).last("{}").hear(2).await;
    stream.answer("application/json").last_chunk("{\"input_tokens\":1}").hear(2).await;
    expect![[r#"
        > RH :method=POST :path=/v1/messages/count_tokens x-request-id=id-1
        > RB `{}` end
        < RH +x-gateway-destination-endpoint=pod-1 clear-route metadata{envoy.lb: {x-gateway-destination-endpoint: pod-1}}
        < RB `{}` end
        > SH :status=200 content-type=application/json
        > SB `{"input_tokens":1}` end
        < SH
        < SB `{"input_tokens":1}` end
        < END OK
    "#]].assert_eq(&stream.closed().await);
}

#[tokio::test]
async fn counting_tokens_is_unobserved_where_the_answer_is_not_shown() {
    let rig = Rig::blind(1, &[]).await;
    let mut stream = rig.stream().await;
    stream.post("/v1/messages/count_tokens", &[]).last("{}").hear(2).await;
    drop(stream);
    rig.ends("unobserved").await;
}
