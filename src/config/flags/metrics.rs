//! Flags of the metrics page.

use std::path::{Path, PathBuf};

use clap::builder::{StringValueParser, TypedValueParser};
use clap::{ArgAction, Args};

use super::boolean;

/// The metrics page.
#[derive(Args, Clone, Debug)]
pub struct Metrics {
    /// Let only those read metrics who have the right to by the Kubernetes API server: a token that it knows, of a user
    /// that may get /metrics [default: true where there is one, else false].
    #[arg(long = "metrics-endpoint-auth", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = boolean)]
    pub endpoint_auth: Option<bool>,
    /// Directory with tls.crt and tls.key: the metrics port is TLS then. A changed pair is read again.
    #[arg(long = "metrics-cert-dir", value_name = "DIR", default_value = "", hide_default_value = true,
          value_parser = any_path())]
    cert_dir: PathBuf,
    /// File of authorities in PEM: clients of the metrics port need a certificate of one of them. Needs
    /// --metrics-cert-dir.
    #[arg(long = "metrics-client-ca-file", value_name = "FILE", default_value = "", hide_default_value = true,
          value_parser = any_path())]
    client_ca_file: PathBuf,
    /// Show the deprecated names of the reference's metrics too.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = true,
          default_missing_value = "true", action = ArgAction::Set, value_parser = boolean)]
    pub legacy_metrics: bool,
}

impl Metrics {
    /// The directory of the port's certificate; none where it is plaintext.
    pub fn certificate(&self) -> Option<&Path> {
        given(&self.cert_dir)
    }

    /// The file of the authorities of its clients; none where they need no certificate.
    pub fn clients(&self) -> Option<&Path> {
        given(&self.client_ca_file)
    }
}

fn any_path() -> impl TypedValueParser<Value = PathBuf> {
    StringValueParser::new().map(PathBuf::from)
}

/// Empty, as the reference's default is, means none.
fn given(path: &Path) -> Option<&Path> {
    Some(path).filter(|path| !path.as_os_str().is_empty())
}
