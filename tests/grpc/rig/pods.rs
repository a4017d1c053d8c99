//! Model servers that only tell how loaded they are.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// What a server says of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Requests that wait.
    pub(crate) waiting: u32,
    /// Used share of the KV cache.
    pub(crate) kv_usage: f32,
    /// Adapters with running requests, of four at most.
    pub(crate) adapters: &'static [&'static str],
}

/// Servers on 127.0.0.2 and up, which end with this value.
#[derive(Default)]
pub(super) struct Pods {
    pub(super) addresses: Vec<SocketAddr>,
    broken: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

impl Load {
    /// A load of a server without adapters.
    pub(crate) const fn new(waiting: u32, kv_usage: f32) -> Self {
        Self { waiting, kv_usage, adapters: &[] }
    }

    /// The same with adapters.
    pub(crate) const fn adapting(self, adapters: &'static [&'static str]) -> Self {
        Self { adapters, ..self }
    }

    fn page(self) -> String {
        let Self { waiting, kv_usage, adapters } = self;
        let mut page = vec![
            format!("vllm:num_requests_waiting {waiting}"),
            "vllm:num_requests_running 0".to_owned(),
            format!("vllm:kv_cache_usage_perc {kv_usage}"),
        ];
        if !adapters.is_empty() {
            let running = adapters.join(",");
            let labels = format!("max_lora=\"4\",running_lora_adapters=\"{running}\"");
            page.push(format!("vllm:lora_requests_info{{{labels},waiting_lora_adapters=\"\"}} 1"));
        }
        page.join("\n") + "\n"
    }
}

impl Pods {
    /// Starts a server for each load.
    pub(super) async fn start(loads: &[Load]) -> Self {
        let mut pods = Self::default();
        for (n, load) in (2..).zip(loads.iter().copied()) {
            let listener =
                TcpListener::bind((Ipv4Addr::new(127, 0, 0, n), 0)).await.expect("a port");
            pods.addresses.push(listener.local_addr().expect("an address"));
            let broken = Arc::clone(&pods.broken);
            let page = async move || {
                let well = !broken.load(Ordering::Relaxed);
                well.then(|| load.page()).ok_or(StatusCode::INTERNAL_SERVER_ERROR)
            };
            let pages = Router::new().route("/metrics", get(page));
            pods.tasks.spawn(async move {
                axum::serve(listener, pages).await.expect("serves for ever");
            });
        }
        pods
    }

    /// From now on the servers tell nothing any more.
    pub(super) fn fall_silent(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }
}
