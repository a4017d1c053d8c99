//! A picker that is gone, or might as well be.

use std::time::Duration;

use anyhow::Result;

use crate::gateways::asking::{Ask, placed, statuses};
use crate::gateways::site::Site;

/// How long a request may be without an answer before the client is said to wait.
const PATIENCE: Duration = Duration::from_secs(30);
/// From the return of the picker until a request is placed.
const BACK: Duration = Duration::from_secs(40);

/// The picker ends at once, and its address refuses connections.
pub(super) async fn killed(site: &mut Site) -> Result<String> {
    site.picker.kill()?;
    let seen = statuses(site.proxy, &[Ask::post(), Ask::get()], PATIENCE).await;
    site.picker.restart().await?;
    placed(site.proxy, &Ask::post(), BACK).await?;
    seen
}

/// The picker stands still: what is sent to it is taken, and nothing comes back.
pub(super) async fn hung(site: &mut Site) -> Result<String> {
    site.picker.hang()?;
    let seen = statuses(site.proxy, &[Ask::post(), Ask::get()], PATIENCE).await;
    site.picker.go_on()?;
    placed(site.proxy, &Ask::post(), BACK).await?;
    seen
}
