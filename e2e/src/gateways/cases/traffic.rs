//! Requests that a picker places.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};

use super::TAKEN;
use crate::gateways::asking::{Ask, Chat, DESTINATION, Told, ask};
use crate::gateways::parts::ADAPTERS;
use crate::gateways::site::Site;
use crate::wait::eventually;

/// Requests of a case in which one alone proves little.
const ENOUGH: usize = 6;
/// Bytes that no prompt has: they are for the proxies alone.
const LARGE: usize = 2_000_000;
/// Names the endpoints that may be chosen.
const SUBSET: &str = "x-e2e-subset";
/// Where nothing is.
const NOWHERE: &str = "10.77.99.99:8000";

/// Chat requests go where the picker says.
pub(super) async fn post(site: &mut Site) -> Result<String> {
    all_placed(site, &Ask::post()).await?;
    Ok("as picked".to_owned())
}

/// So do requests without a body.
pub(super) async fn get(site: &mut Site) -> Result<String> {
    all_placed(site, &Ask::get()).await?;
    Ok("as picked".to_owned())
}

/// An answer that is generated over half a second is passed on as it is generated.
pub(super) async fn stream(site: &mut Site) -> Result<String> {
    let long = Chat { max_tokens: 25, stream: true, ..Chat::default() };
    let told = ask(site.proxy, &Ask::chat(long)).await?;
    told.placed()?;
    let text = told.answer.text();
    ensure!(text.ends_with("data: [DONE]\n\n"), "cut off after {} bytes", text.len());
    let chunks = &told.answer.chunks;
    let (first, last) = chunks.first().zip(chunks.last()).context("no body")?;
    let at_once = format!("nothing before {:?} of {:?}", first.at, last.at);
    Ok(if first.at * 2 < last.at { "as it comes".to_owned() } else { at_once })
}

/// A large body reaches the server whole.
pub(super) async fn large(site: &mut Site) -> Result<String> {
    let user = "u".repeat(LARGE);
    let wanted = Ask::chat(Chat { user: &user, ..Chat::default() });
    let told = ask(site.proxy, &wanted).await?;
    if told.status() != 200 {
        return Ok(told.status().to_string());
    }
    told.placed()?;
    let length = told.record.as_ref().and_then(|record| record.get("body_length"));
    ensure!(length.is_some_and(|length| *length == wanted.length()), "{length:?} bytes arrived");
    Ok("whole".to_owned())
}

/// Where the gateway names the endpoints that may be chosen, no other is, and with none of them the answer is 503.
pub(super) async fn subset(site: &mut Site) -> Result<String> {
    let before = site.objects.clone();
    site.put(site.gateway.with_subset(&site.objects, SUBSET)?).await?;
    let seen = kept_to(site).await;
    site.restore(before).await?;
    seen
}

async fn kept_to(site: &Site) -> Result<String> {
    let of = |server: &str| Ask::post().header(SUBSET, server);
    eventually(TAKEN, async || {
        let status = ask(site.proxy, &of(NOWHERE)).await?.status();
        ensure!(status == 503, "{status} without an endpoint");
        Ok(())
    })
    .await?;
    for server in &site.fleet.servers {
        for told in all_placed(site, &of(&server.to_string())).await? {
            ensure!(told.server() == Some(*server), "{:?} instead of {server}", told.server());
        }
    }
    Ok("kept to".to_owned())
}

/// An adapter is asked for where it was loaded.
pub(super) async fn adapter(site: &mut Site) -> Result<String> {
    for adapter in ADAPTERS {
        let first = holder(site, adapter).await?;
        for number in 0..ENOUGH {
            calm(site).await?;
            let server = ask(site.proxy, &of(adapter, number)).await?.placed()?;
            ensure!(server == first, "{adapter} was loaded by {first} and then by {server}");
        }
    }
    Ok("to its holder".to_owned())
}

/// A client's own destination neither decides nor survives.
pub(super) async fn forged(site: &mut Site) -> Result<String> {
    let [adapter, ..] = ADAPTERS;
    let holder = holder(site, adapter).await?;
    calm(site).await?;
    let other = site.fleet.servers.iter().find(|server| **server != holder);
    let other = other.context("one server alone")?.to_string();
    for wrong in [other.as_str(), NOWHERE] {
        let posted = ask(site.proxy, &of(adapter, 0).header(DESTINATION, wrong)).await?;
        let server = posted.placed()?;
        ensure!(server == holder, "{wrong} sent a request to {server} instead of {holder}");
        ask(site.proxy, &Ask::get().header(DESTINATION, wrong)).await?.placed()?;
    }
    Ok("ignored".to_owned())
}

/// A request for an adapter, unlike the others.
fn of(adapter: &str, number: usize) -> Ask {
    let prompt = format!("{number}. Which harbor is the nearest?");
    Ask::chat(Chat { model: adapter, max_tokens: 2, prompt: &prompt, ..Chat::default() })
}

/// Loads an adapter, and says where.
async fn holder(site: &Site, adapter: &str) -> Result<SocketAddr> {
    ask(site.proxy, &of(adapter, ENOUGH)).await?.placed()
}

/// Waits until the picker sees nothing wait, which a page read while an adapter was loaded does not show.
async fn calm(site: &Site) -> Result<()> {
    eventually(TAKEN, async || {
        let waiting = site.picker.metric("llm_d_epp_per_endpoint_queue_size", "").await?;
        ensure!(waiting == 0.0, "{waiting} requests wait");
        Ok(())
    })
    .await
}

async fn all_placed(site: &Site, wanted: &Ask) -> Result<Vec<Told>> {
    let mut all = Vec::new();
    for _ in 0..ENOUGH {
        let told = ask(site.proxy, wanted).await?;
        told.placed()?;
        all.push(told);
    }
    Ok(all)
}
