//! A picker that is gone, or might as well be.

use anyhow::Result;

use super::BACK;
use crate::gateways::asking::{Ask, placed, statuses};
use crate::gateways::site::Site;

/// The picker ends at once, and its address refuses connections.
pub(super) async fn killed(site: &mut Site) -> Result<String> {
    site.picker.kill()?;
    let seen = statuses(site.proxy, &[Ask::post(), Ask::get()]).await;
    site.picker.restart().await?;
    placed(site.proxy, &Ask::post(), BACK).await?;
    seen
}

/// The picker stands still: what is sent to it is taken, and nothing comes back.
pub(super) async fn hung(site: &mut Site) -> Result<String> {
    site.picker.hang()?;
    let seen = statuses(site.proxy, &[Ask::post(), Ask::get()]).await;
    site.picker.go_on()?;
    placed(site.proxy, &Ask::post(), BACK).await?;
    seen
}
