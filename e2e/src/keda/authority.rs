//! Certificates by which the parts of a cluster know each other.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use tempfile::TempDir;

/// An authority whose files go with it.
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    /// Makes one.
    ///
    /// # Errors
    /// When its folder cannot be made.
    pub(super) fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        Ok(Self { issuer, folder: tempfile::tempdir()? })
    }

    /// Its own certificate.
    pub(super) fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// Makes a certificate for `name`, a client and the server of `hosts`; the folder of `ca.crt`, `tls.crt` and `tls.key`.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(super) fn issue(&self, name: &str, hosts: &[&str]) -> Result<PathBuf> {
        let hosts: Vec<_> = hosts.iter().map(|&host| host.to_owned()).collect();
        let mut params = CertificateParams::new(hosts)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let folder = self.folder.path().join(name);
        fs::create_dir(&folder)?;
        let write = |file: &str, text: String| fs::write(folder.join(file), text);
        write("ca.crt", self.certificate())?;
        write("tls.crt", certificate.pem())?;
        write("tls.key", key.serialize_pem())?;
        Ok(folder)
    }
}
