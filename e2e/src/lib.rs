//! Runs Lodesman and a real Envoy as processes on loopback: the harness of the end-to-end tests, the
//! demo and the load generator.
//!
//! Nothing here links the `lodesman` library: its tests depend on this crate, and what runs here is
//! the binary that users run. Every port is chosen by the kernel, every process ends with the value
//! that started it, also when a test panics, and nothing sleeps for a condition.
//!
//! - [`Envoy`] starts a real Envoy from an [`EnvoyConfig`];
//! - [`Lodesman`] and [`Fleet`] start the binary as a picker and as simulated model servers;
//! - `Cluster` starts a real Kubernetes API server, and `Namespace` plays the rest of a cluster;
//! - [`Browser`] is a real headless Chromium, [`Terminal`] a real terminal;
//! - [`Process`] is any other program;
//! - [`chat`] lets clients chat without pause;
//! - [`client`] is an HTTP client that can send and read piece by piece;
//! - `otlp` receives traces;
//! - `relay` passes connections on and cuts them;
//! - [`eventually`] waits for a condition with a deadline.

#[cfg(feature = "load")]
pub mod bench;
pub mod browser;
pub mod chat;
pub mod client;
pub mod demo;
pub mod envoy;
#[cfg(feature = "gateways")]
pub mod gateways;
#[cfg(feature = "kube")]
pub mod keda;
#[cfg(feature = "kube")]
pub mod kube;
#[cfg(feature = "kube")]
pub mod kube_demo;
#[cfg(feature = "load")]
pub mod load;
pub mod lodesman;
#[cfg(feature = "otlp")]
pub mod otlp;
mod page;
pub mod percentile;
#[cfg(feature = "load")]
pub mod plain;
pub mod process;
#[cfg(feature = "kube")]
pub mod relay;
#[cfg(feature = "kube")]
pub mod scenarios;
pub mod screenshots;
pub mod stop;
mod streamed;
#[cfg(test)]
#[cfg(feature = "load")]
mod stub;
pub mod terminal;
pub mod vllm;
pub mod wait;

#[cfg(feature = "kube")]
pub use self::kube::{Cluster, Namespace};
pub use browser::{Browser, Look};
pub use client::{Body, Client, Piece};
pub use envoy::{Envoy, EnvoyConfig};
pub use lodesman::{Fleet, Lodesman};
pub use process::Process;
pub use terminal::Terminal;
pub use wait::{accepts, eventually, free_address};
