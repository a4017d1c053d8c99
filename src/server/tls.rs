//! The certificate of the `ext_proc` port and that of the metrics port: self-signed or from a directory, what TLS may be
//! spoken, and whose certificates a client may have.
//!
//! Gateways do not verify the picker's certificate, so a self-signed one is enough for privacy;
//! with a directory (a mounted Secret) the pair is read again when its content changes, without a
//! restart.

mod clients;
mod options;
#[cfg(test)]
mod tests;

pub use options::{CipherSuites, MinVersion};

use std::error::Error;
use std::fs;
use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use prometheus::IntCounterVec;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tracing::{error, info};

use self::clients::Clients;

/// File names of a `kubernetes.io/tls` Secret.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// What is spoken over TLS; a client without ALPN is accepted all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Alpn {
    /// HTTP/2, for gRPC: the default.
    #[default]
    Http2,
    /// HTTP/1.1.
    Http1,
}

impl Alpn {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Http2 => b"h2",
            Self::Http1 => b"http/1.1",
        }
    }
}

/// How often the files are compared: well within the 10 s that a change may take to be seen.
const POLL: Duration = Duration::from_secs(5);

/// What may be spoken; the default leaves it to rustls.
#[derive(Debug, Clone, Default)]
pub struct TlsSettings {
    /// Directory with `tls.crt` and `tls.key`; without it the certificate is self-signed.
    pub directory: Option<PathBuf>,
    /// A file of authorities in PEM, one of which a client's certificate must be of; without it clients need none.
    pub clients: Option<PathBuf>,
    /// What is spoken.
    pub alpn: Alpn,
    /// Further DNS names or IP addresses of a self-signed certificate.
    pub names: Vec<String>,
    /// The oldest version to accept.
    pub min_version: MinVersion,
    /// The cipher suites to accept.
    pub cipher_suites: CipherSuites,
}

/// The TLS side of a listener.
#[derive(Debug)]
pub struct Tls {
    config: Arc<ServerConfig>,
    files: Option<Files>,
    clients: Option<Clients>,
}

impl Tls {
    /// Makes or reads the certificate.
    ///
    /// # Errors
    /// When the pair or the authorities of clients cannot be read or used, a name is no DNS name, or the cipher suites
    /// leave no version to speak.
    pub fn new(settings: &TlsSettings) -> Result<Self, TlsError> {
        let provider = Arc::new(settings.cipher_suites.restrict(ring::default_provider()));
        let (certificate, content) = match &settings.directory {
            None => (self_signed(&settings.names, &provider)?, None),
            Some(directory) => {
                let content = Pair::read(directory)?;
                (content.certificate(&provider)?, Some((directory.clone(), content)))
            }
        };
        let current = Arc::new(Current(ArcSwap::from_pointee(certificate)));
        let clients = settings.clients.as_deref();
        let clients = clients.map(|path| Clients::new(path, &provider)).transpose()?;
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(settings.min_version.versions())
            .map_err(|error| TlsError::Versions(error.into()))?;
        let config = match &clients {
            Some(clients) => config.with_client_cert_verifier(clients.verifier()),
            None => config.with_no_client_auth(),
        };
        let mut config = config.with_cert_resolver(Arc::<Current>::clone(&current));
        config.alpn_protocols = vec![settings.alpn.name().to_vec()];
        let files = content.map(|(directory, content)| Files {
            directory,
            content: Some(content),
            provider,
            current,
        });
        Ok(Self { config: Arc::new(config), files, clients })
    }

    /// What a listener needs.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// Follows the files for ever; with a self-signed certificate there is nothing to follow, but
    /// it does not end either.
    ///
    /// `reloads` has the one label `result`: `success` or `error`, counted once per change.
    pub async fn follow(self, reloads: IntCounterVec) {
        let Self { files, clients, .. } = self;
        let pair = follow_pair(files, &reloads);
        let authorities = follow_clients(clients, &reloads);
        tokio::join!(pair, authorities);
    }
}

async fn follow_pair(files: Option<Files>, reloads: &IntCounterVec) {
    let Some(mut files) = files else { return pending().await };
    loop {
        tokio::time::sleep(POLL).await;
        let directory = files.directory.clone();
        let read = tokio::task::spawn_blocking(move || Pair::read(&directory)).await;
        let Ok(read) = read else { continue };
        if let Some(updated) = files.update(read) {
            report(&updated, &files.directory, reloads);
        }
    }
}

