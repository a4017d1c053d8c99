//! Everything breaks at once, and nothing is left behind.

use std::net::SocketAddr;

use anyhow::ensure;
use clap::Parser;
use http::Request;
use lodesman_e2e::client::{Answer, Response};
use lodesman_e2e::{Body, Client, Envoy, Piece, eventually, load};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::stage::{
    CHAT, SOON, at_rest, chat, duplex, fleet, is_honest, is_whole, order, picker, requests_at,
    unlike,
};

/// The command line of the load generator.
#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    options: load::Options,
}

async fn storm(picker: SocketAddr, args: &str) -> load::Report {
    let picker = picker.to_string();
    let args = ["load", &picker].into_iter().chain(args.split_whitespace());
    load::run(&Cli::try_parse_from(args).unwrap().options).await.unwrap()
}

/// Every other client in HTTP/2.
fn client(address: SocketAddr, number: usize) -> Client {
    if number.is_multiple_of(2) { Client::http1(address) } else { Client::http2(address) }
}

/// Chat requests, half of them streamed, from `workers` clients at a time.
async fn traffic(envoy: &Envoy, workers: usize, each: usize) -> Vec<Answer> {
    let address = envoy.address();
    let mut set = JoinSet::new();
    for worker in 0..workers {
        set.spawn(async move {
            let mut answers = Vec::new();
            for number in 0..each {
                let streamed = (worker + number).is_multiple_of(2);
                let ask = unlike(worker * each + number, 8, streamed);
                answers.push(client(address, worker).post(CHAT, &ask).await.unwrap());
            }
            answers
        });
    }
    set.join_all().await.concat()
}

/// Streamed answers that have begun.
pub(super) async fn streams(envoy: &Envoy, count: usize) -> Vec<Response> {
    let mut open = Vec::new();
    for number in 0..count {
        let ask = unlike(number, 600, true).to_string();
        let request = Request::post(CHAT).body(Body::full(ask)).unwrap();
        let mut response = client(envoy.address(), number).send(request).await.unwrap();
        response.chunk().await.unwrap().unwrap();
        open.push(response);
    }
    open
}

/// Each stream of `dead` is cut and seen to be; each of another server is whole.
async fn check(streams: Vec<Response>, dead: SocketAddr) {
    let (mut cut, mut whole) = (0, 0);
    for stream in streams {
        let answer = stream.collect().await;
        if answer.header("x-sim-server") == Some(dead.to_string().as_str()) {
            assert!(answer.broken.is_some(), "taken for whole: {}", answer.text());
            cut += 1;
        } else {
            assert!(answer.broken.is_none() && answer.text().ends_with("data: [DONE]\n\n"));
            whole += 1;
        }
    }
    assert!(cut > 0 && whole > 0, "{cut} cut, {whole} whole");
}

#[tokio::test]
async fn killed_server_fails_its_own_requests_alone() {
    let mut fleets = [fleet(1, "--time-scale 5").await, fleet(1, "--time-scale 5").await];
    let servers = fleets.each_ref().map(|fleet| fleet.servers[0]);
    let picker = picker(&servers, "").await;
    let envoy = Envoy::start(&duplex(&picker, &fleets[0])).await.unwrap();
    let open = streams(&envoy, 6).await;
    let killed = async {
        let loaded = eventually(SOON, async || {
            ensure!(requests_at(servers[0]).await.len() > 10, "no load yet");
            Ok(())
        });
        loaded.await.unwrap();
        fleets[0].process.kill().unwrap();
    };
    let (answers, ()) = tokio::join!(traffic(&envoy, 12, 10), killed);
    check(open, servers[0]).await;
    assert!(answers.iter().all(is_honest));
    let survivor = servers[1].to_string();
    let mut by_survivor =
        answers.iter().filter(|answer| answer.header("x-sim-server") == Some(&survivor));
    assert!(by_survivor.all(is_whole));
    at_rest(&picker).await;
}

