//! Lodesman, the endpoint picker for Kubernetes inference gateways.

pub mod app;
pub mod cli;
pub mod config;
pub mod director;
pub mod discovery;
pub mod extproc;
pub mod metrics;
pub mod pool;
pub mod request;
pub mod schedule;
pub mod scrape;
pub mod server;
pub mod sim;
pub mod telemetry;
pub mod wire;