async fn follow_clients(clients: Option<Clients>, reloads: &IntCounterVec) {
    let Some(mut clients) = clients else { return pending().await };
    loop {
        tokio::time::sleep(POLL).await;
        let path = clients.path.clone();
        let read = tokio::task::spawn_blocking(move || clients::read(&path)).await;
        let Ok(read) = read else { continue };
        if let Some(updated) = clients.update(read) {
            report(&updated, &clients.path, reloads);
        }
    }
}

/// Counts and logs what became of a change.
fn report(updated: &Result<(), TlsError>, path: &Path, reloads: &IntCounterVec) {
    let path = path.display();
    match updated {
        Ok(()) => {
            reloads.with_label_values(&["success"]).inc();
            info!(%path, "certificate loaded again");
        }
        Err(error) => {
            reloads.with_label_values(&["error"]).inc();
            error!(%path, error = error as &dyn Error,
                "new certificate is unusable, the old one stays in use: replace it");
        }
    }
}

/// Why there is no usable certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is missing or unreadable.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file is not PEM, or holds nothing of use.
    #[error("no {0} in PEM found")]
    Pem(&'static str, #[source] pem::Error),
    /// The pair does not match, or the key is of no known kind.
    #[error("certificate and key cannot be used together")]
    Pair(#[source] Box<rustls::Error>),
    /// The authorities of clients cannot be used.
    #[error("client authorities cannot be used: {0}")]
    Clients(String),
    /// A name cannot stand in a certificate.
    #[error("cannot make a certificate")]
    Generate(#[from] rcgen::Error),
    /// The cipher suites fit none of the versions.
    #[error("minimum version and cipher suites leave nothing to speak")]
    Versions(#[source] Box<rustls::Error>),
}

/// The certificate in use, exchanged while connections come in.
#[derive(Debug)]
struct Current(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

/// A directory that is followed.
#[derive(Debug)]
struct Files {
    directory: PathBuf,
    /// What was read last, good or bad; `None` when it could not be read.
    content: Option<Pair>,
    provider: Arc<CryptoProvider>,
    current: Arc<Current>,
}

impl Files {
    /// Takes what was read now; `None` when it is what was read before.
    fn update(&mut self, read: Result<Pair, TlsError>) -> Option<Result<(), TlsError>> {
        let pair = match read {
            Ok(pair) if self.content.as_ref() == Some(&pair) => return None,
            Err(_) if self.content.is_none() => return None,
            Ok(pair) => pair,
            Err(error) => {
                self.content = None;
                return Some(Err(error));
            }
        };
        let certificate = pair.certificate(&self.provider);
        self.content = Some(pair);
        Some(certificate.map(|certificate| self.current.0.store(Arc::new(certificate))))
    }
}

/// A certificate chain and its key, in PEM.
#[derive(PartialEq, Eq)]
struct Pair {
    chain: Vec<u8>,
    key: Vec<u8>,
}

impl Pair {
    fn read(directory: &Path) -> Result<Self, TlsError> {
        let read = |name| {
            let path = directory.join(name);
            fs::read(&path).map_err(|source| TlsError::Read { path, source })
        };
        Ok(Self { chain: read(CERTIFICATE)?, key: read(KEY)? })
    }

    fn certificate(&self, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
        let chain = CertificateDer::pem_slice_iter(&self.chain)
            .collect::<Result<Vec<_>, _>>()
            .and_then(
                |chain| if chain.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(chain) },
            )
            .map_err(|error| TlsError::Pem("certificate", error))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|error| TlsError::Pem("private key", error))?;
        CertifiedKey::from_der(chain, key, provider).map_err(|error| TlsError::Pair(error.into()))
    }
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pair({} + {} bytes)", self.chain.len(), self.key.len())
    }
}

/// A certificate for this host by its usual names, of ECDSA P-256, which takes well under 5 ms to
/// make.
fn self_signed(names: &[String], provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let mut all: Vec<String> =
        ["localhost", "127.0.0.1", "::1"].into_iter().map(String::from).collect();
    all.extend(host_name());
    all.extend(names.iter().cloned());
    all.sort_unstable();
    all.dedup();
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let certificate = CertificateParams::new(all)?.self_signed(&key)?;
    CertifiedKey::from_der(vec![certificate.der().clone()], key.into(), provider)
        .map_err(|error| TlsError::Pair(error.into()))
}

/// The name of this host, in a cluster that of the pod; `None` where the system does not tell.
fn host_name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    name.or_else(|| std::env::var("HOSTNAME").ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
}
