//! Where pages are, how they are asked for, and what recognizes their engine.

use std::num::NonZeroU16;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

use super::*;

const SGLANG: &str = "sglang:num_queue_reqs{model_name=\"llama\"} 7\n";

/// A scraper of these sources that reads every 10 ms.
fn bench(addresses: &[SocketAddr], sources: &Sources) -> Bench {
    Bench::with(addresses, 1024, |events, counters| {
        let interval = Some(Duration::from_millis(10));
        Scraper::new(sources, interval, events, counters).unwrap().unwrap()
    })
}

/// What the pool knows once `known` is true of it.
async fn eventually(bench: &mut Bench, known: impl Fn(&Snapshot) -> bool) -> Snapshot {
    let search = async {
        loop {
            let event = bench.events.recv().await.expect("the scraper runs");
            #[expect(clippy::disallowed_methods, reason = "real time")]
            bench.state.apply(event, std::time::Instant::now());
            let snapshot = bench.state.snapshot();
            if known(&snapshot) {
                return snapshot;
            }
        }
    };
    timeout(DEADLINE, search).await.expect("known in time")
}

#[tokio::test]
async fn an_engine_that_changes_behind_an_address_is_recognized_again() {
    let answer = |asked| std::future::ready(if asked < 3 { GOOD } else { SGLANG }.into_response());
    let server = Server::new(answer).await;
    let mut bench = bench(&[server.address], &defaults());
    assert_eq!(bench.next().await.1.waiting, Some(3.0));
    while bench.next().await.1.waiting != Some(7.0) {}
    assert_eq!(bench.counters.errors().map(|(_, count)| count).sum::<u64>(), 1, "one lost page");
}

#[tokio::test]
async fn a_page_at_another_port_and_path_is_read_there() {
    let server = Server::constant(|| GOOD.into_response()).await;
    let port = NonZeroU16::new(server.address.port());
    let page = Page { port, ..Page::default() };
    let elsewhere: SocketAddr = ([127, 0, 0, 1], 9).into();
    let mut bench = bench(&[elsewhere], &Sources { metrics: Some(page), ..defaults() });
    assert_eq!(bench.next().await.1.waiting, Some(3.0));
}

#[tokio::test]
async fn no_page_is_read_where_none_is_to_be() {
    let (events, _receiver) = mpsc::channel(1);
    let none = Sources { metrics: None, ..defaults() };
    assert!(Scraper::new(&none, None, events, Arc::default()).unwrap().is_none());
}

#[tokio::test]
async fn the_list_of_models_stands_over_the_names_of_series() {
    let page = "vllm:num_requests_waiting{model_name=\"llama\"} 0\n";
    let list =
        "{\"data\":[{\"id\":\"llama\"},{\"id\":\"alias\"},{\"id\":\"sql\",\"parent\":\"llama\"}]}";
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new()
        .route("/metrics", get(move || std::future::ready(page)))
        .route("/v1/models", get(move || std::future::ready(list)));
    let mut server = JoinSet::new();
    server.spawn(async move { axum::serve(listener, router).await });
    let mut bench = bench(&[address], &defaults());
    let slot = bench.endpoint(address).id.slot;
    let known = eventually(&mut bench, |pool| pool.serves(slot, "alias") == Some(true)).await;
    assert_eq!(known.serves(slot, "sql"), Some(true));
    assert_eq!(known.serves(slot, "qwen"), Some(false));
    assert_eq!((known.adapts("sql"), known.adapts("llama")), (true, false));
}

#[tokio::test]
async fn without_a_list_the_names_of_series_are_the_models() {
    let page = || "vllm:num_requests_waiting{model_name=\"llama\"} 0\n".into_response();
    let server = Server::constant(page).await;
    let mut bench = bench(&[server.address], &defaults());
    let slot = bench.endpoint(server.address).id.slot;
    let known = eventually(&mut bench, |pool| pool.serves(slot, "llama").is_some()).await;
    assert_eq!((known.serves(slot, "llama"), known.serves(slot, "sql")), (Some(true), None));
    assert_eq!(bench.counters.lists(), 0, "a server without a list has not failed");
}

