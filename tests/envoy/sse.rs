//! Streamed answers, and clients that leave.

use std::time::Duration;

use anyhow::ensure;
use http::Request;
use lodesman_e2e::client::Chunk;
use lodesman_e2e::envoy::{BodyMode, ExtProc, Mode, Picker};
use lodesman_e2e::{Body, Client, Envoy, Piece, eventually};

use super::stage::{
    CHAT, SOON, Stage, at_rest, chat, duplex, ended, fleet, is_whole, original_dst, picker, total,
};

/// The time from token to token of the simulated server.
const GAP: Duration = Duration::from_millis(100);
const TOKENS: u32 = 8;

fn post(body: Body) -> Request<Body> {
    Request::post(CHAT).header("content-type", "application/json").body(body).unwrap()
}

fn ask(max_tokens: usize) -> Request<Body> {
    post(Body::full(chat(max_tokens, true).to_string()))
}

/// The median time between two chunks.
fn median_gap(chunks: &[Chunk]) -> Duration {
    let mut gaps: Vec<_> =
        chunks.windows(2).map(|pair| pair[1].at.saturating_sub(pair[0].at)).collect();
    gaps.sort();
    gaps[gaps.len() / 2]
}

#[tokio::test]
async fn tokens_arrive_when_they_are_made() {
    let fleet = fleet(1, &format!("--decode-step-ms {}", GAP.as_millis())).await;
    let picker = picker(&fleet.servers, "").await;
    for mode in [BodyMode::FullDuplexStreamed, BodyMode::Streamed, BodyMode::None] {
        let request = Mode::with_body(BodyMode::FullDuplexStreamed);
        let filter = ExtProc::new(Picker::new([picker.ext_proc]), request, Mode::with_body(mode));
        let envoy = Envoy::start(&original_dst(filter)).await.unwrap();
        let answer = envoy.client().send(ask(TOKENS as usize)).await.unwrap().collect().await;
        assert!(is_whole(&answer), "{}", answer.text());
        let chunks = &answer.chunks;
        // A machine that pauses delivers several tokens at once.
        assert!(chunks.len() > TOKENS as usize / 2, "{mode:?}: {chunks:?}");
        let gap = median_gap(chunks);
        assert!((GAP / 2..3 * GAP).contains(&gap), "{mode:?}: {gap:?} in {chunks:?}");
        let span = chunks[chunks.len() - 1].at.saturating_sub(chunks[0].at);
        assert!(span >= GAP * (TOKENS - 2), "{mode:?}: {chunks:?}");
    }
    at_rest(&picker).await;
}

#[tokio::test]
async fn client_that_leaves_an_answer_frees_its_place() {
    let stage = Stage::with(1, "", "", duplex).await;
    for (count, client) in
        [Client::http1(stage.envoy.address()), Client::http2(stage.envoy.address())]
            .into_iter()
            .enumerate()
    {
        let mut response = client.send(ask(10_000)).await.unwrap();
        response.chunk().await.unwrap().unwrap();
        let running = total(&stage.picker, "llm_d_epp_inflight_requests", "").await.unwrap();
        assert_eq!(running, 1);
        drop(response);
        at_rest(&stage.picker).await;
        ended(&stage.picker, "client_disconnect", count + 1).await;
    }
}

#[tokio::test]
async fn client_that_leaves_before_the_decision_frees_what_is_held() {
    let stage = Stage::with(1, "", "", duplex).await;
    let pieces = [Piece::data(r#"{"model":"sim","messages":["#), Piece::Pause(10 * SOON)];
    let client = stage.client();
    let held = eventually(SOON, async || {
        let bytes = total(&stage.picker, "lodesman_body_bytes_buffered", "").await?;
        ensure!(bytes > 0, "no body is held");
        Ok(())
    });
    tokio::select! {
        answer = client.send(post(Body::pieces(pieces))) => panic!("{answer:?}"),
        held = held => held.unwrap(),
    }
    at_rest(&stage.picker).await;
    ended(&stage.picker, "client_disconnect", 1).await;
}

#[tokio::test]
async fn client_that_leaves_while_the_server_thinks_frees_its_place() {
    let stage = Stage::with(1, "", "", duplex).await;
    let client = stage.client();
    let whole = post(Body::full(chat(10_000, false).to_string()));
    let placed = eventually(SOON, async || {
        let running = total(&stage.picker, "llm_d_epp_inflight_requests", "").await?;
        ensure!(running > 0, "not placed");
        Ok(())
    });
    tokio::select! {
        answer = client.send(whole) => panic!("{answer:?}"),
        placed = placed => placed.unwrap(),
    }
    at_rest(&stage.picker).await;
    ended(&stage.picker, "client_disconnect", 1).await;
}

#[tokio::test]
async fn usage_is_read_from_what_passes() {
    let stage = Stage::start(1).await;
    let mut asked = chat(TOKENS as usize, true);
    asked["stream_options"] = serde_json::json!({"include_usage": true});
    for body in [asked, chat(TOKENS as usize, false)] {
        let answer = stage.client().post(CHAT, &body).await.unwrap();
        assert!(is_whole(&answer), "{}", answer.text());
    }
    ended(&stage.picker, "ok", 2).await;
    let generated =
        total(&stage.picker, "llm_d_epp_request_output_tokens_sum", "model_name=\"sim\"");
    assert_eq!(generated.await.unwrap(), 2 * TOKENS as usize);
    let first = total(&stage.picker, "llm_d_epp_request_ttft_seconds_count", "streaming=\"true\"");
    assert_eq!(first.await.unwrap(), 1);
}
