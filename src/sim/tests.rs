//! Simulated servers over real connections.

mod api;
mod faults;
mod metrics;

use std::time::Duration;

use clap::Parser;
use reqwest::{Client, RequestBuilder, Response};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::{Fleet, SimArgs};

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    sim: SimArgs,
}

fn args(line: &str) -> SimArgs {
    Cli::try_parse_from(["sim", "--port=0"].into_iter().chain(line.split_whitespace())).unwrap().sim
}

/// What is said of a value of a flag that cannot be.
fn refused(flag: &str, value: &str) -> String {
    Cli::try_parse_from(["sim", flag, value]).err().unwrap().to_string()
}

/// A fleet that runs, and a client for it.
struct Sim {
    fleet: Fleet,
    client: Client,
}

impl Sim {
    /// Engines run a hundred times faster than their model unless the line says otherwise.
    async fn start(line: &str) -> Self {
        // The provider of the process; a second test finds it set.
        rustls::crypto::ring::default_provider().install_default().ok();
        let mut args = args(line);
        if !line.contains("--time-scale") {
            args.time_scale = 100.0;
        }
        let fleet = Fleet::start(&args).await.unwrap();
        Self { fleet, client: Client::builder().no_proxy().timeout(PATIENCE).build().unwrap() }
    }

    fn url(&self, server: usize, path: &str) -> String {
        format!("http://{}{path}", self.fleet.addresses()[server])
    }

    fn post(&self, server: usize, path: &str, body: &Value) -> RequestBuilder {
        self.client.post(self.url(server, path)).body(body.to_string())
    }

    async fn get(&self, server: usize, path: &str) -> Response {
        self.client.get(self.url(server, path)).send().await.unwrap()
    }

    async fn ask(&self, path: &str, body: &Value) -> Value {
        json(self.post(0, path, body).send().await.unwrap()).await
    }

    /// The value of a series by the beginning of its line.
    async fn metric(&self, server: usize, series: &str) -> f64 {
        let page = self.get(server, "/metrics").await.text().await.unwrap();
        let line = page.lines().find(|line| line.starts_with(series)).expect(series);
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Waits until a series has this value.
    async fn until(&self, series: &str, wanted: f64) {
        let reached = async {
            while (self.metric(0, series).await - wanted).abs() > f64::EPSILON {
                sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(PATIENCE, reached).await.expect(series);
    }

    async fn order(&self, server: usize, fault: Value) {
        let response = self.post(server, "/sim/fault", &fault).send().await.unwrap();
        assert_eq!(response.status(), 200, "{fault}");
    }
}

async fn json(response: Response) -> Value {
    serde_json::from_slice(&response.bytes().await.unwrap()).unwrap()
}

/// The `data:` lines of a stream.
fn data(stream: &str) -> Vec<&str> {
    stream.lines().filter_map(|line| line.strip_prefix("data: ")).collect()
}
