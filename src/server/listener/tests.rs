use std::fs;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::service::TowerToHyperService;
use prometheus::IntCounterVec;
use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_stream::StreamExt;
use tonic::service::Routes;

use super::super::health::Health;
use super::super::testing::{RawClient, counter, plain_port, port};
use super::super::tls::{Tls, TlsSettings};
use super::super::{Limits, serve_grpc};
use super::*;
use crate::pool::readiness::Readiness;

const ISTIO: &str = "outbound|9002||epp.default.svc.cluster.local";

/// The authority by its index in the dynamic table, as Envoy sends it from the second stream on.
const SAME_AGAIN: &[u8] = &[0xbe];

const ORDINARY: &[u8] = b"\x01\x03epp";

/// What a call gives that was served.
const OK: Option<u32> = Some(0);

const DEADLINE: Duration = Duration::from_secs(20);

/// As Envoy writes it first: literal with incremental indexing, name index 1, Huffman.
fn istio_authority() -> Vec<u8> {
    let mut coded = Vec::new();
    httlib_huffman::encode(ISTIO.as_bytes(), &mut coded).unwrap();
    [&[0x41, 0x80 | u8::try_from(coded.len()).unwrap()], coded.as_slice()].concat()
}

/// A certificate for `localhost`, what a server does with it, and its root for a client.
fn tls() -> (Arc<ServerConfig>, CertificateDer<'static>) {
    let directory = TempDir::new().unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned(), "a-b.example".to_owned()]);
    let certificate = params.unwrap().self_signed(&key).unwrap();
    fs::write(directory.path().join("tls.crt"), certificate.pem()).unwrap();
    fs::write(directory.path().join("tls.key"), key.serialize_pem()).unwrap();
    let path = Some(directory.path().to_owned());
    let tls = Tls::new(&TlsSettings { directory: path, ..TlsSettings::default() }).unwrap();
    (tls.config(), certificate.der().clone())
}

fn client_config(root: CertificateDer<'static>, alpn: &[&[u8]]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(root).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    Arc::new(config)
}

async fn connect_tls(address: SocketAddr, config: Arc<ClientConfig>) -> TlsStream<TcpStream> {
    let socket = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(config).connect(name, socket).await.unwrap()
}

async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.unwrap()
}

/// Serves health on a port of the given security while `script` runs.
async fn with_port<F: Future<Output = ()>>(
    security: Security,
    script: impl FnOnce(SocketAddr, IntCounterVec) -> F,
) {
    let refused = counter("reason");
    let (address, incoming) = port(security, refused.clone());
    let health = Health::new(watch::channel(Readiness::default()).1, &[]).await;
    let routes = TowerToHyperService::new(Routes::new(health.service()));
    tokio::select! {
        () = serve_grpc(incoming, routes, Limits::default(), pending()) => panic!("server ended"),
        ended = timeout(DEADLINE, Box::pin(script(address, refused))) => ended.expect("done in time"),
    }
}

/// The number of refusals for `reason`, once there is one.
async fn refusals(refused: &IntCounterVec, reason: &str) -> u64 {
    loop {
        match refused.with_label_values(&[reason]).get() {
            0 => tokio::task::yield_now().await,
            n => return n,
        }
    }
}

#[tokio::test]
async fn the_authority_of_istio_is_served_in_plaintext_and_in_tls() {
    let (server, root) = tls();
    with_port(Security::Both(server), |address, _| async move {
        let mut plain = RawClient::new(connect(address).await).await;
        assert_eq!(plain.call(&istio_authority()).await, OK);
        assert_eq!(plain.call(SAME_AGAIN).await, OK);
        assert_eq!(plain.call(ORDINARY).await, OK);

        let stream = connect_tls(address, client_config(root, &[b"h2"])).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let mut encrypted = RawClient::new(stream).await;
        assert_eq!(encrypted.call(&istio_authority()).await, OK);
        assert_eq!(encrypted.call(SAME_AGAIN).await, OK);
    })
    .await;
}

