//! A picker that is gone, or might as well be.

use std::net::SocketAddr;

use anyhow::{Context, Result};

use super::{BACK, TAKEN};
use crate::gateways::asking::{Ask, DESTINATION, ask, placed, statuses};
use crate::gateways::site::Site;
use crate::wait::eventually;

/// Requests that would hardly all go to one server by chance.
const ENOUGH: usize = 12;

/// The picker ends at once, and its address refuses connections.
pub(super) async fn killed(site: &mut Site) -> Result<String> {
    site.picker.kill()?;
    let seen = statuses(site.proxy, &[Ask::post(), Ask::get()]).await;
    site.picker.restart().await?;
    placed(site.proxy, &Ask::post(), BACK).await?;
    seen
}

/// Without a picker that would overrule it, a client's own destination still means nothing.
pub(super) async fn forged(site: &mut Site) -> Result<String> {
    let chosen = site.server(0)?;
    site.picker.kill()?;
    let seen = eventually(TAKEN, async || obeyed(site, chosen).await).await;
    site.picker.restart().await?;
    placed(site.proxy, &Ask::post(), BACK).await?;
    seen
}

/// Whether requests without a body that name `chosen` all go there.
async fn obeyed(site: &Site, chosen: SocketAddr) -> Result<String> {
    let wanted = Ask::get().header(DESTINATION, chosen.to_string());
    let mut elsewhere = 0;
    for _ in 0..ENOUGH {
        let told = ask(site.proxy, &wanted).await?;
        let server = told.server().with_context(|| format!("{} at once", told.status()))?;
        elsewhere += usize::from(server != chosen);
    }
    Ok(if elsewhere > 0 { "ignored" } else { "obeyed" }.to_owned())
}

/// The picker stands still: what is sent to it is taken, and nothing comes back.
pub(super) async fn hung(site: &mut Site) -> Result<String> {
    site.picker.hang()?;
    let seen = statuses(site.proxy, &[Ask::post(), Ask::get()]).await;
    site.picker.go_on()?;
    placed(site.proxy, &Ask::post(), BACK).await?;
    seen
}
