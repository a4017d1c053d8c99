//! The gateways, and what differs between them.

use anyhow::Result;
use clap::ValueEnum;
use serde_json::{Value, json};

use super::manifests::Manifests;
use super::parts::Parts;
use super::site::Site;
use super::{envoy_gateway, istio};

/// A gateway and the way it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Gateway {
    /// Envoy Gateway that reads files.
    EnvoyGatewayFiles,
    /// Envoy Gateway in Kubernetes.
    EnvoyGateway,
    /// Istio.
    Istio,
}

impl Gateway {
    /// All, in the order in which they are tried and shown.
    pub(super) const ALL: [Self; 3] = [Self::EnvoyGatewayFiles, Self::EnvoyGateway, Self::Istio];

    /// Its name in the table.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::EnvoyGatewayFiles => "Envoy Gateway, files",
            Self::EnvoyGateway => "Envoy Gateway, Kubernetes",
            Self::Istio => "Istio",
        }
    }

    /// Starts it with all that belongs to it.
    ///
    /// # Errors
    /// When a part does not start, or no request is placed in time.
    pub(super) async fn start(self, parts: &Parts, mode: Mode) -> Result<Site> {
        match self {
            Self::EnvoyGatewayFiles => envoy_gateway::files::start(parts, mode).await,
            Self::EnvoyGateway => Box::pin(envoy_gateway::kubernetes::start(parts, mode)).await,
            Self::Istio => istio::start(parts, mode).await,
        }
    }

    /// The objects, changed so that the gateway names the endpoints that the header `header` lists as those that may be
    /// chosen.
    ///
    /// # Errors
    /// When the manifests lack what is to be changed.
    pub(super) fn with_subset(self, objects: &Manifests, header: &str) -> Result<Vec<Value>> {
        match self {
            Self::EnvoyGatewayFiles | Self::EnvoyGateway => {
                envoy_gateway::with_subset(objects, header)
            }
            Self::Istio => Ok(istio::with_subset(header)),
        }
    }

    /// The objects, changed so that the gateway speaks with the picker like that; none where it does so anyway.
    ///
    /// # Errors
    /// When the manifests lack what is to be changed.
    pub(super) fn with_security(
        self,
        objects: &Manifests,
        security: Security,
    ) -> Result<Vec<Value>> {
        match (self, security) {
            (Self::Istio, Security::Tls)
            | (Self::EnvoyGatewayFiles | Self::EnvoyGateway, Security::Plaintext) => Ok(Vec::new()),
            (Self::Istio, Security::Plaintext) => {
                istio::with_tls(objects, json!({"mode": "DISABLE"}))
            }
            (Self::EnvoyGatewayFiles | Self::EnvoyGateway, Security::Tls) => {
                envoy_gateway::with_tls(objects)
            }
        }
    }

    /// What stands in the name of the picker's cluster in Envoy's statistics.
    pub(super) fn cluster(self) -> &'static str {
        match self {
            Self::EnvoyGatewayFiles | Self::EnvoyGateway => "extproc",
            Self::Istio => "outbound|9002||",
        }
    }
}

/// How a gateway speaks with the picker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Security {
    /// TLS, without a look at the certificate.
    Tls,
    /// HTTP/2 without TLS.
    Plaintext,
}

/// What happens to requests without a picker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// They are answered by some server.
    FailOpen,
    /// They are refused.
    FailClose,
}

impl Mode {
    /// As the API spells it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::FailOpen => "FailOpen",
            Self::FailClose => "FailClose",
        }
    }
}
