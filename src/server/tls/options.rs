//! `--tls-min-version` and `--tls-cipher-suites`, spelled as in Kubernetes components.

use std::str::FromStr;

use rustls::crypto::{CryptoProvider, ring};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion, version};

/// The oldest TLS version to accept; rustls speaks 1.2 and 1.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MinVersion {
    /// TLS 1.2, the default; `VersionTLS10` and `VersionTLS11` are accepted and mean this too.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl MinVersion {
    pub(super) fn versions(self) -> &'static [&'static SupportedProtocolVersion] {
        const BOTH: &[&SupportedProtocolVersion] = &[&version::TLS12, &version::TLS13];
        const NEW: &[&SupportedProtocolVersion] = &[&version::TLS13];
        match self {
            Self::Tls12 => BOTH,
            Self::Tls13 => NEW,
        }
    }
}

impl FromStr for MinVersion {
    type Err = OptionError;

    fn from_str(name: &str) -> Result<Self, OptionError> {
        match name {
            "" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12" => Ok(Self::Tls12),
            "VersionTLS13" => Ok(Self::Tls13),
            unknown => Err(OptionError::Version(unknown.to_owned())),
        }
    }
}

/// The cipher suites to accept; the default is all of rustls with ring.
///
/// As in Go, TLS 1.3 suites stay on when the list names none of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CipherSuites(Vec<SupportedCipherSuite>);

impl CipherSuites {
    /// The provider with these suites only, in the provider's order of preference.
    pub(super) fn restrict(&self, mut provider: CryptoProvider) -> CryptoProvider {
        let any13 = self.0.iter().any(is_tls13);
        if !self.0.is_empty() {
            provider.cipher_suites.retain(|s| self.0.contains(s) || (!any13 && is_tls13(s)));
        }
        provider
    }
}

impl FromStr for CipherSuites {
    type Err = OptionError;

    /// Reads IANA names, separated by commas; nothing means the default.
    fn from_str(list: &str) -> Result<Self, OptionError> {
        let known = ring::ALL_CIPHER_SUITES;
        list.split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(|name| {
                let suite = known.iter().find(|suite| iana_name(suite) == name);
                suite.copied().ok_or_else(|| OptionError::CipherSuite {
                    unknown: name.to_owned(),
                    known: known.iter().map(iana_name).collect::<Vec<_>>().join(", "),
                })
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// Why a TLS flag cannot be honored.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// No such version.
    #[error("unknown TLS version {0:?}, known are VersionTLS12, VersionTLS13")]
    Version(String),
    /// No such suite, or one that is not safe enough to be offered.
    #[error("unknown cipher suite {unknown:?}, known are {known}")]
    CipherSuite {
        /// The name given.
        unknown: String,
        /// All names that would do.
        known: String,
    },
}

fn is_tls13(suite: &SupportedCipherSuite) -> bool {
    suite.tls13().is_some()
}

/// The IANA name; rustls writes `TLS13_` where IANA writes `TLS_`.
fn iana_name(suite: &SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replacen("TLS13_", "TLS_", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(list: &str) -> Vec<String> {
        let suites = list.parse::<CipherSuites>().unwrap();
        suites.restrict(ring::default_provider()).cipher_suites.iter().map(iana_name).collect()
    }

    #[test]
    fn an_unknown_cipher_suite_is_named_with_all_known_ones() {
        let error = "TLS_AES_128_GCM_SHA256, TLS_RSA_WITH_RC4_128_SHA".parse::<CipherSuites>();
        let error = error.unwrap_err().to_string();
        assert!(error.contains("\"TLS_RSA_WITH_RC4_128_SHA\""), "{error}");
        assert!(error.contains("TLS_AES_256_GCM_SHA384, TLS_AES_128_GCM_SHA256"), "{error}");
        assert!(error.contains("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"), "{error}");
    }

    #[test]
    fn a_list_restricts_the_suites_of_its_versions() {
        assert_eq!(offered("TLS_AES_128_GCM_SHA256"), ["TLS_AES_128_GCM_SHA256"]);
        let with_12 = offered("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256");
        assert_eq!(with_12.len(), 4, "{with_12:?}");
        assert!(with_12.contains(&"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256".to_owned()));
    }

    #[test]
    fn nothing_named_means_everything_known() {
        assert_eq!(offered("").len(), ring::ALL_CIPHER_SUITES.len());
        assert_eq!("".parse(), Ok(MinVersion::Tls12));
    }

    #[test]
    fn versions_are_spelled_as_in_go() {
        assert_eq!("VersionTLS13".parse(), Ok(MinVersion::Tls13));
        assert_eq!("VersionTLS10".parse(), Ok(MinVersion::Tls12));
        let error = "1.3".parse::<MinVersion>().unwrap_err().to_string();
        assert_eq!(error, "unknown TLS version \"1.3\", known are VersionTLS12, VersionTLS13");
    }
}
