//! The load generator against a stub picker.

use super::*;
use crate::stub::StubPicker;
use crate::wait::free_address;

/// The options that `args` mean.
pub(super) fn options(args: &str) -> Options {
    Options::parse(free_address().unwrap(), args).unwrap()
}

async fn load(target: SocketAddr, args: &str) -> Result<Report> {
    run(&Options::parse(target, args)?).await
}

#[tokio::test]
async fn every_exchange_is_served_and_measured() {
    let picker = StubPicker::start(free_address().unwrap()).await;
    let pid = std::process::id();
    let args = format!("--requests 200 --body-bytes 200000 --events 5 --pid {pid}");
    let report = load(picker.address, &args).await.unwrap();
    let json = report.json();
    assert_eq!((report.served(), report.failed()), (200, 0), "{json:#}");
    assert!(json["header_reply_us"]["p50"].as_f64() <= json["header_reply_us"]["p99"].as_f64());
    assert!(json["server"]["resident_bytes"].as_u64() > Some(0));
}

#[tokio::test]
async fn request_without_a_body_is_one_message() {
    let picker = StubPicker::start(free_address().unwrap()).await;
    let report = load(picker.address, "--requests 1 --body-bytes 0").await.unwrap();
    assert_eq!(report.served(), 1, "{report}");
    assert_eq!(picker.messages().len(), 1);
}

#[tokio::test]
async fn share_of_the_requests_is_aborted_the_same_each_time() {
    let picker = StubPicker::start(free_address().unwrap()).await;
    let args = "--requests 400 --events 3 --aborts 0.5 --hold 20";
    let first = load(picker.address, args).await.unwrap();
    let second = load(picker.address, args).await.unwrap();
    assert_eq!(first.failed() + second.failed(), 0, "{first}");
    assert!((100..300).contains(&first.aborted()), "{first}");
    assert_eq!(first.aborted(), second.aborted());
}

#[tokio::test]
async fn fixed_rate_takes_its_time() {
    let picker = StubPicker::start(free_address().unwrap()).await;
    let started = now();
    load(picker.address, "--requests 21 --rate 200").await.unwrap();
    assert!(started.elapsed() >= Duration::from_millis(100));
}

#[tokio::test]
async fn altered_echo_is_a_failure_with_its_reason() {
    let picker = StubPicker::altering(free_address().unwrap()).await;
    let report = load(picker.address, "--requests 3").await.unwrap();
    assert_eq!(report.failed(), 3);
    assert_eq!(report.json()["failures"]["echoed bytes differ"], 3, "{report}");
}

#[tokio::test]
async fn refusal_is_counted_by_status() {
    let picker = StubPicker::refusing().await;
    let report = load(picker.address, "--requests 5 --body-bytes 300000").await.unwrap();
    assert_eq!(report.json()["rejected"]["429"], 5, "{report}");
}

#[tokio::test]
async fn dead_server_is_an_error_that_names_it() {
    let address = free_address().unwrap();
    let error = load(address, "").await.unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}
