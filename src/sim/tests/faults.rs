//! Faults, clients that leave or do not read, addresses.

use std::net::SocketAddr;

use serde_json::json as object;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::*;
use crate::sim::{
    driver::Driver,
    engine::{EngineSpec, Event, Job, JobId},
};

const RUNNING: &str = "vllm:num_requests_running{";
const WAITING: &str = "vllm:num_requests_waiting{";

fn endless() -> Value {
    object!({"prompt": "a", "max_tokens": 100_000, "stream": true})
}

#[tokio::test]
async fn a_client_that_goes_away_withdraws_its_job() {
    let sim = Sim::start("--time-scale 1 --max-num-seqs 1").await;
    let response = sim.post(0, "/v1/completions", &endless()).send().await.unwrap();
    let whole = object!({"prompt": "a", "max_tokens": 9_000});
    tokio::select! {
        answer = sim.post(0, "/v1/completions", &whole).send() => panic!("too early: {answer:?}"),
        () = sim.until(WAITING, 1.0) => {}
    }
    sim.until(WAITING, 0.0).await;
    sim.until(RUNNING, 1.0).await;
    drop(response);
    sim.until(RUNNING, 0.0).await;
    assert!(sim.metric(0, "vllm:kv_cache_usage_perc").await.abs() < f64::EPSILON);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_loses_its_stream_and_holds_up_nobody() {
    let driver = Driver::new(EngineSpec::default(), 1.0);
    let faults = tokio::sync::watch::Sender::default();
    let job = Job {
        id: JobId(0),
        prompt_tokens: 1_000,
        blocks: [].into(),
        output_tokens: 3_000,
        adapter: None,
    };
    let mut unread = driver.submit(job.clone()).unwrap();
    let begun = tokio::time::Instant::now();
    let mut events = driver.submit(Job { output_tokens: 2_000, ..job }).unwrap();
    let read = async {
        let first = events.recv().await;
        assert!(matches!(first, Some(Event::FirstToken { .. })), "{first:?}");
        let first_token = begun.elapsed();
        let mut last = first;
        while let Some(event) = events.recv().await {
            last = Some(event);
        }
        assert!(matches!(last, Some(Event::Finished { .. })), "{last:?}");
        first_token
    };
    let first_token = tokio::select! {
        first_token = read => first_token,
        ended = driver.run(faults.subscribe()) => panic!("{ended:?}"),
    };
    // Two prompts of 1,000 tokens in one step.
    assert_eq!(first_token.as_millis(), 250);
    let mut events = Vec::new();
    while let Some(event) = unread.recv().await {
        events.push(event);
    }
    assert_eq!(events.len(), 1_024);
    assert!(!events.iter().any(|event| matches!(event, Event::Finished { .. })));
}

#[tokio::test]
async fn a_wedged_engine_answers_when_it_is_repaired() {
    let sim = Sim::start("").await;
    sim.order(0, object!({"kind": "wedged"})).await;
    let body = object!({"prompt": "a"});
    let asked = sim.ask("/v1/completions", &body);
    let repaired = async {
        sim.until(WAITING, 1.0).await;
        assert_eq!(sim.get(0, "/health").await.status(), 200);
        assert!(sim.metric(0, RUNNING).await.abs() < f64::EPSILON);
        sim.order(0, object!({"kind": "none"})).await;
    };
    let (answer, ()) = tokio::join!(asked, repaired);
    assert_eq!(answer["usage"]["completion_tokens"], 16);
}

#[tokio::test]
async fn an_ordered_error_is_answered_500_on_the_api_alone() {
    let sim = Sim::start("").await;
    sim.order(0, object!({"kind": "error-500"})).await;
    let response = sim.post(0, "/v1/completions", &object!({"prompt": "a"})).send().await.unwrap();
    assert_eq!(response.status(), 500);
    assert_eq!(sim.get(0, "/metrics").await.status(), 200);
}

#[tokio::test]
async fn the_metrics_page_freezes_hangs_breaks_and_never_ends() {
    let sim = Sim::start("").await;
    sim.order(0, object!({"kind": "metrics-frozen"})).await;
    let before = sim.get(0, "/metrics").await.text().await.unwrap();
    sim.ask("/v1/completions", &object!({"prompt": "a"})).await;
    assert_eq!(sim.get(0, "/metrics").await.text().await.unwrap(), before);
    sim.order(0, object!({"kind": "none"})).await;
    sim.until("vllm:generation_tokens_total", 16.0).await;

    sim.order(0, object!({"kind": "metrics-error-500"})).await;
    assert_eq!(sim.get(0, "/metrics").await.status(), 500);

    sim.order(0, object!({"kind": "metrics-garbage"})).await;
    let garbage = sim.get(0, "/metrics").await.bytes().await.unwrap();
    assert!(std::str::from_utf8(&garbage).is_err());

    sim.order(0, object!({"kind": "metrics-endless"})).await;
    let mut endless = sim.get(0, "/metrics").await;
    let mut length = 0;
    while length < 4 << 20 {
        length += endless.chunk().await.unwrap().expect("no end").len();
    }

    sim.order(0, object!({"kind": "metrics-hanging"})).await;
    let hanging = sim.client.get(sim.url(0, "/metrics")).timeout(Duration::from_millis(50));
    assert!(hanging.send().await.unwrap_err().is_timeout());
}

#[tokio::test]
async fn a_server_that_is_down_resets_refuses_and_comes_back_cold() {
    let sim = Sim::start("--servers 2 --time-scale 1").await;
    let address = sim.fleet.addresses()[0];
    let mut stream = open_stream(address).await;
    sim.until(RUNNING, 1.0).await;
    sim.order(1, object!({"kind": "down", "server": 0})).await;
    let mut unread = Vec::new();
    let reset = timeout(PATIENCE, stream.read_to_end(&mut unread)).await.unwrap().unwrap_err();
    assert_eq!(reset.kind(), std::io::ErrorKind::ConnectionReset);
    let refused = TcpStream::connect(address).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    sim.order(1, object!({"kind": "none", "all": true})).await;
    let back = async {
        while TcpStream::connect(address).await.is_err() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, back).await.unwrap();
    assert!(sim.metric(0, "vllm:prompt_tokens_total").await.abs() < f64::EPSILON);
}

async fn open_stream(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let body = endless().to_string();
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn the_port_of_the_fleet_repairs_when_all_are_down() {
    let sim = Sim::start("--servers 2 --admin-port 0").await;
    sim.order(0, object!({"kind": "down", "all": true})).await;
    let admin = format!("http://{}", sim.fleet.admin_address().unwrap());
    let order =
        |body: &str| sim.client.post(format!("{admin}/sim/fault")).body(body.to_owned()).send();
    assert_eq!(order(r#"{"kind": "none"}"#).await.unwrap().status(), 400, "names no server");
    assert_eq!(order(r#"{"kind": "none", "server": 1}"#).await.unwrap().status(), 200);
    let back = async {
        while sim.client.get(sim.url(1, "/health")).send().await.is_err() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, back).await.unwrap();
    assert!(sim.client.get(sim.url(0, "/health")).send().await.is_err());
    let seen = sim.client.get(format!("{admin}/sim/requests?server=1")).send().await.unwrap();
    assert_eq!(seen.status(), 200);
}

#[tokio::test]
async fn servers_share_a_port_at_addresses_of_their_own() {
    let sim = Sim::start("--servers 3 --address 127.0.1.9").await;
    let addresses = sim.fleet.addresses();
    let ips = addresses.iter().map(|address| address.ip().to_string()).collect::<Vec<_>>();
    assert_eq!(ips, ["127.0.1.9", "127.0.1.10", "127.0.1.11"]);
    assert!(addresses.iter().all(|address| address.port() == addresses[0].port()));
}

#[test]
fn numbers_that_would_exhaust_memory_are_refused_with_their_range() {
    for (flag, value, range) in [
        ("--servers", "0", "1..=65536"),
        ("--servers", "99999999999", "1..=65536"),
        ("--block-size", "0", "1..=65536"),
        ("--max-num-seqs", "65537", "1..=65536"),
        ("--max-loras", "18446744073709551615", "0..=65536"),
        ("--max-num-batched-tokens", "10000001", "1..=10000000"),
        ("--kv-tokens", "1000000001", "1..=1000000000"),
    ] {
        let error = refused(flag, value);
        assert!(["--", value, range].iter().all(|it| error.contains(it)), "{flag}: {error}");
    }
}

#[test]
fn arguments_without_sense_are_refused() {
    for line in ["--slow 1=2", "--time-scale 0", "--kv-tokens 15", "--decode-step-ms=-1"] {
        assert!(args(line).engine_specs().is_err(), "{line}");
    }
    let specs = args("--servers 2 --slow 1=2.5 --max-loras 7").engine_specs().unwrap();
    assert_eq!(
        (specs[0].slowdown.to_bits(), specs[1].slowdown.to_bits()),
        (1f64.to_bits(), 2.5f64.to_bits())
    );
    assert_eq!(specs[0].adapter_slots, 7);
    assert_eq!(
        args("").engine_specs().unwrap(),
        [EngineSpec::default()],
        "the defaults are the same"
    );
}
