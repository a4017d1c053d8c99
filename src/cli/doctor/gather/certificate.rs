//! The certificate of the picker, from its directory.

use std::fs;
use std::path::Path;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::cli::doctor::facts::Certificate;

/// Reads the pair of a directory.
///
/// # Errors
/// When a file cannot be read, or is none of a certificate or a key.
pub(super) fn read(directory: &Path) -> Result<Certificate, String> {
    let file = |name: &str| {
        let path = directory.join(name);
        fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let named = |name: &str, why: &dyn std::fmt::Display| {
        format!("{}: {why}", directory.join(name).display())
    };
    let chain = CertificateDer::pem_slice_iter(&file("tls.crt")?).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| named("tls.crt", &error))?;
    let first = chain.first().ok_or_else(|| named("tls.crt", &"holds no certificate"))?;
    let (_, parsed) = X509Certificate::from_der(first).map_err(|error| named("tls.crt", &error))?;
    let validity = parsed.validity();
    let valid = (validity.not_before.timestamp(), validity.not_after.timestamp());
    let key = PrivateKeyDer::from_pem_slice(&file("tls.key")?);
    let key = key.map_err(|error| named("tls.key", &error))?;
    let unusable = CertifiedKey::from_der(chain.clone(), key, &ring::default_provider());
    let unusable = unusable.err().map(|error| error.to_string());
    Ok(Certificate { path: directory.display().to_string(), valid, unusable })
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn pair(directory: &Path) -> KeyPair {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["lodesman".to_owned()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        let certificate = params.self_signed(&key).unwrap();
        fs::write(directory.join("tls.crt"), certificate.pem()).unwrap();
        fs::write(directory.join("tls.key"), key.serialize_pem()).unwrap();
        key
    }

    #[test]
    fn a_pair_tells_its_time_and_whether_it_fits() {
        let folder = tempfile::tempdir().unwrap();
        let why = read(folder.path()).unwrap_err();
        assert!(why.contains("tls.crt: No such file"), "{why}");
        pair(folder.path());
        let read_pair = || read(folder.path()).unwrap();
        assert_eq!(
            (read_pair().valid, read_pair().unusable),
            ((1_577_836_800, 1_609_459_200), None)
        );
        let other = KeyPair::generate().unwrap();
        fs::write(folder.path().join("tls.key"), other.serialize_pem()).unwrap();
        assert!(read_pair().unusable.is_some(), "the key is another's");
        fs::write(folder.path().join("tls.crt"), "nothing").unwrap();
        let why = read(folder.path()).unwrap_err();
        assert!(why.ends_with("tls.crt: holds no certificate"), "{why}");
    }
}
