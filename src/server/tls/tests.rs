use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use prometheus::Opts;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ProtocolVersion, RootCertStore, ServerConnection};
use tempfile::TempDir;

use super::*;

/// Writes a fresh pair and returns its certificate.
fn write_pair(directory: &Path) -> CertificateDer<'static> {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    fs::write(directory.join(CERTIFICATE), certificate.pem()).unwrap();
    fs::write(directory.join(KEY), key.serialize_pem()).unwrap();
    certificate.der().clone()
}

fn in_directory(directory: &TempDir) -> Tls {
    let directory = Some(directory.path().to_owned());
    Tls::new(&TlsSettings { directory, ..TlsSettings::default() }).unwrap()
}

fn client(root: CertificateDer<'static>, versions: MinVersion) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(root).unwrap();
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions.versions())
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// A handshake in memory; the version, or the first error of either side.
fn handshake(
    server: Arc<ServerConfig>,
    client: ClientConfig,
    name: &'static str,
) -> anyhow::Result<ProtocolVersion> {
    let mut client = ClientConnection::new(Arc::new(client), ServerName::try_from(name)?)?;
    let mut server = ServerConnection::new(server)?;
    while client.is_handshaking() || server.is_handshaking() {
        let mut wire = Vec::new();
        client.write_tls(&mut wire)?;
        server.read_tls(&mut wire.as_slice())?;
        server.process_new_packets()?;
        wire.clear();
        server.write_tls(&mut wire)?;
        client.read_tls(&mut wire.as_slice())?;
        client.process_new_packets()?;
    }
    client.protocol_version().context("no version agreed")
}

fn reloads() -> IntCounterVec {
    IntCounterVec::new(Opts::new("reloads", "help"), &["result"]).unwrap()
}

async fn eventually(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..60 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("not within a minute: {what}");
}

#[test]
fn a_self_signed_certificate_names_the_host_and_what_was_asked_for() {
    let provider = ring::default_provider();
    let certificate = self_signed(&["epp.default.svc".to_owned()], &provider).unwrap();
    let root = certificate.cert[0].clone();
    let current = Arc::new(Current(ArcSwap::from_pointee(certificate)));
    let server = Arc::new(
        ServerConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(current),
    );
    for name in ["localhost", "127.0.0.1", "::1", "epp.default.svc"] {
        let client = client(root.clone(), MinVersion::Tls12);
        handshake(Arc::clone(&server), client, name).unwrap();
    }
    assert!(handshake(server, client(root, MinVersion::Tls12), "elsewhere").is_err());
}

#[test]
fn the_minimum_version_is_kept() {
    let directory = TempDir::new().unwrap();
    let root = write_pair(directory.path());
    let min_version = MinVersion::Tls13;
    let settings = TlsSettings {
        directory: Some(directory.path().to_owned()),
        min_version,
        ..TlsSettings::default()
    };
    let server = Tls::new(&settings).unwrap().config();
    let old = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let refused = handshake(Arc::clone(&server), old, "localhost").unwrap_err();
    assert!(refused.to_string().contains("Tls12NotOffered"), "{refused}");
    let version = handshake(server, client(root, MinVersion::Tls12), "localhost").unwrap();
    assert_eq!(version, ProtocolVersion::TLSv1_3);
}

#[test]
fn a_missing_file_and_a_wrong_key_stop_the_start() {
    let directory = TempDir::new().unwrap();
    let settings =
        TlsSettings { directory: Some(directory.path().to_owned()), ..TlsSettings::default() };
    let error = Tls::new(&settings).unwrap_err().to_string();
    assert!(error.starts_with("cannot read") && error.ends_with("tls.crt"), "{error}");
    write_pair(directory.path());
    fs::write(directory.path().join(KEY), KeyPair::generate().unwrap().serialize_pem()).unwrap();
    assert!(matches!(Tls::new(&settings), Err(TlsError::Pair(_))));
    fs::write(directory.path().join(CERTIFICATE), "").unwrap();
    assert!(matches!(Tls::new(&settings), Err(TlsError::Pem("certificate", _))));
}

