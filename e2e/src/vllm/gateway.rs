//! The two ways to the same servers: an Envoy that takes one after the other, and one that asks Lodesman.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::list;
use crate::client::Client;
use crate::envoy::{Destination, Envoy, EnvoyConfig, ExtProc, Policy, Pool};
use crate::lodesman::Lodesman;
use crate::wait::eventually;

/// From the start of the picker until it has seen its servers.
const READY: Duration = Duration::from_secs(20);
/// Times that Envoy tries a failed request again: the next server in turn may be the dead one once more.
const RETRIES: u32 = 3;

/// Both, running.
#[derive(Debug)]
pub(super) struct Gateways {
    pub(super) round_robin: Envoy,
    pub(super) picked: Envoy,
    pub(super) lodesman: Lodesman,
}

impl Gateways {
    /// Starts them and waits until they serve.
    ///
    /// # Errors
    /// When they do not.
    pub(super) async fn start(binary: &Path, servers: &[SocketAddr]) -> Result<Self> {
        let mut lodesman = Lodesman::start(binary, ["--endpoints", &list(servers)]).await?;
        let metrics = Client::http1(lodesman.metrics);
        let ready = eventually(READY, async || {
            let answer = metrics.get("/readyz").await?;
            ensure!(answer.status.is_success(), "{} {}", answer.status, answer.text());
            Ok(())
        });
        let ready = lodesman.process.while_alive(ready).await;
        ready.with_context(|| format!("Lodesman is not ready:\n{}", lodesman.process.output()))?;
        let endpoints = servers.to_vec();
        let plain = Pool::Static { endpoints: endpoints.clone(), policy: Policy::RoundRobin };
        let pool = Pool::OverrideHost { endpoints, destinations: vec![Destination::Header] };
        let ext_proc = ExtProc::full_duplex(lodesman.ext_proc);
        Ok(Self {
            round_robin: Envoy::start(&retrying(EnvoyConfig::plain(plain))).await?,
            picked: Envoy::start(&retrying(EnvoyConfig::picked(ext_proc, pool))).await?,
            lodesman,
        })
    }
}

fn retrying(config: EnvoyConfig) -> EnvoyConfig {
    EnvoyConfig { retries: RETRIES, ..config }
}
