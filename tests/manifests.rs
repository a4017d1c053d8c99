//! What `manifests/` gives a user, rendered by the tools that a user has and held against each other, against the binary
//! and against a real API server.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::tests_outside_test_module,
    reason = "an integration test"
)]

#[path = "manifests/autoscaling.rs"]
mod autoscaling;
#[path = "manifests/chart.rs"]
mod chart;
#[path = "manifests/envoy.rs"]
mod envoy;
#[path = "manifests/image.rs"]
mod image;
#[path = "manifests/installs.rs"]
mod installs;
#[path = "manifests/metadata.rs"]
mod metadata;
#[path = "manifests/monitoring.rs"]
mod monitoring;
#[path = "manifests/objects.rs"]
mod objects;
#[path = "manifests/picker.rs"]
mod picker;
#[path = "manifests/prometheus.rs"]
mod prometheus;
#[path = "manifests/promql.rs"]
mod promql;
#[path = "manifests/references.rs"]
mod references;
#[path = "manifests/render.rs"]
mod render;
#[path = "manifests/server.rs"]
mod server;
