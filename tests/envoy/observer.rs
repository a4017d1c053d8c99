//! Accounting by a second filter that only watches.

use anyhow::ensure;
use http::Request;
use lodesman_e2e::envoy::{BodyMode, Destination, ExtProc, HeaderMode, Mode, Picker, Pool};
use lodesman_e2e::{Body, EnvoyConfig, Fleet, Lodesman, eventually};
use serde_json::json;

use super::stage::{CHAT, SOON, Stage, at_rest, chat, is_whole, outcomes, total};

/// The request and the answer's headers to the picker, and copies of headers and trailers to an
/// observer, so that an answer costs nothing and none breaks when the picker does.
fn watched(picker: &Lodesman, _: &Fleet) -> EnvoyConfig {
    let full_duplex = Mode::with_body(BodyMode::FullDuplexStreamed);
    let asked = ExtProc::new(Picker::new([picker.ext_proc]), full_duplex, Mode::HEADERS);
    let trailers = Mode { trailers: HeaderMode::Send, ..Mode::HEADERS };
    let mut observer = ExtProc::new(Picker::new([picker.ext_proc]), Mode::HEADERS, trailers);
    observer.observability_mode = true;
    observer.failure_mode_allow = true;
    observer.extra.insert("deferred_close_timeout".to_owned(), json!("0.05s"));
    let pool = Pool::OriginalDst(Destination::Header);
    EnvoyConfig { ext_procs: vec![asked, observer], ..EnvoyConfig::plain(pool) }
}

#[tokio::test]
async fn observer_sees_how_long_a_request_runs() {
    let stage = Stage::with(2, "--decode-step-ms 10", "", watched).await;
    let request = Request::post(CHAT).body(Body::full(chat(200, true).to_string())).unwrap();
    let mut response = stage.client().send(request).await.unwrap();
    response.chunk().await.unwrap().unwrap();
    let one = eventually(SOON, async || {
        let running = total(&stage.picker, "llm_d_epp_inflight_requests", "").await?;
        ensure!(running == 1, "{running} in flight");
        Ok(())
    });
    one.await.unwrap();
    let answer = response.collect().await;
    assert!(is_whole(&answer), "{answer:?}");
    at_rest(&stage.picker).await;
    assert_eq!(total(&stage.picker, "llm_d_epp_request_total", "").await.unwrap(), 1);
    assert_eq!(outcomes(&stage.picker, "unobserved").await.unwrap(), 2, "one for each stream");
    assert_eq!(outcomes(&stage.picker, "client_disconnect").await.unwrap(), 0);
}

#[tokio::test]
async fn answer_survives_the_death_of_a_picker_that_only_watches_it() {
    let mut stage = Stage::with(1, "--decode-step-ms 10", "", watched).await;
    let request = Request::post(CHAT).body(Body::full(chat(100, true).to_string())).unwrap();
    let mut response = stage.client().send(request).await.unwrap();
    response.chunk().await.unwrap().unwrap();
    stage.picker.process.kill().unwrap();
    let answer = response.collect().await;
    assert_eq!(answer.broken, None, "{}", answer.text());
    assert!(answer.text().ends_with("data: [DONE]\n\n"), "{}", answer.text());
}
