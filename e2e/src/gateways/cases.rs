//! What is tried at each gateway, and what must come of it.

mod failures;
mod security;
mod traffic;

use anyhow::Result;

use super::site::{Gateway, Mode, Security, Site};

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Case {
    /// Chat requests.
    Post,
    /// Requests without a body.
    Get,
    /// A streamed answer.
    Stream,
    /// A body of 2 MB.
    Large,
    /// A gateway that names the endpoints that may be chosen.
    Subset,
    /// Requests for an adapter.
    Adapter,
    /// A client that names its server.
    Forged,
    /// Istio's name for the picker.
    Authority,
    /// A gateway that speaks plaintext with the picker.
    Plaintext,
    /// A gateway that speaks TLS with the picker.
    Tls,
    /// Istio's name for the picker, as the name of a TLS server.
    ServerName,
    /// No picker at its address.
    Killed,
    /// A picker that accepts and never answers.
    Hung,
}

impl Case {
    /// All, in the order in which they are run and shown.
    pub(super) const ALL: [Self; 13] = [
        Self::Post,
        Self::Get,
        Self::Stream,
        Self::Large,
        Self::Adapter,
        Self::Forged,
        Self::Killed,
        Self::Hung,
        Self::Authority,
        Self::Subset,
        Self::Plaintext,
        Self::Tls,
        Self::ServerName,
    ];

    /// Its name in the table.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Get => "GET",
            Self::Stream => "streamed answer",
            Self::Large => "body of 2 MB",
            Self::Subset => "subset of the endpoints",
            Self::Adapter => "LoRA adapter",
            Self::Forged => "forged destination",
            Self::Authority => "authority with `|`",
            Self::Plaintext => "plaintext to the picker",
            Self::Tls => "TLS to the picker",
            Self::ServerName => "TLS without `sni`",
            Self::Killed => "picker killed: POST / GET",
            Self::Hung => "picker hung: POST / GET",
        }
    }

    /// What must be seen; absent where the case does not apply.
    pub(super) fn expected(self, gateway: Gateway, mode: Mode) -> Option<&'static str> {
        Some(match self {
            Self::Post | Self::Get => "as picked",
            Self::Stream => "as it comes",
            Self::Large => "whole",
            Self::Subset => "kept to",
            Self::Adapter => "to its holder",
            Self::Forged => "ignored",
            Self::Plaintext | Self::Tls => "works",
            Self::Authority | Self::ServerName if gateway != Gateway::Istio => return None,
            Self::Authority => "works",
            Self::ServerName => "refused; log and metric tell",
            Self::Killed if mode == Mode::FailOpen => "200 / 200",
            Self::Killed => "503 / 503",
            Self::Hung if mode == Mode::FailOpen => "200 / 200",
            Self::Hung => "503 / 503",
        })
    }

    /// Tries it and leaves the site as it was.
    ///
    /// # Errors
    /// When something is seen that has no name.
    pub(super) async fn run(self, site: &mut Site) -> Result<String> {
        match self {
            Self::Post => traffic::post(site).await,
            Self::Get => traffic::get(site).await,
            Self::Stream => traffic::stream(site).await,
            Self::Large => traffic::large(site).await,
            Self::Subset => traffic::subset(site).await,
            Self::Adapter => traffic::adapter(site).await,
            Self::Forged => traffic::forged(site).await,
            Self::Authority => security::authority(site).await,
            Self::Plaintext => security::spoken(site, Security::Plaintext).await,
            Self::Tls => security::spoken(site, Security::Tls).await,
            Self::ServerName => security::server_name(site).await,
            Self::Killed => failures::killed(site).await,
            Self::Hung => failures::hung(site).await,
        }
    }
}
