//! What Lodesman believes of a busy server is what its page says.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use serde_json::Value;

use super::claim::Report;
use super::gateway::Gateways;
use super::play::ask;
use super::server::RUNNING;
use super::traffic::Writer;
use crate::client::Client;
use crate::page::sum;
use crate::wait::eventually;

/// Requests at once: more than both servers compute.
const REQUESTS: usize = 3 * RUNNING;
/// Words of each prompt: some thousand tokens, so that the KV cache shows them.
const WORDS: usize = 1_000;
/// Tokens of each answer: some seconds.
const TOKENS: usize = 1_000;
/// Longest time until both agree: several scrapes.
const AGREED: Duration = Duration::from_secs(5);
/// How far the used shares of the KV cache may differ: they grow all the time.
const KV_STEP: f64 = 0.05;

/// Lets a queue grow at both servers and compares.
///
/// # Errors
/// When a request fails.
pub(super) async fn show(
    gateways: &Gateways,
    servers: &[SocketAddr],
    report: &mut Report,
) -> Result<()> {
    let mut writer = Writer::new(0, "gauges");
    let asks: Vec<_> = (0..REQUESTS).map(|_| writer.unlike(WORDS, TOKENS)).collect();
    let answers = try_join_all(asks.iter().map(|asked| ask(gateways.picked.client(), asked)));
    let agreed = eventually(AGREED, async || agree(gateways.lodesman.admin, servers).await);
    let (answers, agreed) = tokio::join!(answers, agreed);
    answers?;
    let seen = agreed.as_ref().map_or_else(|error| format!("{error:#}"), Clone::clone);
    report.claim(agreed.is_ok(), "Lodesman reads each server's queue, and its KV cache", seen);
    Ok(())
}

/// The load of all servers in words, if both sources agree and there is a queue at each.
async fn agree(admin: SocketAddr, servers: &[SocketAddr]) -> Result<String> {
    let mut all = Vec::new();
    for &server in servers {
        let page = Load::read(&Client::http1(server).get("/metrics").await?.text());
        let snapshot = Client::http1(admin).get("/debug/snapshot").await?.json()?;
        let believed = Load::believed(&snapshot, server)?;
        ensure!(page.agrees(&believed), "{server}: page {page:?}, Lodesman {believed:?}");
        all.push(format!(
            "{} runs {}, waits {}, KV {:.0} %",
            server.ip(),
            page.running,
            page.waiting,
            page.kv_usage * 100.0
        ));
    }
    Ok(all.join("; "))
}

/// Load of a server.
#[derive(Debug)]
struct Load {
    running: f64,
    waiting: f64,
    /// 0 to 1.
    kv_usage: f64,
}

impl Load {
    fn read(page: &str) -> Self {
        Self {
            running: sum(page, "vllm:num_requests_running"),
            waiting: sum(page, "vllm:num_requests_waiting"),
            kv_usage: sum(page, "vllm:kv_cache_usage_perc"),
        }
    }

    fn believed(snapshot: &Value, server: SocketAddr) -> Result<Self> {
        let endpoints = snapshot.get("endpoints").and_then(Value::as_array).into_iter().flatten();
        let address = Value::from(server.to_string());
        let endpoint = endpoints.into_iter().find(|it| it.get("address") == Some(&address));
        let endpoint = endpoint.with_context(|| format!("{server} is not in {snapshot}"))?;
        let figure = |name: &str| {
            let figure = endpoint.get(name).and_then(Value::as_f64);
            figure.with_context(|| format!("{name} of {server} is unknown"))
        };
        let (running, waiting) = (figure("running")?, figure("waiting")?);
        Ok(Self { running, waiting, kv_usage: figure("kv_usage")? })
    }

    /// Whether both tell of the same queue, and there is one.
    fn agrees(&self, other: &Self) -> bool {
        let same = |one: f64, other: f64| (one - other).abs() < f64::EPSILON;
        self.waiting > 0.0
            && self.kv_usage > 0.0
            && same(self.waiting, other.waiting)
            && same(self.running, other.running)
            && (self.kv_usage - other.kv_usage).abs() < KV_STEP
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn page_and_snapshot_agree_on_a_queue_alone() {
        let page = "vllm:num_requests_running{} 4.0\nvllm:num_requests_waiting{} 2.0\n\
            vllm:kv_cache_usage_perc{} 0.25\n";
        let snapshot = |waiting: Value| {
            let endpoint = json!({
                "address": "127.0.0.2:80", "running": 4.0, "waiting": waiting, "kv_usage": 0.27,
            });
            json!({"endpoints": [endpoint]})
        };
        let server = "127.0.0.2:80".parse().unwrap();
        let agrees = |waiting| {
            let believed = Load::believed(&snapshot(waiting), server);
            believed.map(|believed| Load::read(page).agrees(&believed))
        };
        assert!(agrees(json!(2.0)).unwrap());
        assert!(!agrees(json!(1.0)).unwrap());
        assert!(agrees(Value::Null).is_err());
        assert!(Load::believed(&json!({"endpoints": []}), server).is_err());
    }
}
