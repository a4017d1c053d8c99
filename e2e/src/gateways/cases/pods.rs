//! Pods that come to be unfit.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{BACK, TAKEN};
use crate::client::Client;
use crate::gateways::asking::{Ask, Chat, ask, open, placed, statuses};
use crate::gateways::cluster::{PICKER, server_pod};
use crate::gateways::parts::SIM_ADMIN;
use crate::gateways::site::Site;
use crate::wait::eventually;

/// Requests that tell whether a server is left out; with none left out each server would have some.
const ENOUGH: usize = 12;

/// A model server dies, and nobody knows it yet: its requests are sent to another.
pub(super) async fn dead(site: &mut Site) -> Result<String> {
    order(&json!({"kind": "down", "server": 0})).await?;
    let seen = statuses(site.proxy, &[Ask::post(), Ask::post(), Ask::post()]).await;
    order(&json!({"kind": "none", "server": 0})).await?;
    eventually(BACK, async || used(site, site.server(0)?).await).await?;
    seen
}

/// A pod that is not ready gets nothing, and gets its part again when it is.
pub(super) async fn not_ready(site: &mut Site) -> Result<String> {
    let (name, server) = (server_pod(0), site.server(0)?);
    let kubelet = site.kubernetes()?.kubelet();
    kubelet.set_ready(&name, false).await?;
    eventually(TAKEN, async || unused(site, server).await).await?;
    kubelet.set_ready(&name, true).await?;
    eventually(TAKEN, async || used(site, server).await).await?;
    Ok("left out, and back".to_owned())
}

/// A pod that is to end finishes its answers and gets no new requests.
pub(super) async fn terminating(site: &mut Site) -> Result<String> {
    let long = Chat { max_tokens: 250, stream: true, ..Chat::default() };
    let mut response = open(site.proxy, &Ask::chat(long)).await?;
    response.chunk().await?.context("no body")?;
    let server = response.headers.get("x-sim-server").context("no model server answered")?;
    let server: SocketAddr = server.to_str()?.parse()?;
    let number = site.fleet.servers.iter().position(|other| *other == server);
    let name = server_pod(number.context("a strange server")?);
    let kubernetes = site.kubernetes()?;
    kubernetes.kubelet().terminate(&name).await?;
    eventually(TAKEN, async || unused(site, server).await).await?;
    let answer = response.collect().await;
    let whole = answer.broken.is_none() && answer.text().ends_with("data: [DONE]\n\n");
    kubernetes.kubelet().end(&name).await?;
    kubernetes.run_server(&site.objects, &name, server).await?;
    eventually(TAKEN, async || used(site, server).await).await?;
    ensure!(whole, "the answer was cut off: {:?}", answer.broken);
    Ok("answers end, nothing new".to_owned())
}

/// No pod of the picker's Service is ready.
pub(super) async fn unready(site: &mut Site, expected: &str) -> Result<String> {
    let kubelet = site.kubernetes()?.kubelet();
    kubelet.set_ready(PICKER, false).await?;
    let seen = unasked(site, expected).await;
    kubelet.set_ready(PICKER, true).await?;
    placed(site.proxy, &Ask::post(), BACK).await?;
    seen
}

/// The picker's Service has no pod, as after a scale-down to none; the process goes on, so that it could be asked.
pub(super) async fn absent(site: &mut Site, expected: &str) -> Result<String> {
    let kubernetes = site.kubernetes()?;
    kubernetes.kubelet().end(PICKER).await?;
    let seen = unasked(site, expected).await;
    kubernetes.run_picker(&site.objects).await?;
    placed(site.proxy, &Ask::post(), BACK).await?;
    seen
}

/// Waits until the picker is not asked any more and requests are answered as expected.
async fn unasked(site: &Site, expected: &str) -> Result<String> {
    eventually(TAKEN, async || {
        let seen = statuses(site.proxy, &[Ask::post(), Ask::get()]).await?;
        let picked = ask(site.proxy, &Ask::post()).await?.placed().is_ok();
        ensure!(!picked && seen == expected, "{seen}{}", if picked { ", picked" } else { "" });
        Ok(seen)
    })
    .await
}

/// Fails if `server` gets a request.
async fn unused(site: &Site, server: SocketAddr) -> Result<()> {
    for _ in 0..ENOUGH {
        let chosen = ask(site.proxy, &Ask::post()).await?.placed()?;
        ensure!(chosen != server, "{server} still has requests");
    }
    Ok(())
}

/// Fails if `server` gets no request.
async fn used(site: &Site, server: SocketAddr) -> Result<()> {
    ensure!(unused(site, server).await.is_err(), "{server} has no request");
    Ok(())
}

/// Orders a fault of a model server.
async fn order(fault: &Value) -> Result<()> {
    let answer = Client::http1(SIM_ADMIN.into()).post("/sim/fault", fault).await?;
    ensure!(answer.status == 200, "{} {}", answer.status, answer.text());
    Ok(())
}
