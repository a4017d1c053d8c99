//! What a cluster with Lodesman has to do, written once and played in two places.
//!
//! A scenario knows of the cluster what kubectl shows and of the gateway its address, so that it is the same
//! on a [`World`] of processes ([`local`]), as `make test` does, and on a cluster of kind or any other
//! (`e2e/kind.sh`). What runs are the manifests that we ship.

pub mod local;
mod models;
mod pickers;
mod traffic;
mod world;

use anyhow::Result;

pub use world::World;

/// The base model of the simulated model servers.
pub(crate) const MODEL: &str = "llama";
/// The Deployment of the model servers.
const SERVERS: &str = "deployment/model-server";
/// The Deployment of the pickers.
pub(crate) const PICKERS: &str = "deployment/lodesman";

/// A scenario; each leaves the world as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// Every server is reached, with and without a body.
    Route,
    /// Requests for an adapter go to the server that has it.
    Adapter,
    /// A model of another name is asked for.
    Rewrite,
    /// The gateway allows some servers only; without any such gateway there is nothing to see.
    Subset,
    /// A client cannot choose the server.
    ForgedHeader,
    /// New model servers replace the old ones under load.
    RollModels,
    /// New pickers replace the old ones under load.
    RollPickers,
    /// A server dies in the middle of its answers.
    KilledServer,
    /// No server is left, and then there is one again.
    ScaleToZero,
    /// No picker is left, with both failure modes.
    FailureModes,
    /// A picker as the Go reference is deployed becomes one of ours.
    Upgrade,
}

impl Scenario {
    /// All of them, in an order in which they can be played.
    pub const ALL: [Self; 11] = [
        Self::Route,
        Self::Adapter,
        Self::Rewrite,
        Self::Subset,
        Self::ForgedHeader,
        Self::RollModels,
        Self::RollPickers,
        Self::KilledServer,
        Self::ScaleToZero,
        Self::FailureModes,
        Self::Upgrade,
    ];

    /// Plays it.
    ///
    /// # Errors
    /// When something is not as it should be.
    pub async fn play(self, world: &World<'_>) -> Result<()> {
        match self {
            Self::Route => traffic::route(world).await,
            Self::Adapter => traffic::adapter(world).await,
            Self::Rewrite => traffic::rewrite(world).await,
            Self::Subset => traffic::subset(world).await,
            Self::ForgedHeader => traffic::forged_header(world).await,
            Self::RollModels => models::roll(world).await,
            Self::KilledServer => models::killed(world).await,
            Self::ScaleToZero => models::scale_to_zero(world).await,
            Self::RollPickers => pickers::roll(world).await,
            Self::FailureModes => pickers::failure_modes(world).await,
            Self::Upgrade => pickers::upgrade(world).await,
        }
    }
}
