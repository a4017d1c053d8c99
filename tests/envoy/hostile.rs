//! Model servers and clients that mean harm: what they say passes or is refused, takes no memory, and is told nowhere.

use anyhow::ensure;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, Response};
use lodesman_e2e::{Body, Client, Envoy, Lodesman, Piece, eventually};
use serde_json::{Value, json};

use super::stage::{
    CHAT, SOON, at_rest, chat, duplex, fleet, most_memory, page, picker, series, value,
};
use super::upstream::Echo;

const EVENTS: &str = "text/event-stream";

/// So many megabytes are in a long answer.
const LONG: usize = 40;

/// A megabyte of one line.
fn megabyte(of: &[u8]) -> Bytes {
    Bytes::from(of.repeat((1 << 20) / of.len()))
}

fn said(kind: &str, pieces: impl IntoIterator<Item = Bytes> + Send + 'static) -> Response<Body> {
    let body = Body::pieces(pieces.into_iter().map(Piece::data).collect::<Vec<_>>());
    Response::builder().header(CONTENT_TYPE, kind).body(body).unwrap()
}

type Says = fn() -> Response<Body>;

/// An event that does not end.
fn endless_line() -> Response<Body> {
    said(EVENTS, std::iter::repeat_n(megabyte(b"data: {\"usage\":"), LONG))
}

/// Containers in containers.
fn nested() -> Response<Body> {
    said("application/json", std::iter::repeat_n(megabyte(b"{\"usage\":["), LONG))
}

/// A key that does not end.
fn endless_key() -> Response<Body> {
    let begin = Bytes::from_static(b"{\"");
    said("application/json", [begin].into_iter().chain(std::iter::repeat_n(megabyte(b"k"), LONG)))
}

/// Counts that nobody has.
fn absurd_counts() -> Response<Body> {
    let usage = br#"data: {"usage":{"prompt_tokens":1e300,"completion_tokens":-7,"prompt_tokens_details":{"cached_tokens":99999999999999999999}}}"#;
    said(EVENTS, [Bytes::from_static(usage), Bytes::from_static(b"\n\ndata: [DONE]\n\n")])
}

#[tokio::test]
async fn answers_that_do_not_end_a_line_or_lie_of_tokens_pass_and_take_no_memory() {
    let nobody = fleet(1, "").await;
    let long = (LONG - 1) << 20;
    let answers: [(Says, usize); 4] =
        [(endless_line, long), (nested, long), (endless_key, long), (absurd_counts, 100)];
    for (answer, least) in answers {
        let server = Echo::saying(answer).await;
        let picker = picker(&[server.address], "--probe=false").await;
        let envoy = Envoy::start(&duplex(&picker, &nobody)).await.unwrap();
        let before = most_memory(&picker);
        for _ in 0..2 {
            let got = envoy.client().post(CHAT, &chat(1, true)).await.unwrap();
            assert_eq!((got.status.as_u16(), got.broken), (200, None));
            let length: usize = got.chunks.iter().map(|chunk| chunk.data.len()).sum();
            assert!(length > least, "{length} bytes");
        }
        // What may have been received and not read is 16 MiB a connection.
        let now = most_memory(&picker);
        assert!(now < before + (32 << 10), "{before} KiB before, {now} KiB now");
        let shown = page(&picker).await.unwrap();
        let tokens: Vec<_> =
            series(&shown, "llm_d_epp_request_output_tokens_sum").map(value).collect();
        assert!(!tokens.is_empty() && tokens.iter().all(|sum| *sum == "0"), "{tokens:?}");
        at_rest(&picker).await;
    }
}

/// What is in no text of ours.
const CANARY: &str = "quetzal";

/// The pages that tell of requests.
const PAGES: [&str; 5] =
    ["/debug/decisions", "/debug/overview", "/debug/snapshot", "/debug/config", "/"];

/// All that a picker has told: its log and its pages.
async fn told(picker: &Lodesman) -> String {
    let mut told = picker.process.output() + &page(picker).await.unwrap();
    for page in PAGES {
        let answer = Client::http1(picker.admin).get(page).await.unwrap();
        assert_eq!(answer.status, 200, "{page}");
        told += &answer.text();
    }
    told
}