/// Reads a counter.
type Count = fn(&Counters) -> u64;

/// Waits for a list that could not be read, or is none.
async fn counted(counters: &Counters, count: Count) {
    while count(counters) == 0 {
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_list_that_is_none_or_has_no_end_is_counted_and_leaves_the_metrics_alone() {
    let none = || "{\"data\":[{\"id\":7}]}".into_response();
    for (answer, count) in
        [(none as fn() -> Response, Counters::no_lists as Count), (endless, Counters::lists)]
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .route("/metrics", get(|| std::future::ready(GOOD)))
            .route("/v1/models", get(move || std::future::ready(answer())));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, router).await });
        let mut bench = bench(&[address], &defaults());
        timeout(DEADLINE, counted(&bench.counters, count)).await.expect("counted in time");
        assert_eq!(bench.next().await.1.waiting, Some(3.0));
        assert_eq!(bench.counters.errors().map(|(_, count)| count).sum::<u64>(), 0);
    }
}

#[tokio::test]
async fn the_label_of_an_endpoint_names_its_engine_and_a_new_one_counts_at_once() {
    let server = Server::constant(|| format!("{GOOD}{SGLANG}").into_response()).await;
    let mut bench = bench(&[server.address], &defaults());
    assert_eq!(bench.next().await.1.waiting, Some(3.0), "of both the first of the table");
    for (engine, waiting) in [("sglang", 7.0), ("vllm", 3.0), ("sglang", 7.0)] {
        bench.label("llm-d.ai/engine-type", engine);
        while bench.next().await.1.waiting != Some(waiting) {}
    }
}

/// A server that answers with [`GOOD`] by TLS, and the authority that its certificate is from.
async fn tls_server() -> (SocketAddr, String, JoinSet<()>) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut server = JoinSet::new();
    server.spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = [0; 4096];
            let head = format!("content-length: {}\r\nconnection: close", GOOD.len());
            let answer = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{GOOD}");
            if stream.read(&mut request).await.is_ok() {
                stream.write_all(answer.as_bytes()).await.unwrap_or_default();
                stream.shutdown().await.unwrap_or_default();
            }
        }
    });
    (address, authority.pem(), server)
}

fn https(skip: Option<bool>, ca: Option<&std::path::Path>) -> Sources {
    let page = Page {
        scheme: Scheme::Https,
        insecure_skip_verify: skip,
        ca_cert_path: ca.map(Into::into),
        ..Page::default()
    };
    Sources { metrics: Some(page), ..defaults() }
}

// FR-088
#[tokio::test]
async fn a_certificate_must_be_of_the_given_authority_and_without_one_any_will_do() {
    let (address, authority, _server) = tls_server().await;
    let folder = tempfile::tempdir().unwrap();
    let (ours, other) = (folder.path().join("ours.pem"), folder.path().join("other.pem"));
    std::fs::write(&ours, authority).unwrap();
    let stranger = CertificateParams::default();
    let stranger = stranger.self_signed(&KeyPair::generate().unwrap()).unwrap();
    std::fs::write(&other, stranger.pem()).unwrap();
    for good in [https(None, None), https(None, Some(&ours)), https(Some(true), Some(&other))] {
        assert_eq!(bench(&[address], &good).next().await.1.waiting, Some(3.0), "{good:?}");
    }
    for bad in [https(None, Some(&other)), https(Some(false), None)] {
        let bench = bench(&[address], &bad);
        bench.failures("no_answer", 1).await;
    }
}

#[test]
fn a_certificate_file_that_is_none_stops_the_start_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let (absent, empty) = (folder.path().join("absent.pem"), folder.path().join("empty.pem"));
    std::fs::write(&empty, "nothing").unwrap();
    for path in [absent, empty] {
        let (events, _receiver) = mpsc::channel(1);
        let error = Scraper::new(&https(None, Some(&path)), None, events, Arc::default());
        assert!(error.unwrap_err().to_string().contains(path.to_str().unwrap()));
    }
}
