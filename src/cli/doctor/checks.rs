//! What is looked for, a file each: pure functions of the facts, with the facts that fail them as tests.

pub(super) mod api;
pub(super) mod certificate;
pub(super) mod clock;
pub(super) mod configuration;
pub(super) mod crds;
pub(super) mod envoy_gateway;
pub(super) mod gateway_tls;
pub(super) mod metrics;
pub(super) mod pool;
pub(super) mod ports;
pub(super) mod prefix_caching;
pub(super) mod rights;
pub(super) mod route;
pub(super) mod service;

#[cfg(test)]
pub(super) mod fixture;
