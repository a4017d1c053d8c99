//! Metrics pages that are broken, while requests run.

use std::collections::BTreeMap;

use anyhow::ensure;
use bytes::Bytes;
use http::{Response, StatusCode};
use lodesman_e2e::{Body, Envoy, Piece, eventually};
use serde_json::json;

use super::stage::{SOON, at_rest, chat, duplex, fleet, order, page, picker, series};
use super::traffic::send_all;
use super::upstream::Echo;

/// Faults of simulated servers, one server each; the first is well.
const FAULTS: [&str; 5] =
    ["none", "metrics-hanging", "metrics-garbage", "metrics-endless", "metrics-frozen"];

/// Failed reads that these, a page elsewhere and one of 50 MB must cause.
const REASONS: [&str; 4] = ["timeout", "nothing_known", "too_long", "status"];

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

#[tokio::test]
async fn broken_pages_stop_no_decision_and_starve_no_server() {
    let fleet = fleet(FAULTS.len(), "--time-scale 20").await;
    for (server, kind) in fleet.servers.iter().zip(FAULTS) {
        order(*server, json!({"kind": kind})).await;
    }
    let echoes = [Echo::with_page(elsewhere).await, Echo::with_page(huge).await];
    let servers =
        [fleet.servers.clone(), echoes.iter().map(|echo| echo.address).collect()].concat();
    let picker = picker(&servers, "").await;
    let envoy = Envoy::start(&duplex(&picker, &fleet)).await.unwrap();
    let mut counts = BTreeMap::<String, usize>::new();
    let answers = send_all(envoy.client(), 8, vec![chat(8, false); 400]).await;
    for answer in &answers {
        assert_eq!((answer.status.as_u16(), &answer.broken), (200, &None));
        let server = answer.header("x-sim-server").unwrap_or("echo");
        *counts.entry(server.to_owned()).or_default() += 1;
    }
    eprintln!("PAGES {counts:?} {:?}", echoes.each_ref().map(|echo| echo.count()));
    let noticed = eventually(SOON, async || {
        let page = page(&picker).await?;
        let failed: Vec<_> = series(&page, "lodesman_scrape_errors_total").collect();
        let seen = |reason: &&str| {
            failed.iter().any(|line| line.contains(*reason) && !line.ends_with(" 0"))
        };
        ensure!(REASONS.iter().all(seen), "{failed:?}");
        eprintln!("PAGES {failed:?}");
        Ok(())
    });
    noticed.await.unwrap();
    at_rest(&picker).await;
}
