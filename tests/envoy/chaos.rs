//! Everything breaks at once, and nothing is left behind.

use clap::Parser;
use lodesman_e2e::client::Answer;
use lodesman_e2e::{Body, Client, Envoy, Piece, load};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::stage::{CHAT, at_rest, chat, duplex, fleet, is_whole, order, picker};

/// Faults of a simulated server that must not break a request.
const SURVIVED: [&str; 4] =
    ["metrics-hanging", "metrics-garbage", "metrics-endless", "metrics-frozen"];

/// The command line of the load generator.
#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    options: load::Options,
}

async fn storm(picker: std::net::SocketAddr, args: &str) -> load::Report {
    let picker = picker.to_string();
    let args = ["load", &picker].into_iter().chain(args.split_whitespace());
    load::run(&Cli::try_parse_from(args).unwrap().options).await.unwrap()
}

/// Chat requests, half of them streamed, from `workers` clients at a time.
async fn traffic(envoy: &Envoy, workers: usize, each: usize) -> Vec<Answer> {
    let address = envoy.address();
    let mut set = JoinSet::new();
    for worker in 0..workers {
        let client = if worker % 2 == 0 { Client::http1(address) } else { Client::http2(address) };
        set.spawn(async move {
            let mut answers = Vec::new();
            for number in 0..each {
                let ask = chat(8, (worker + number) % 2 == 0);
                answers.push(client.post(CHAT, &ask).await.unwrap());
            }
            answers
        });
    }
    set.join_all().await.concat()
}

fn honest(answer: &Answer) -> bool {
    is_whole(answer) || answer.status.is_server_error() || answer.broken.is_some()
}

#[tokio::test]
async fn broken_metrics_pages_break_no_request() {
    let fleet = fleet(2, "--time-scale 50").await;
    let picker = picker(&fleet.servers, "").await;
    let envoy = Envoy::start(&duplex(&picker, &fleet)).await.unwrap();
    for kind in SURVIVED {
        order(fleet.servers[0], json!({"kind": kind})).await;
        let answers = traffic(&envoy, 4, 10).await;
        assert!(answers.iter().all(is_whole), "{kind}");
    }
    at_rest(&picker).await;
}

#[tokio::test]
async fn killed_server_fails_its_own_requests_alone() {
    let mut fleets = [fleet(1, "--time-scale 20").await, fleet(1, "--time-scale 20").await];
    let servers = fleets.each_ref().map(|fleet| fleet.servers[0]);
    let picker = picker(&servers, "").await;
    let envoy = Envoy::start(&duplex(&picker, &fleets[0])).await.unwrap();
    let killed = async {
        let running = lodesman_e2e::eventually(super::stage::SOON, async || {
            let seen = Client::http1(servers[0]).get("/sim/requests").await?.json()?;
            anyhow::ensure!(seen.as_array().is_some_and(|seen| seen.len() > 10), "no load yet");
            Ok(())
        });
        running.await.unwrap();
        fleets[0].process.kill().unwrap();
    };
    let (answers, ()) = tokio::join!(traffic(&envoy, 16, 20), killed);
    assert!(answers.iter().all(honest));
    let survivor = servers[1].to_string();
    for answer in &answers {
        let by_survivor = answer.header("x-sim-server") == Some(survivor.as_str());
        assert!(!by_survivor || is_whole(answer), "{} {}", answer.status, answer.text());
    }
    at_rest(&picker).await;
}

#[tokio::test]
async fn cut_connections_are_never_a_whole_answer() {
    let fleet = fleet(2, "--time-scale 5").await;
    let picker = picker(&fleet.servers, "").await;
    let envoy = Envoy::start(&duplex(&picker, &fleet)).await.unwrap();
    let (other, short) = (Client::http1(fleet.servers[1]), json!({"prompt": "x"}));
    let cut = async {
        for kind in ["down", "none", "error-500", "down", "none"] {
            order(fleet.servers[1], json!({"kind": kind, "server": 0})).await;
            // So long it lasts.
            other.post("/v1/completions", &short).await.unwrap();
        }
    };
    let (answers, ()) = tokio::join!(traffic(&envoy, 8, 6), cut);
    assert!(answers.iter().all(honest));
    at_rest(&picker).await;
}

#[tokio::test]
async fn garbage_and_aborts_through_the_gateway_leave_nothing_behind() {
    let fleet = fleet(2, "--time-scale 20").await;
    let picker = picker(&fleet.servers, "").await;
    let envoy = Envoy::start(&duplex(&picker, &fleet)).await.unwrap();
    let address = envoy.address();
    let mut set = JoinSet::new();
    for worker in 0..400 {
        set.spawn(async move {
            let client =
                if worker % 2 == 0 { Client::http1(address) } else { Client::http2(address) };
            let text = chat(50, true).to_string();
            let pieces = match worker % 4 {
                0 => vec![Piece::data("garbage"), Piece::data(vec![0; worker])],
                1 => vec![Piece::data(text.split_at(20).0.to_owned()), Piece::Abort],
                _ => vec![Piece::data(text)],
            };
            let request = http::Request::post(CHAT).body(Body::pieces(pieces)).unwrap();
            let Ok(mut response) = client.send(request).await else { return worker % 4 == 1 };
            match worker % 4 {
                0 => response.status == 400,
                // Leaves after the first piece of the answer.
                2 => response.chunk().await.is_ok(),
                3 => is_whole(&response.collect().await),
                _ => false,
            }
        });
    }
    let wrong = set.join_all().await.iter().filter(|right| !**right).count();
    assert_eq!(wrong, 0);
    at_rest(&picker).await;
}

#[tokio::test]
async fn thousands_of_streams_and_resets_leave_nothing_behind() {
    let fleet = fleet(2, "").await;
    let picker = picker(&fleet.servers, "").await;
    let held = "--hold 2000 --requests 2000 --events 4 --connections 4 --streams 8";
    let report = storm(picker.ext_proc, held).await;
    let json = report.json();
    assert_eq!((report.served(), report.failed()), (2_000, 0), "{json:#}");
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
