//! Requests for more adapters than a server holds ready at once: how often one must be loaded.

use std::collections::HashMap;
use std::net::SocketAddr;

use anyhow::Result;

use super::claim::Report;
use super::gateway::Gateways;
use super::play::play;
use super::server::Server;
use super::traffic::{Ask, Writer};
use crate::envoy::Envoy;

/// Plays them both ways.
///
/// # Errors
/// When a request fails.
pub(super) async fn show(
    gateways: &Gateways,
    servers: &[Server],
    seed: u64,
    report: &mut Report,
) -> Result<()> {
    let run = |salt| Writer::new(seed, salt).adapters();
    let plain = Stay::seen(&gateways.round_robin, servers, &run("round-robin")).await?;
    let picked = Stay::seen(&gateways.picked, servers, &run("lodesman")).await?;
    let mut row = |name: &str, figure: &dyn Fn(&Stay) -> String| {
        report.row(name, [figure(&plain), figure(&picked)]);
    };
    row("requests for adapters", &|stay| stay.requests.to_string());
    row("  at the adapter's usual server", &|stay| format!("{:.0} %", stay.share() * 100.0));
    row("  adapters put into a slot", &|stay| stay.loads.to_string());
    report.claim(
        picked.at_home > plain.at_home && picked.loads < plain.loads,
        "requests for an adapter stay with its server, which loads it less often",
        format!(
            "{} against {} of {} stay, {} loads against {}",
            picked.at_home, plain.at_home, plain.requests, picked.loads, plain.loads
        ),
    );
    Ok(())
}

/// Where the requests for adapters went.
#[derive(Debug)]
struct Stay {
    requests: usize,
    /// Those at the server that had the most for their adapter.
    at_home: usize,
    /// How often a server put an adapter into a slot, which takes the slot from another.
    loads: usize,
}

impl Stay {
    async fn seen(envoy: &Envoy, servers: &[Server], asks: &[Ask]) -> Result<Self> {
        let loads = || servers.iter().map(Server::adapter_loads).sum::<usize>();
        let before = loads();
        let played = play(envoy, servers, asks).await?;
        let loads = loads().saturating_sub(before);
        let places = asks.iter().zip(&played.by).map(|(ask, by)| (ask.model, *by));
        Ok(Self { requests: asks.len(), at_home: at_home(places), loads })
    }

    fn share(&self) -> f64 {
        self.at_home as f64 / self.requests as f64
    }
}

fn at_home<'a>(places: impl Iterator<Item = (&'a str, SocketAddr)>) -> usize {
    let mut counts: HashMap<&str, HashMap<SocketAddr, usize>> = HashMap::new();
    for (adapter, server) in places {
        *counts.entry(adapter).or_default().entry(server).or_default() += 1;
    }
    counts.values().filter_map(|servers| servers.values().max()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_of_an_adapter_is_where_most_of_its_requests_went() {
        let [one, two] = ["127.0.0.2:1", "127.0.0.3:1"].map(|server| server.parse().unwrap());
        let places = [("a", one), ("a", two), ("a", two), ("b", one), ("b", one)];
        assert_eq!(at_home(places.into_iter()), 4);
        assert_eq!(at_home([].into_iter()), 0);
    }
}
