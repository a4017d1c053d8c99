//! Connections from the gateway to the picker.

use anyhow::{Result, ensure};
use serde_json::json;

use super::TAKEN;
use crate::gateways::asking::{Ask, ask};
use crate::gateways::gateway::Security;
use crate::gateways::istio;
use crate::gateways::site::Site;
use crate::wait::eventually;

/// The picker takes TLS and plaintext at one port.
pub(super) async fn spoken(site: &mut Site, security: Security) -> Result<String> {
    let before = site.objects.clone();
    let changes = site.gateway.with_security(&site.objects, security)?;
    // Without a change, what was spoken since the start counts.
    let known = if changes.is_empty() { Connections::default() } else { connections(site).await? };
    site.put(changes).await?;
    let seen = eventually(TAKEN, async || {
        ask(site.proxy, &Ask::post()).await?.placed()?;
        let new = connections(site).await?.since(known);
        ensure!(new.all > 0, "no new connection");
        ensure!((new.secure > 0) == (security == Security::Tls), "{} handshakes", new.secure);
        Ok("works".to_owned())
    })
    .await;
    site.restore(before).await?;
    seen
}

/// Istio's name for the picker is what the picker is asked under, though it is no host name.
pub(super) async fn authority(site: &mut Site) -> Result<String> {
    ask(site.proxy, &Ask::post()).await?.placed()?;
    let streams = site.stat(&[site.gateway.cluster(), "upstream_rq_total"]).await?;
    ensure!(site.gateway.cluster().contains('|') && streams > 0, "{streams} streams");
    Ok("works".to_owned())
}

/// As the name of a TLS server it is refused, and the picker says why and what to do.
pub(super) async fn server_name(site: &mut Site) -> Result<String> {
    let before = site.objects.clone();
    let tls = json!({"mode": "SIMPLE", "insecureSkipVerify": true});
    site.put(istio::with_tls(&site.objects, tls)?).await?;
    let seen = eventually(TAKEN, async || {
        ask(site.proxy, &Ask::post()).await?;
        let refused =
            site.picker.metric("lodesman_refused_connections_total", "server_name").await?;
        ensure!(refused > 0.0, "no connection was refused for its server name");
        let log = site.picker.log();
        let told = log.lines().any(|line| line.contains("server name") && line.contains("`sni`"));
        ensure!(told, "the log does not tell the cure");
        Ok("refused; log and metric tell".to_owned())
    })
    .await;
    site.restore(before).await?;
    seen
}

/// Connections to the picker.
#[derive(Debug, Clone, Copy, Default)]
struct Connections {
    all: u64,
    secure: u64,
}

impl Connections {
    /// Those after `before`; all of them when Envoy has begun to count anew, as it does for a cluster that it replaces.
    fn since(self, before: Self) -> Self {
        let both = self.all.checked_sub(before.all).zip(self.secure.checked_sub(before.secure));
        both.map_or(self, |(all, secure)| Self { all, secure })
    }
}

async fn connections(site: &Site) -> Result<Connections> {
    let cluster = site.gateway.cluster();
    Ok(Connections {
        all: site.stat(&[cluster, "upstream_cx_total"]).await?,
        secure: site.stat(&[cluster, "ssl.handshake"]).await?,
    })
}
