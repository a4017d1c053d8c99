//! The HTTP client of one kind of page, and where that page is.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use reqwest::Url;
use reqwest::redirect::Policy;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::config::sources::{Page, Scheme};
use crate::scrape::counters::ScrapeError;

/// Reads one page of any endpoint.
#[derive(Debug)]
pub(in crate::scrape) struct Client {
    http: reqwest::Client,
    scheme: &'static str,
    path: String,
    port: Option<u16>,
}

/// Why a client cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A certificate or a key that cannot be read.
    #[error("{0}: {1}")]
    File(String, rustls::pki_types::pem::Error),
    /// Its TLS.
    #[error("TLS of the scraping client: {0}")]
    Tls(Box<rustls::Error>),
    /// Anything else of it.
    #[error("scraping client")]
    Http(#[from] reqwest::Error),
}

impl Client {
    /// A client for `page`, which is at `path` unless it says otherwise.
    ///
    /// # Errors
    /// When a file cannot be read or holds no certificate or key, or when the TLS library is not content.
    pub(in crate::scrape) fn new(page: &Page, path: &str) -> Result<Self, ClientError> {
        let scheme = match page.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        let port = page.port.map(std::num::NonZeroU16::get);
        Ok(Self { http: http(page)?, scheme, path: page.path(path).to_owned(), port })
    }

    /// Where the page of the endpoint at `address` is.
    pub(in crate::scrape) fn url(&self, mut address: SocketAddr) -> Option<Url> {
        address.set_port(self.port.unwrap_or_else(|| address.port()));
        Url::parse(&format!("{}://{address}{}", self.scheme, self.path)).ok()
    }

    /// Asks for a page; an answer is a page only with status 200, and redirects are not followed.
    pub(in crate::scrape) async fn ask(&self, url: &Url) -> Result<reqwest::Response, ScrapeError> {
        let response = self.http.get(url.clone()).send().await.map_err(ScrapeError::NoAnswer)?;
        match response.status() {
            http::StatusCode::OK => Ok(response),
            status => Err(ScrapeError::Status(status.as_u16())),
        }
    }
}

impl Client {
    /// Sends JSON, and gives whatever is answered.
    pub(in crate::scrape) async fn post(
        &self,
        url: &Url,
        json: String,
    ) -> reqwest::Result<reqwest::Response> {
        let kind = http::HeaderValue::from_static("application/json");
        let request = self.http.post(url.clone()).header(http::header::CONTENT_TYPE, kind);
        request.body(json).send().await
    }
}

/// The body of an answer, which may have so many bytes.
pub(in crate::scrape) async fn whole(
    mut response: reqwest::Response,
    longest: usize,
) -> Result<Vec<u8>, ScrapeError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(ScrapeError::Broken)? {
        if body.len() + chunk.len() > longest {
            return Err(ScrapeError::TooLong);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// A client that keeps a connection per endpoint, follows no redirect and asks no proxy.
fn http(page: &Page) -> Result<reqwest::Client, ClientError> {
    let identity = http::HeaderValue::from_static("identity");
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls(page)?)
        .default_headers([(http::header::ACCEPT_ENCODING, identity)].into_iter().collect())
        .redirect(Policy::none())
        .no_proxy()
        .http1_only()
        .referer(false)
        .tcp_nodelay(true)
        .pool_max_idle_per_host(1)
        .build()?;
    Ok(client)
}

fn tls(page: &Page) -> Result<ClientConfig, ClientError> {
    let provider = Arc::new(ring::default_provider());
    let verifier = verifier(page, &provider)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(tls_error)?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let (Some(certificate), Some(key)) = (&page.client_cert_path, &page.client_key_path) else {
        return Ok(builder.with_no_client_auth());
    };
    let chain = certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| file_error(key, error))?;
    builder.with_client_auth_cert(chain, key).map_err(tls_error)
}

/// Verifies by the given authorities, by the system's, or not at all.
fn verifier(
    page: &Page,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, ClientError> {
    if page.scheme == Scheme::Http || !page.verified() {
        return Ok(Arc::new(Unverified(Arc::clone(provider))));
    }
    let Some(path) = &page.ca_cert_path else {
        let system = rustls_platform_verifier::Verifier::new(Arc::clone(provider));
        return Ok(Arc::new(system.map_err(tls_error)?));
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(tls_error)?;
    }
    let roots = Arc::new(roots);
    let verifier =
        rustls::client::WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider));
    let bad = |error: rustls::client::VerifierBuilderError| {
        tls_error(rustls::Error::General(error.to_string()))
    };
    verifier.build().map(|verifier| verifier as _).map_err(bad)
}

/// The certificates of a file, at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let all: Vec<_> = all.map_err(|error| file_error(path, error))?;
    if all.is_empty() {
        return Err(file_error(path, rustls::pki_types::pem::Error::NoItemsFound));
    }
    Ok(all)
}

fn file_error(path: &Path, error: rustls::pki_types::pem::Error) -> ClientError {
    ClientError::File(path.display().to_string(), error)
}

fn tls_error(error: rustls::Error) -> ClientError {
    ClientError::Tls(Box::new(error))
}

/// Takes any certificate whose key the server has: pods make their own.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
