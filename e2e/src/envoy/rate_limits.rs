//! Rate limits that a service of their own keeps.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::cluster::Picker;

const CLUSTER: &str = "limits";

/// An `envoy.filters.http.ratelimit` filter before the external processors, with the domain `llm`.
#[derive(Debug, Clone)]
pub struct RateLimits {
    /// The service; where it does not answer, requests are refused.
    pub service: SocketAddr,
    /// What is limited, and what it costs: `typed_per_filter_config` of the route to the pool, in Envoy's JSON form.
    pub limits: Value,
}

impl RateLimits {
    pub(super) fn filter() -> Value {
        json!({
            "name": "envoy.filters.http.ratelimit",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit",
                "domain": "llm",
                "failure_mode_deny": true,
                "timeout": "5s",
                "rate_limit_service": {
                    "transport_api_version": "V3",
                    "grpc_service": {"envoy_grpc": {"cluster_name": CLUSTER}},
                },
            },
        })
    }

    pub(super) fn cluster(&self) -> Value {
        Picker { name: CLUSTER.to_owned(), ..Picker::new([self.service]) }.render()
    }
}
