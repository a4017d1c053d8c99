//! Bodies pass byte for byte.

use bytes::Bytes;
use http::Request;
use lodesman_e2e::envoy::{BodyMode, ExtProc, Mode, Picker};
use lodesman_e2e::{Body, Client, Envoy, EnvoyConfig};
use sha2::{Digest as _, Sha256};

use super::stage::{CHAT, SOON, Stage, at_rest, duplex, original_dst, picker, requests_at, total};
use super::upstream::Echo;

const MODES: [BodyMode; 5] = [
    BodyMode::None,
    BodyMode::Streamed,
    BodyMode::Buffered,
    BodyMode::BufferedPartial,
    BodyMode::FullDuplexStreamed,
];

/// One byte more than the largest piece that Envoy takes back.
const JUST_TWO_PIECES: usize = (64 << 10) + 1;
const LARGE: usize = 8 << 20;

/// A chat request of `len` bytes.
fn chat_of(len: usize) -> Bytes {
    let (head, tail) = (r#"{"model":"m","messages":[{"role":"user","content":""#, r#""}]}"#);
    let fill = (b'a'..=b'z').cycle().take(len - head.len() - tail.len());
    head.bytes().chain(fill).chain(tail.bytes()).collect()
}

fn noise(len: usize) -> Bytes {
    let mut random = fastrand::Rng::with_seed(7);
    (0..len).map(|_| random.u8(..)).collect()
}

fn config(picker: std::net::SocketAddr, request: BodyMode, response: BodyMode) -> EnvoyConfig {
    let (request, response) = (Mode::with_body(request), Mode::with_body(response));
    let mut filter = ExtProc::new(Picker::new([picker]), request, response);
    // A binary that is not optimized reads a large body more slowly than the default allows.
    filter.message_timeout = Some(SOON);
    EnvoyConfig { buffer_limit_bytes: Some(16 << 20), ..original_dst(filter) }
}

async fn passes(client: Client, echo: &Echo, path: &str, body: Bytes) {
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(Body::full(body.clone())).unwrap();
    let answer = client.send(request).await.unwrap().collect().await;
    assert_eq!((answer.status.as_u16(), &answer.broken), (200, &None));
    assert!(echo.last().body == body, "{} of {} bytes", echo.last().body.len(), body.len());
    let back: Vec<u8> = answer.chunks.iter().flat_map(|chunk| &chunk.data).copied().collect();
    assert!(back == body, "{} of {} bytes came back", back.len(), body.len());
}

#[tokio::test]
async fn bodies_pass_byte_for_byte_in_every_mode() {
    let echo = Echo::start().await;
    let picker = picker(&[echo.address], "").await;
    let sizes = [100, JUST_TWO_PIECES, LARGE];
    for mode in MODES {
        let envoy = Envoy::start(&config(picker.ext_proc, mode, mode)).await.unwrap();
        for len in sizes {
            passes(envoy.client(), &echo, CHAT, chat_of(len)).await;
            passes(envoy.client(), &echo, "/anything", noise(len)).await;
        }
    }
    at_rest(&picker).await;
    assert_eq!(total(&picker, "lodesman_protocol_anomalies_total", "").await.unwrap(), 0);
}

#[tokio::test]
async fn directions_may_have_different_modes() {
    let echo = Echo::start().await;
    let picker = picker(&[echo.address], "").await;
    for (request, response) in MODES.into_iter().zip(MODES.into_iter().cycle().skip(2)) {
        let envoy = Envoy::start(&config(picker.ext_proc, request, response)).await.unwrap();
        passes(envoy.client(), &echo, CHAT, chat_of(JUST_TWO_PIECES)).await;
    }
    at_rest(&picker).await;
}

#[tokio::test]
async fn small_buffers_of_the_gateway_cut_no_body() {
    let echo = Echo::start().await;
    let picker = picker(&[echo.address], "").await;
    for mode in [BodyMode::Streamed, BodyMode::BufferedPartial, BodyMode::FullDuplexStreamed] {
        let mut config = config(picker.ext_proc, mode, mode);
        config.buffer_limit_bytes = Some(32 << 10);
        let envoy = Envoy::start(&config).await.unwrap();
        for client in [Client::http1(envoy.address()), Client::http2(envoy.address())] {
            passes(client, &echo, CHAT, chat_of(1 << 20)).await;
            passes(client, &echo, "/anything", noise(1 << 20)).await;
        }
    }
    at_rest(&picker).await;
}

#[tokio::test]
async fn simulated_servers_get_the_bytes_that_were_sent() {
    let args = "--time-scale 1000 --kv-tokens 8000000 --max-num-batched-tokens 4000000";
    let stage = Stage::with(1, args, "", duplex).await;
    for len in [JUST_TWO_PIECES, LARGE] {
        let body = chat_of(len);
        let request = Request::post(CHAT).body(Body::full(body.clone())).unwrap();
        stage.client().send(request).await.unwrap().collect().await;
        let seen = requests_at(stage.fleet.servers[0]).await.pop().unwrap();
        let hash = format!("{:x}", Bytes::copy_from_slice(&Sha256::digest(&body)));
        assert_eq!((&seen["body_length"], &seen["body_sha256"]), (&len.into(), &hash.into()));
    }
    at_rest(&stage.picker).await;
}