// FR-123
#[tokio::test]
async fn a_client_without_alpn_is_served() {
    let (server, root) = tls();
    with_port(Security::TlsOnly(server), |address, _| async move {
        let stream = connect_tls(address, client_config(root, &[])).await;
        assert_eq!(RawClient::new(stream).await.call(ORDINARY).await, OK);
    })
    .await;
}

// FR-123
#[tokio::test]
async fn http2_is_agreed_on_with_who_offers_it_among_others() {
    let (server, root) = tls();
    with_port(Security::TlsOnly(server), |address, _| async move {
        let offers: [&[&[u8]]; 3] = [&[b"h2"], &[b"h2", b"http/1.1"], &[b"http/1.1", b"h2"]];
        for alpn in offers {
            let stream = connect_tls(address, client_config(root.clone(), alpn)).await;
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
            assert_eq!(RawClient::new(stream).await.call(ORDINARY).await, OK);
        }
    })
    .await;
}

#[tokio::test]
async fn a_port_of_one_kind_refuses_the_other() {
    let (server, root) = tls();
    with_port(Security::TlsOnly(server), |address, refused| async move {
        assert_eq!(RawClient::new(connect(address).await).await.call(ORDINARY).await, None);
        assert_eq!(refusals(&refused, "unexpected_plaintext").await, 1);
    })
    .await;
    with_port(Security::PlainOnly, |address, refused| async move {
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(client_config(root, &[]));
        assert!(connector.connect(name, connect(address).await).await.is_err());
        assert_eq!(refusals(&refused, "unexpected_tls").await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_server_name_that_is_a_cluster_name_is_counted_as_such() {
    let (server, root) = tls();
    let name = ServerName::try_from("a-b.example").unwrap();
    let mut client = ClientConnection::new(client_config(root, &[]), name).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    let at = hello.windows(3).position(|part| part == b"a-b").unwrap();
    hello[at + 1] = b'|';
    with_port(Security::Both(server), |address, refused| async move {
        connect(address).await.write_all(&hello).await.unwrap();
        assert_eq!(refusals(&refused, "server_name").await, 1);
    })
    .await;
}

#[tokio::test]
async fn what_is_not_http2_is_refused_and_a_port_probe_is_no_fault() {
    let (server, _) = tls();
    with_port(Security::Both(server), |address, refused| async move {
        let mut socket = connect(address).await;
        socket.write_all(b"GET / HTTP/1.1\r\nhost: epp\r\n\r\n").await.unwrap();
        assert_eq!(refusals(&refused, "not_http2").await, 1);
        drop(connect(address).await);
        assert_eq!(refusals(&refused, "closed").await, 1);
        connect(address).await.write_all(b"\x16\x03\x01\xff\xff").await.unwrap();
        assert_eq!(refusals(&refused, "tls").await, 1);
    })
    .await;
}

#[tokio::test]
async fn silent_peers_do_not_keep_others_waiting() {
    let (server, root) = tls();
    with_port(Security::Both(server), |address, refused| async move {
        let mut silent = Vec::new();
        for begin in [&b""[..], b"\x16\x03\x01", b"PRI * HTTP"].repeat(50) {
            let mut socket = connect(address).await;
            socket.write_all(begin).await.unwrap();
            silent.push(socket);
        }
        assert_eq!(RawClient::new(connect(address).await).await.call(ORDINARY).await, OK);
        let stream = connect_tls(address, client_config(root, &[b"h2"])).await;
        assert_eq!(RawClient::new(stream).await.call(ORDINARY).await, OK);
        assert_eq!(refused.with_label_values(&["timeout"]).get(), 0, "nobody was waited for");
    })
    .await;
}

#[tokio::test]
async fn more_silent_peers_than_handshakes_end_the_oldest() {
    with_port(Security::PlainOnly, |address, refused| async move {
        let mut silent = Vec::new();
        for _ in 0..=HANDSHAKES {
            silent.push(connect(address).await);
        }
        assert_eq!(RawClient::new(connect(address).await).await.call(ORDINARY).await, OK);
        assert!(refusals(&refused, "handshakes").await >= 1);
        assert_eq!(silent[0].read(&mut [0]).await.unwrap_or(0), 0, "the oldest was closed");
    })
    .await;
}

#[tokio::test]
async fn a_connection_without_a_place_is_closed_until_another_ends() {
    let refused = counter("reason");
    let (address, mut incoming) = port(Security::PlainOnly, refused.clone());
    incoming.places = Arc::new(Semaphore::new(1));
    let script = async {
        let _first = RawClient::new(connect(address).await).await;
        let placed = incoming.next().await.unwrap().unwrap();
        let mut second = connect(address).await;
        let mut byte = [0];
        tokio::select! {
            _ = incoming.next() => panic!("a connection without a place"),
            read = second.read(&mut byte) => assert_eq!(read.unwrap_or(0), 0),
        }
        assert_eq!(refused.with_label_values(&["connections"]).get(), 1);
        drop(placed);
        let _third = RawClient::new(connect(address).await).await;
        incoming.next().await.unwrap().unwrap();
    };
    timeout(DEADLINE, script).await.expect("done in time");
}

#[tokio::test(start_paused = true)]
async fn a_handshake_ends_after_its_time() {
    let refused = counter("reason");
    let (address, mut incoming) = port(Security::PlainOnly, refused.clone());
    let mut socket = connect(address).await;
    let mut byte = [0];
    let started = tokio::time::Instant::now();
    tokio::select! {
        _ = incoming.next() => panic!("a connection out of nothing"),
        read = timeout(DEADLINE, socket.read(&mut byte)) => {
            assert_eq!(read.expect("closed in time").unwrap_or(0), 0);
        }
    }
    assert!(started.elapsed() >= HANDSHAKE_TIMEOUT);
}

#[tokio::test]
async fn both_address_families_reach_one_port() {
    let tcp = bind(0).unwrap();
    let address = tcp.local_addr().unwrap();
    assert_ne!(address.port(), 0);
    connect((Ipv4Addr::LOCALHOST, address.port()).into()).await;
    if address.is_ipv6() {
        connect((Ipv6Addr::LOCALHOST, address.port()).into()).await;
    }
    assert_eq!(bind(address.port()).unwrap_err().kind(), io::ErrorKind::AddrInUse);
}

#[test]
fn only_a_lack_of_our_own_resources_pauses_the_accept() {
    let too_many_files = io::Error::from_raw_os_error(24);
    assert_eq!(pause_after(&too_many_files), Some(ACCEPT_PAUSE));
    assert_eq!(pause_after(&io::ErrorKind::ConnectionAborted.into()), None);
}

#[tokio::test]
async fn a_shutdown_says_goaway_and_waits_for_open_streams() {
    const RST_STREAM: u8 = 3;
    const PING: u8 = 6;
    const GOAWAY: u8 = 7;
    const ACK: u8 = 1;
    let (address, incoming) = plain_port();
    let health = Health::new(watch::channel(Readiness::default()).1, &[]).await;
    let (stop, stopped) = oneshot::channel::<()>();
    let routes = TowerToHyperService::new(Routes::new(health.service()));
    let stopped = async { stopped.await.unwrap_or_default() };
    let mut server = std::pin::pin!(serve_grpc(incoming, routes, Limits::default(), stopped));
    let script = async {
        let mut client = RawClient::new(connect(address).await).await;
        let stream = client.begin("Watch", ORDINARY).await;
        while client.frame().await.unwrap().kind != 0 {}
        stop.send(()).unwrap();
        while client.frame().await.unwrap().kind != GOAWAY {}
        let mut ping = client.frame().await.unwrap();
        while (ping.kind, ping.flags) != (PING, 0) {
            ping = client.frame().await.unwrap();
        }
        client.send(PING, ACK, 0, &ping.payload).await;
        (client, stream)
    };
    let (mut client, stream) = tokio::select! {
        () = &mut server => panic!("the server did not wait for the open stream"),
        ended = timeout(DEADLINE, script) => ended.expect("GOAWAY in time"),
    };
    assert!(TcpStream::connect(address).await.is_err(), "the port is closed");
    client.send(RST_STREAM, 0, stream, &8_u32.to_be_bytes()).await;
    timeout(DEADLINE, server).await.expect("ends with its last stream");
}