#[tokio::test(start_paused = true)]
async fn a_new_pair_is_used_and_a_bad_one_keeps_the_old() {
    let directory = TempDir::new().unwrap();
    let first = write_pair(directory.path());
    let tls = in_directory(&directory);
    let server = tls.config();
    let accepts = |root: &CertificateDer<'static>| {
        let client = client(root.clone(), MinVersion::Tls12);
        handshake(Arc::clone(&server), client, "localhost").is_ok()
    };
    assert!(accepts(&first));
    let reloads = reloads();
    let count = |result| reloads.with_label_values(&[result]).get();
    let script = async {
        let second = write_pair(directory.path());
        eventually("second pair in use", || accepts(&second)).await;
        assert!(!accepts(&first));
        assert_eq!((count("success"), count("error")), (1, 0));

        fs::write(directory.path().join(KEY), "nonsense").unwrap();
        eventually("bad pair counted", || count("error") == 1).await;
        tokio::time::sleep(POLL * 3).await;
        assert_eq!(count("error"), 1, "a bad pair counts once");
        assert!(accepts(&second));

        fs::remove_file(directory.path().join(CERTIFICATE)).unwrap();
        eventually("missing file counted", || count("error") == 2).await;
        assert!(accepts(&second));

        let third = write_pair(directory.path());
        eventually("third pair in use", || accepts(&third)).await;
        assert_eq!((count("success"), count("error")), (2, 2));
    };
    tokio::select! {
        () = tls.follow(reloads.clone()) => panic!("stopped following"),
        () = script => {}
    }
}

/// What a client shows.
type Shown = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Authorities with a file of them, and a certificate of each for a client.
fn authority(file: &Path) -> Shown {
    authority_until(file, 4096)
}

/// The same, of a client whose certificate is good until that year.
fn authority_until(file: &Path, year: i32) -> Shown {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap();
    fs::write(file, authority.pem()).unwrap();
    let issuer = rcgen::Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["prometheus".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(year, 1, 1);
    let certificate = params.signed_by(&key, &issuer).unwrap();
    (vec![certificate.der().clone()], key.into())
}

#[tokio::test(start_paused = true)]
async fn clients_need_a_certificate_of_an_authority_which_may_change() {
    let directory = TempDir::new().unwrap();
    let root = write_pair(directory.path());
    let file = directory.path().join("clients.pem");
    let known = authority(&file);
    let settings = TlsSettings {
        directory: Some(directory.path().to_owned()),
        clients: Some(file.clone()),
        alpn: Alpn::Http1,
        ..TlsSettings::default()
    };
    let tls = Tls::new(&settings).unwrap();
    let server = tls.config();
    assert_eq!(server.alpn_protocols, [b"http/1.1".to_vec()]);
    let accepts = |of: Option<&Shown>| {
        let mut roots = RootCertStore::empty();
        roots.add(root.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(MinVersion::Tls12.versions())
            .unwrap()
            .with_root_certificates(roots);
        let config = match of {
            Some((chain, key)) => {
                config.with_client_auth_cert(chain.clone(), key.clone_key()).unwrap()
            }
            None => config.with_no_client_auth(),
        };
        handshake(Arc::clone(&server), config, "localhost").is_ok()
    };
    let stranger = authority(&directory.path().join("elsewhere.pem"));
    assert!(accepts(Some(&known)) && !accepts(Some(&stranger)) && !accepts(None));
    let reloads = reloads();
    let script = async {
        let another = authority(&file);
        eventually("new authority in use", || accepts(Some(&another))).await;
        assert!(!accepts(Some(&known)));
        let expired = authority_until(&file, 2020);
        eventually("its authority in use", || !accepts(Some(&another))).await;
        assert!(!accepts(Some(&expired)));
        let another = authority(&file);
        eventually("the last authority in use", || accepts(Some(&another))).await;
        fs::write(&file, "nonsense").unwrap();
        let failed = || reloads.with_label_values(&["error"]).get() == 1;
        eventually("bad file counted", failed).await;
        assert!(accepts(Some(&another)) && !accepts(None));
    };
    tokio::select! {
        () = tls.follow(reloads.clone()) => panic!("stopped following"),
        () = script => {}
    }
}

#[test]
fn a_file_without_authorities_stops_the_start() {
    let directory = TempDir::new().unwrap();
    write_pair(directory.path());
    let file = directory.path().join("clients.pem");
    fs::write(&file, "nothing").unwrap();
    let settings = TlsSettings {
        directory: Some(directory.path().to_owned()),
        clients: Some(file),
        ..TlsSettings::default()
    };
    assert!(matches!(Tls::new(&settings), Err(TlsError::Pem("client authority", _))));
}
