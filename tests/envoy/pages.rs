//! Metrics pages that are broken, while requests run.

use std::net::SocketAddr;

use anyhow::ensure;
use bytes::Bytes;
use http::{Response, StatusCode};
use lodesman_e2e::{Body, Envoy, Lodesman, Piece, eventually};
use serde_json::json;

use super::stage::{
    SOON, at_rest, chat, duplex, fleet, memory, order, page, picker, series, value,
};
use super::traffic::send_all;
use super::upstream::Echo;

/// Faults of simulated servers, one server each; the first is well.
const FAULTS: [&str; 5] =
    ["none", "metrics-hanging", "metrics-garbage", "metrics-endless", "metrics-frozen"];

/// Failed reads that these, a page elsewhere and one of 50 MB must cause.
const REASONS: [&str; 4] = ["timeout", "nothing_known", "too_long", "status"];

const REQUESTS: usize = 400;

/// Says that the page is elsewhere.
fn elsewhere() -> Response<Body> {
    let response = Response::builder().status(StatusCode::TEMPORARY_REDIRECT);
    response.header("location", "/elsewhere").body(Body::default()).unwrap()
}

/// 50 MB of comments before what counts.
fn huge() -> Response<Body> {
    let comment = Bytes::from(b"# nothing\n".repeat(100_000));
    let pieces = std::iter::repeat_n(comment, 50).map(Piece::data);
    let end = Piece::data("vllm:num_requests_waiting 0\n");
    Response::new(Body::pieces(pieces.chain([end])))
}

/// Claims to be emptier than empty, and what is no number.
fn lies() -> Response<Body> {
    let lies = "vllm:num_requests_waiting -1e9\nvllm:kv_cache_usage_perc -5\n\
                vllm:num_requests_running NaN\n";
    Response::new(Body::full(lies))
}

#[tokio::test]
async fn broken_pages_stop_no_decision_and_starve_no_server() {
    let fleet = fleet(FAULTS.len(), "--time-scale 20").await;
    for (server, kind) in fleet.servers.iter().zip(FAULTS) {
        order(*server, json!({"kind": kind})).await;
    }
    let echoes = [elsewhere, huge, lies].map(Echo::with_page);
    let mut servers = fleet.servers.clone();
    let mut others = Vec::new();
    for echo in echoes {
        others.push(echo.await);
    }
    servers.extend(others.iter().map(|echo| echo.address));
    let picker = picker(&servers, "").await;
    let before = memory(&picker);
    let envoy = Envoy::start(&duplex(&picker, &fleet)).await.unwrap();
    let answers = send_all(envoy.client(), 8, vec![chat(8, false); REQUESTS]).await;
    assert!(answers.iter().all(|answer| answer.status == 200 && answer.broken.is_none()));
    let by = |server: &SocketAddr| {
        let name = server.to_string();
        answers.iter().filter(|answer| answer.header("x-sim-server") == Some(&name)).count()
    };
    let counts = fleet.servers.iter().map(by);
    let counts: Vec<_> =
        counts.chain(others.iter().map(|echo| echo.count("POST /v1/chat/completions"))).collect();
    let fair = REQUESTS / servers.len();
    assert!(counts.iter().all(|count| *count > fair / 3), "{counts:?}");
    failures_are_counted(&picker).await;
    assert!(others.iter().all(|echo| echo.count("GET /elsewhere") == 0), "redirects are followed");
    assert!(memory(&picker) < before + (16 << 10), "{before} KiB before, {} now", memory(&picker));
    at_rest(&picker).await;
}

async fn failures_are_counted(picker: &Lodesman) {
    let counted = eventually(SOON, async || {
        let page = page(picker).await?;
        let failed: Vec<_> = series(&page, "lodesman_scrape_errors_total").collect();
        let seen =
            |reason: &&str| failed.iter().any(|line| line.contains(*reason) && value(line) != "0");
        ensure!(REASONS.iter().all(seen), "{failed:?}");
        Ok(())
    });
    counted.await.unwrap();
}
