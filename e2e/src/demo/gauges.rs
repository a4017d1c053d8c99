//! The load of the simulated servers, read from their metrics pages.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::Client;
use crate::page::sum;

/// Pause between two readings.
const EVERY: Duration = Duration::from_millis(400);

/// What a metrics page says; absent figures are 0.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Gauges {
    /// Requests in the engine.
    pub(super) running: f64,
    /// Requests in its queue.
    pub(super) waiting: f64,
    /// Used share of the KV cache, 0 to 1.
    pub(super) kv_usage: f64,
}

/// Reads the pages over and over until it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    latest: watch::Receiver<Vec<Gauges>>,
    _task: JoinSet<()>,
}

impl Watch {
    pub(super) fn start(servers: &[SocketAddr]) -> Self {
        let (sender, latest) = watch::channel(vec![Gauges::default(); servers.len()]);
        let mut task = JoinSet::new();
        task.spawn(read_all(servers.to_vec(), sender));
        Self { latest, _task: task }
    }

    /// The last figures, in the order of the servers.
    pub(super) fn latest(&self) -> Vec<Gauges> {
        self.latest.borrow().clone()
    }
}

/// Reads all pages again and again; a page that cannot be read leaves the last figures.
async fn read_all(servers: Vec<SocketAddr>, latest: watch::Sender<Vec<Gauges>>) {
    loop {
        let mut gauges = latest.borrow().clone();
        for (place, &server) in gauges.iter_mut().zip(&servers) {
            *place = read(server).await.unwrap_or(*place);
        }
        latest.send_replace(gauges);
        tokio::time::sleep(EVERY).await;
    }
}

async fn read(server: SocketAddr) -> Result<Gauges> {
    Ok(parse(&Client::http1(server).get("/metrics").await?.text()))
}

fn parse(page: &str) -> Gauges {
    Gauges {
        running: sum(page, "vllm:num_requests_running"),
        waiting: sum(page, "vllm:num_requests_waiting"),
        kv_usage: sum(page, "vllm:kv_cache_usage_perc"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_of_all_engines_are_summed() {
        let page = "# TYPE vllm:num_requests_running gauge\n\
            vllm:num_requests_running{engine=\"0\",model_name=\"a b\"} 3.0\n\
            vllm:num_requests_running{engine=\"1\",model_name=\"a b\"} 1.0\n\
            vllm:num_requests_waiting 2\n\
            vllm:num_requests_waiting_by_reason{reason=\"capacity\"} 9.0\n\
            vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\n";
        assert_eq!(parse(page), Gauges { running: 4.0, waiting: 2.0, kv_usage: 0.25 });
    }
}