#[tokio::test]
async fn cut_connection_is_never_a_whole_answer() {
    let fleet = fleet(2, "--time-scale 5").await;
    let picker = picker(&fleet.servers, "").await;
    let envoy = Envoy::start(&duplex(&picker, &fleet)).await.unwrap();
    let open = streams(&envoy, 6).await;
    order(fleet.servers[1], json!({"kind": "down", "server": 0})).await;
    check(open, fleet.servers[0]).await;
    at_rest(&picker).await;
    order(fleet.servers[1], json!({"kind": "none", "server": 0})).await;
    let back = eventually(SOON, async || {
        let answers = traffic(&envoy, 2, 4).await;
        ensure!(answers.iter().all(is_whole), "not back yet");
        Ok(())
    });
    back.await.unwrap();
    at_rest(&picker).await;
}

/// What a client of the gateway does.
#[derive(Clone, Copy)]
pub(super) enum Manner {
    SendsGarbage,
    AbortsItsRequest,
    LeavesTheAnswer,
    ReadsAll,
}

impl Manner {
    fn body(self) -> Body {
        let text = chat(50, true).to_string();
        Body::pieces(match self {
            Self::SendsGarbage => vec![Piece::data("garbage"), Piece::data(vec![0; 100])],
            Self::AbortsItsRequest => {
                vec![Piece::data(text.split_at(20).0.to_owned()), Piece::Abort]
            }
            Self::LeavesTheAnswer | Self::ReadsAll => vec![Piece::data(text)],
        })
    }

    /// Whether all went as it should.
    pub(super) async fn play(self, client: Client) -> bool {
        let request = Request::post(CHAT).body(self.body()).unwrap();
        match (self, client.send(request).await) {
            (Self::AbortsItsRequest, answer) => answer.is_err(),
            (_, Err(_)) => false,
            (Self::SendsGarbage, Ok(response)) => response.status == 400,
            (Self::LeavesTheAnswer, Ok(mut response)) => response.chunk().await.is_ok(),
            (Self::ReadsAll, Ok(response)) => is_whole(&response.collect().await),
        }
    }
}

#[tokio::test]
async fn garbage_and_aborts_through_the_gateway_leave_nothing_behind() {
    let fleet = fleet(2, "--time-scale 20").await;
    let picker = picker(&fleet.servers, "").await;
    let envoy = Envoy::start(&duplex(&picker, &fleet)).await.unwrap();
    let manners =
        [Manner::SendsGarbage, Manner::AbortsItsRequest, Manner::LeavesTheAnswer, Manner::ReadsAll];
    let mut set = JoinSet::new();
    for (number, manner) in manners.into_iter().cycle().take(400).enumerate() {
        set.spawn(manner.play(client(envoy.address(), number / manners.len())));
    }
    let wrong = set.join_all().await.iter().filter(|right| !**right).count();
    assert_eq!(wrong, 0);
    at_rest(&picker).await;
}

// FR-028
#[tokio::test]
async fn thousands_of_streams_and_resets_leave_nothing_behind() {
    let fleet = fleet(2, "").await;
    let picker = picker(&fleet.servers, "").await;
    let held = "--hold 2000 --requests 2000 --events 4 --connections 4 --streams 8";
    let report = storm(picker.ext_proc, held).await;
    assert_eq!((report.served(), report.failed()), (2_000, 0), "{:#}", report.json());
    let resets = "--requests 10000 --events 4 --aborts 1 --connections 4 --streams 64";
    let report = storm(picker.ext_proc, resets).await;
    assert_eq!(report.json()["requests"], Value::from(10_000));
    assert_eq!(report.failed(), 0, "{:#}", report.json());
    assert!(report.aborted() > 8_000, "{:#}", report.json());
    at_rest(&picker).await;
    let report = storm(picker.ext_proc, "--requests 100 --events 4").await;
    assert_eq!((report.served(), report.failed()), (100, 0), "it serves as before");
    at_rest(&picker).await;
}