/// Waits for so many lines that have these words.
async fn until_logged(picker: &Lodesman, words: &str, count: usize) {
    let written = eventually(SOON, async || {
        let log = picker.process.output();
        let lines = log.lines().filter(|line| line.contains(words)).count();
        ensure!(lines >= count, "{lines} lines of {count}: {log}");
        Ok(())
    });
    written.await.unwrap();
}

#[tokio::test]
async fn text_of_prompts_and_answers_is_in_no_log_page_or_recording() {
    let nobody = fleet(1, "").await;
    // It answers with what it is asked.
    let server = Echo::start().await;
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let everything = "--probe=false --v 5 --request-log 1 --decision-log 100";
    let args = format!("{everything} --record-trace {}", trace.display());
    let picker = picker(&[server.address], &args).await;
    let envoy = Envoy::start(&duplex(&picker, &nobody)).await.unwrap();
    let secret = |text: &str| json!(format!("{text} {CANARY}"));
    let chat = json!({
        "model": "sim", "user": secret("me"), "cache_salt": secret("salt"), "metadata": {CANARY: 1},
        "messages": [
            {"role": "system", "content": secret("be")},
            {"role": "user", "content": [{"type": "text", "text": secret("say")}]},
        ],
        "tools": [{"type": "function", "function": {"name": CANARY}}],
    });
    let plain = json!({"model": "sim", "prompt": secret("Once")});
    // Neither of these two can be read.
    let broken = json!({"model": 7, "prompt": secret("Once")});
    let cut = format!("{{\"model\":\"sim\",\"prompt\":\"{CANARY}");
    for (path, body) in [
        (CHAT, chat.to_string()),
        ("/v1/completions", plain.to_string()),
        ("/v1/completions", broken.to_string()),
        ("/v1/completions", cut),
    ] {
        let request = Request::post(path).header("authorization", format!("Bearer {CANARY}"));
        let request = request.header("cookie", CANARY).body(Body::full(body)).unwrap();
        envoy.client().send(request).await.unwrap().collect().await;
    }
    at_rest(&picker).await;
    until_logged(&picker, "request ended", 4).await;
    let told = told(&picker).await;
    assert!(!told.to_lowercase().contains(CANARY), "{told}");
    drop(picker);
    let trace = std::fs::read(&trace).unwrap();
    assert!(trace.len() > 100, "{} bytes are recorded", trace.len());
    assert!(!trace.windows(CANARY.len()).any(|it| it == CANARY.as_bytes()), "in the recording");
}

#[tokio::test]
async fn names_from_clients_are_bounded_and_escaped_wherever_they_are_told() {
    const FORGED: &str = "FORGED";
    let nobody = fleet(1, "").await;
    let server = Echo::start().await;
    for format in ["json", "text"] {
        let args = format!("--probe=false --v 5 --request-log 1 --log-format {format}");
        let picker = picker(&[server.address], &args).await;
        let envoy = Envoy::start(&duplex(&picker, &nobody)).await.unwrap();
        let line = format!("\n{FORGED} {{}}\r\u{1b}[31m\"}}\nx{{y=\"");
        for name in [line.clone(), line.clone() + &"m".repeat(3_000), line + &"m".repeat(100_000)] {
            let mut ask = chat(1, false);
            ask["model"] = name.into();
            let request = Request::post(CHAT)
                .header("x-llm-d-inference-objective", "o".repeat(5_000))
                .header("x-request-id", "i".repeat(5_000))
                .body(Body::full(ask.to_string()));
            envoy.client().send(request.unwrap()).await.unwrap().collect().await;
        }
        at_rest(&picker).await;
        until_logged(&picker, "request ended", 3).await;
        let (log, metrics) = (picker.process.output(), page(&picker).await.unwrap());
        let longest = |text: &str| text.lines().map(str::len).max().unwrap();
        assert!(log.contains(FORGED) && metrics.contains("model_name=\"other\""), "{metrics}");
        assert!(longest(&log) < 4_000 && longest(&metrics) < 2_000);
        for line in log.lines().chain(metrics.lines()) {
            assert!(!line.starts_with(FORGED) && !line.contains(['\r', '\u{1b}']), "{line:?}");
        }
        let lines = || log.lines().map(serde_json::from_str::<Value>);
        assert!(format == "text" || lines().all(|line| line.is_ok()), "{log}");
    }
}
