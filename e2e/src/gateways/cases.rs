//! What is tried at each gateway, and what must come of it.

mod failures;
mod pods;
mod security;
mod traffic;

use std::time::Duration;

use anyhow::Result;

use super::gateway::{Gateway, Mode, Security};
use super::site::Site;

/// From a change of the objects until Envoy and the picker do as they say.
const TAKEN: Duration = Duration::from_secs(30);
/// From the return of a picker or a server until it has requests again.
const BACK: Duration = Duration::from_secs(40);

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
    /// A picker that is not ready.
    Unready,
    /// No picker in its Service.
    Absent,
    /// Istio's name for the picker.
    Authority,
    /// A gateway that speaks plaintext with the picker.
    Plaintext,
    /// A gateway that speaks TLS with the picker.
    Tls,
    /// Istio's name for the picker, as the name of a TLS server.
    ServerName,
    /// A model server that is gone, which nobody knows yet.
    Dead,
    /// A pod that is not ready.
    NotReady,
    /// A pod that is to end.
    Terminating,
    /// No picker at its address.
    Killed,
    /// A client that names its server, with no picker.
    ForgedAlone,
    /// A picker that accepts and never answers.
    Hung,
}

impl Case {
    /// All, in the order in which they are run and shown.
    pub(super) const ALL: [Self; 19] = [
        Self::Post,
        Self::Get,
        Self::Stream,
        Self::Large,
        Self::Adapter,
        Self::Forged,
        Self::Dead,
        Self::NotReady,
        Self::Terminating,
        Self::Killed,
        Self::ForgedAlone,
        Self::Hung,
        Self::Unready,
        Self::Absent,
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
            Self::Authority => r"authority with `\|`",
            Self::Plaintext => "plaintext to the picker",
            Self::Tls => "TLS to the picker",
            Self::ServerName => "TLS without `sni`",
            Self::Dead => "model server just dead: POST, three times",
            Self::NotReady => "pod not ready",
            Self::Terminating => "pod terminating",
            Self::Unready => "picker not ready: POST / GET",
            Self::Absent => "no pod in the picker's Service: POST / GET",
            Self::Killed => "picker killed: POST / GET",
            Self::ForgedAlone => "forged destination, picker killed",
            Self::Hung => "picker hung: POST / GET",
        }
    }

    /// What must be seen; absent where the case does not apply.
    pub(super) fn expected(self, gateway: Gateway, mode: Mode) -> Option<&'static str> {
        let istio = gateway == Gateway::Istio;
        let files = gateway == Gateway::EnvoyGatewayFiles;
        let open = mode == Mode::FailOpen;
        Some(match self {
            Self::Post | Self::Get => "as picked",
            Self::Stream => "as it comes",
            Self::Large => "whole",
            Self::Subset => "kept to",
            Self::Adapter => "to its holder",
            Self::ForgedAlone if !open => return None,
            Self::Forged | Self::ForgedAlone => "ignored",
            Self::Dead => "200 / 200 / 200",
            Self::NotReady | Self::Terminating | Self::Unready | Self::Absent if files => {
                return None;
            }
            Self::NotReady => "left out, and back",
            Self::Terminating => "answers end, nothing new",
            // In full duplex Envoy cannot go on once it has sent a byte of the body.
            Self::Killed if istio && open => "500 / 200",
            Self::Hung if istio => "waits / waits",
            Self::Killed | Self::Hung | Self::Unready | Self::Absent if open => "200 / 200",
            Self::Killed | Self::Unready if istio => "500 / 500",
            Self::Killed | Self::Hung | Self::Unready => "503 / 503",
            // Envoy Gateway puts an answer of its own in the place of the route.
            Self::Absent => "500 / 500",
            Self::Authority | Self::ServerName if !istio => return None,
            Self::Authority | Self::Plaintext | Self::Tls => "works",
            Self::ServerName => "refused; log and metric tell",
        })
    }

    fn expected_at(self, site: &Site) -> &'static str {
        self.expected(site.gateway, site.mode).unwrap_or_default()
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
            Self::Dead => pods::dead(site).await,
            Self::NotReady => pods::not_ready(site).await,
            Self::Terminating => pods::terminating(site).await,
            Self::Unready => pods::unready(site, self.expected_at(site)).await,
            Self::Absent => pods::absent(site, self.expected_at(site)).await,
            Self::Killed => failures::killed(site).await,
            Self::ForgedAlone => failures::forged(site).await,
            Self::Hung => failures::hung(site).await,
        }
    }
}
