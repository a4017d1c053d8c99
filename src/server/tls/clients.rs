//! Which clients are let in, by the authorities that their certificates are of.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

use super::TlsError;

/// What judges certificates now.
type Verifier = Arc<dyn ClientCertVerifier>;

/// A file of authorities that is followed.
#[derive(Debug)]
pub(super) struct Clients {
    pub(super) path: PathBuf,
    /// What was read last, good or bad; none when it could not be read.
    content: Option<Vec<u8>>,
    provider: Arc<CryptoProvider>,
    current: Arc<Current>,
}

/// The authorities in use, exchanged while connections come in.
#[derive(Debug)]
pub(super) struct Current(ArcSwap<Verifier>);

impl Clients {
    /// Reads the file.
    ///
    /// # Errors
    /// When there is none, or no certificate in it.
    pub(super) fn new(path: &Path, provider: &Arc<CryptoProvider>) -> Result<Self, TlsError> {
        let content = read(path)?;
        let current = Arc::new(Current(ArcSwap::from_pointee(verifier(&content, provider)?)));
        let (path, provider) = (path.to_owned(), Arc::clone(provider));
        Ok(Self { path, content: Some(content), provider, current })
    }

    /// What a listener asks.
    pub(super) fn verifier(&self) -> Arc<Current> {
        Arc::clone(&self.current)
    }

    /// Takes what was read now; none when it is what was read before.
    pub(super) fn update(
        &mut self,
        read: Result<Vec<u8>, TlsError>,
    ) -> Option<Result<(), TlsError>> {
        let content = match read {
            Ok(content) if self.content.as_ref() == Some(&content) => return None,
            Err(_) if self.content.is_none() => return None,
            Ok(content) => content,
            Err(error) => {
                self.content = None;
                return Some(Err(error));
            }
        };
        let verifier = verifier(&content, &self.provider);
        self.content = Some(content);
        Some(verifier.map(|verifier| self.current.0.store(Arc::new(verifier))))
    }
}

/// The content of the file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
}

fn verifier(content: &[u8], provider: &Arc<CryptoProvider>) -> Result<Verifier, TlsError> {
    let bad = |error| TlsError::Pem("client authority", error);
    let found = CertificateDer::pem_slice_iter(content).collect::<Result<Vec<_>, _>>();
    let mut roots = RootCertStore::empty();
    for authority in found.map_err(bad)? {
        roots.add(authority).map_err(|error| TlsError::Pair(error.into()))?;
    }
    if roots.is_empty() {
        return Err(bad(pem::Error::NoItemsFound));
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| TlsError::Clients(error.to_string()))
}

impl ClientCertVerifier for Current {
    /// None: clients have one certificate, and the authorities may change.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.0.load().verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.load().verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.load().verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.load().supported_verify_schemes()
    }
}
