use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

use super::super::health::Pulse;
use super::super::listener::bind_to;
use super::*;
use crate::pool::readiness::{Readiness, Stage};

async fn with_server<F: Future<Output = ()>>(router: Router, script: impl FnOnce(SocketAddr) -> F) {
    let listener = bind_to((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = listener.local_addr().unwrap();
    tokio::select! {
        () = serve_http(listener, router, pending()) => {}
        ended = timeout(Duration::from_secs(20), script(address)) => ended.expect("done in time"),
    }
}

/// Sends one request by hand; the answer as text.
async fn ask(address: SocketAddr, request: &str, body: &str) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let text = format!(
        "{request} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    socket.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    answer
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

async fn metrics_port(readiness: Readiness) -> Router {
    let (_, receiver) = watch::channel(readiness);
    let health = Health::new(receiver, &[Arc::new(Pulse::new())]).await;
    metrics_router(|| "up 1\n".to_owned(), None, health)
}

#[tokio::test]
async fn probes_and_metrics_answer_on_the_metrics_port() {
    let synced = Readiness { stage: Stage::Synced, ..Readiness::default() };
    with_server(metrics_port(synced).await, |address| async move {
        let metrics = ask(address, "GET /metrics", "").await;
        assert!(metrics.contains("content-type: text/plain; version=0.0.4"), "{metrics}");
        assert_eq!(body(&metrics), "up 1\n");
        for path in ["GET /livez", "GET /healthz", "GET /readyz"] {
            let answer = ask(address, path, "").await;
            assert_eq!((status(&answer), body(&answer)), ("200", "ok\n"), "{path}");
        }
        let verbose = ask(address, "GET /readyz?verbose", "").await;
        assert_eq!(
            body(&verbose),
            "[+] source\n[+] endpoints\n[+] scrape\n[+] leadership\n[+] drain\nok\n"
        );
    })
    .await;
}

#[tokio::test]
async fn a_replica_that_is_not_ready_says_why() {
    let draining = Readiness { stage: Stage::Scraping, draining: true, ..Readiness::default() };
    with_server(metrics_port(draining).await, |address| async move {
        let answer = ask(address, "GET /readyz", "").await;
        assert_eq!(status(&answer), "503");
        let reasons = "[-] scrape: first scrape round not done yet\n[-] drain: draining\n";
        assert_eq!(body(&answer), reasons);
        assert_eq!(status(&ask(address, "GET /livez", "").await), "200");
    })
    .await;
}

#[tokio::test]
async fn a_replica_that_is_ready_says_what_is_wrong_nevertheless() {
    let warning = Some("pool not valid".into());
    let readiness = Readiness { stage: Stage::Synced, warning, ..Readiness::default() };
    with_server(metrics_port(readiness).await, |address| async move {
        let answer = ask(address, "GET /readyz", "").await;
        assert_eq!((status(&answer), body(&answer)), ("200", "[!] pool not valid\nok\n"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_event_loop_fails_the_liveness_probe() {
    let (_, receiver) = watch::channel(Readiness::default());
    let health = Health::new(receiver, &[Arc::new(Pulse::new())]).await;
    tokio::time::advance(Duration::from_secs(11)).await;
    assert_eq!(live(&health).status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn unknown_paths_are_404_and_wrong_methods_405() {
    with_server(metrics_port(Readiness::default()).await, |address| async move {
        assert_eq!(status(&ask(address, "GET /debug/snapshot", "").await), "404");
        assert_eq!(status(&ask(address, "POST /metrics", "x").await), "405");
        assert_eq!(status(&ask(address, "DELETE /readyz", "").await), "405");
    })
    .await;
}

fn admin_port() -> Router {
    let level = Arc::new(Mutex::new("info".to_owned()));
    let current = Arc::clone(&level);
    let write: Arc<Set> = Arc::new(move |new| {
        if new == "nonsense" {
            return Err("no such level".to_owned());
        }
        new.clone_into(&mut level.lock());
        Ok(())
    });
    let log_level = Setting { read: Arc::new(move || current.lock().clone()), write };
    json_page("/debug/snapshot", || serde_json::json!({"generation": 7}))
        .merge(setting_page("/debug/log-level", log_level))
}

#[tokio::test]
async fn the_admin_port_shows_the_snapshot_and_changes_the_log_level() {
    with_server(admin_port(), |address| async move {
        let snapshot = ask(address, "GET /debug/snapshot", "").await;
        assert_eq!(body(&snapshot), r#"{"generation":7}"#);
        assert_eq!(body(&ask(address, "GET /debug/log-level", "").await), "info\n");
        assert_eq!(status(&ask(address, "PUT /debug/log-level", "debug\n").await), "200");
        assert_eq!(body(&ask(address, "GET /debug/log-level", "").await), "debug\n");
        let refused = ask(address, "PUT /debug/log-level", "nonsense").await;
        assert_eq!((status(&refused), body(&refused)), ("400", "no such level\n"));
        assert_eq!(status(&ask(address, "POST /debug/log-level", "warn").await), "405");
    })
    .await;
}

#[tokio::test]
async fn oversized_requests_are_refused() {
    with_server(admin_port(), |address| async move {
        let long = "x".repeat(BODY_LIMIT + 1);
        assert_eq!(status(&ask(address, "PUT /debug/log-level", &long).await), "413");
        let path = format!("GET /{}", "x".repeat(HEADER_LIMIT));
        assert_eq!(status(&ask(address, &path, "").await), "431");
    })
    .await;
}

#[tokio::test]
async fn more_slow_clients_than_places_do_not_keep_others_out() {
    with_server(admin_port(), |address| async move {
        let mut slow = Vec::new();
        for _ in 0..CONNECTIONS + 10 {
            let mut socket = TcpStream::connect(address).await.unwrap();
            socket.write_all(b"GET /debug").await.unwrap();
            slow.push(socket);
        }
        assert_eq!(body(&ask(address, "GET /debug/log-level", "").await), "info\n");
        let ended = slow[0].read(&mut [0]).await;
        assert!(!matches!(ended, Ok(1..)), "the oldest was closed");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn headers_that_do_not_come_end_the_connection() {
    let listener = bind_to((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let mut socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    socket.write_all(b"GET /debug").await.unwrap();
    let (accepted, _) = listener.accept().await.unwrap();
    let started = tokio::time::Instant::now();
    serve_connection(accepted, admin_port()).await;
    assert!(started.elapsed() >= HEADER_TIMEOUT && started.elapsed() < CONNECTION_AGE);
}
