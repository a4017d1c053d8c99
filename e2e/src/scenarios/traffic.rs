//! Requests of several kinds.

use std::collections::BTreeSet;
use std::net::IpAddr;

use anyhow::{Result, ensure};
use http::Request;
use serde_json::json;

use super::world::SEEN;
use super::{MODEL, PICKERS, World};
use crate::chat::{self, Clients, ask};
use crate::client::{Answer, Body, Client};
use crate::kube::objects;
use crate::wait::eventually;

/// Every server is reached by requests with a body and without.
pub(super) async fn route(world: &World<'_>) -> Result<()> {
    let servers = world.servers().await?;
    let mut reached: BTreeSet<IpAddr> = BTreeSet::new();
    let mut number = 0;
    let all = eventually(SEEN, async || {
        number += 1;
        reached.insert(ask(world.gateway(), MODEL, number).await?.ip());
        ensure!(reached == servers, "{reached:?} of {servers:?}");
        Ok(())
    });
    all.await?;
    let models = world.gateway().get("/v1/models").await?;
    ensure!(
        models.status == 200 && models.text().contains(MODEL),
        "{} {}",
        models.status,
        models.text()
    );
    Ok(())
}

/// Requests for an adapter go where it is loaded. A picker does not know at once where another one has had it
/// loaded, so that there may be as many such servers as pickers.
pub(super) async fn adapter(world: &World<'_>) -> Result<()> {
    let pickers =
        world.kubectl(&format!("get {PICKERS} --output=jsonpath={{.spec.replicas}}")).await?;
    let (servers, mut places) = (world.servers().await?, BTreeSet::new());
    for number in 0..20 {
        places.insert(ask(world.gateway(), "sql", number).await?.ip());
    }
    ensure!(servers.len() > pickers.parse()?, "too few servers to tell: {servers:?}");
    ensure!(places.len() <= pickers.parse()?, "{places:?} for {pickers} pickers");
    Ok(())
}

/// A rewrite gives a model another name; without it the servers do not know the name.
pub(super) async fn rewrite(world: &World<'_>) -> Result<()> {
    let unknown = world.gateway().post(chat::PATH, &chat::request("alias", 0, 1)).await?;
    ensure!(unknown.status == 404, "{} {}", unknown.status, unknown.text());
    let object = objects::rewrite(objects::REWRITE, "alias", "llm", "alias", &[(MODEL, 1)]);
    world.kubectl_with(&["apply", "--filename=-"], &object.to_string()).await?;
    let answered = eventually(SEEN, async || {
        let answer = world.gateway().post(chat::PATH, &chat::request("alias", 0, 1)).await?;
        chat::server(&answer)?;
        ensure!(answer.text().contains(r#""model":"alias""#), "{}", answer.text());
        Ok(())
    });
    answered.await?;
    let accepted =
        "wait inferencemodelrewrites.llm-d.ai/alias --for=condition=Accepted --timeout=60s";
    world.kubectl(accepted).await?;
    world.kubectl("delete inferencemodelrewrites.llm-d.ai/alias").await?;
    Ok(())
}

/// A gateway that allows one server gets no other, whatever the load.
pub(super) async fn subset(world: &World<'_>) -> Result<()> {
    let Some((gateway, only)) = world.subset else { return Ok(()) };
    let mut clients = Clients::start(Client::http1(gateway), MODEL, 4);
    let places = clients.next(20).await?;
    ensure!(places.iter().all(|place| place.ip() == only), "{places:?}, not {only} alone");
    clients.finish().await
}

/// A client that names a destination itself is sent where the picker says.
pub(super) async fn forged_header(world: &World<'_>) -> Result<()> {
    let servers = world.servers().await?;
    for path in ["/v1/models", chat::PATH] {
        let answer = forged(world, path).await?;
        ensure!(answer.status == 200, "{path}: {} {}", answer.status, answer.text());
        let place = answer.header("x-sim-server").unwrap_or_default();
        let of_pool = servers.iter().any(|ip| place.starts_with(&format!("{ip}:")));
        ensure!(of_pool, "{path} was answered by {place:?}, none of {servers:?}");
    }
    Ok(())
}

/// The answer to a request that names a destination where nobody listens.
async fn forged(world: &World<'_>, path: &str) -> Result<Answer> {
    let body = (path == chat::PATH).then(|| chat::request(MODEL, 0, 1).to_string());
    let builder = if body.is_some() { Request::post(path) } else { Request::get(path) };
    let request = builder
        .header("content-type", "application/json")
        .header("x-gateway-destination-endpoint", json!("127.0.0.1:1").as_str().unwrap_or_default())
        .header("x-gateway-destination-endpoint-subset", "127.0.0.1:1")
        .body(body.map_or_else(Body::default, Body::full))?;
    Ok(world.gateway().send(request).await?.collect().await)
}
