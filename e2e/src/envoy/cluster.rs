//! Clusters: the pool of model servers and the picker.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

use super::config::{duration, merged};

/// The header and the key in `envoy.lb` that name the chosen endpoint.
const DESTINATION: &str = "x-gateway-destination-endpoint";

/// How Envoy finds the endpoint of a request.
#[derive(Debug, Clone)]
pub enum Pool {
    /// Goes wherever the destination says (`ORIGINAL_DST`); 503 without one.
    OriginalDst(Destination),
    /// Goes to the destination if it is one of `endpoints`, else round robin (`override_host`); the
    /// chosen endpoint becomes `x-gateway-destination-endpoint-served` in `envoy.lb`.
    OverrideHost {
        /// Members of the pool.
        endpoints: Vec<SocketAddr>,
        /// Where destinations are looked for, in this order; at least one.
        destinations: Vec<Destination>,
    },
    /// Ignores the destination.
    Static {
        /// Members of the pool.
        endpoints: Vec<SocketAddr>,
        /// How one is chosen.
        policy: Policy,
    },
}

/// Where the picker's choice is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// The request header `x-gateway-destination-endpoint`.
    Header,
    /// The same key in the dynamic metadata `envoy.lb`.
    Metadata,
}

/// A load-balancing policy without a picker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// One after the other.
    RoundRobin,
    /// Uniformly at random.
    Random,
}

impl Pool {
    pub(super) fn render(&self, name: &str) -> Value {
        let balanced = match self {
            Self::OriginalDst(destination) => json!({
                "type": "ORIGINAL_DST",
                "lb_policy": "CLUSTER_PROVIDED",
                "original_dst_lb_config": original_dst(*destination),
            }),
            Self::OverrideHost { endpoints, destinations } => json!({
                "type": "STATIC",
                "load_assignment": assignment(name, endpoints),
                "load_balancing_policy": override_host(destinations),
            }),
            Self::Static { endpoints, policy } => json!({
                "type": "STATIC",
                "load_assignment": assignment(name, endpoints),
                "lb_policy": match policy {
                    Policy::RoundRobin => "ROUND_ROBIN",
                    Policy::Random => "RANDOM",
                },
            }),
        };
        let common = json!({
            "name": name,
            "connect_timeout": "1s",
            "typed_extension_protocol_options": protocol(&json!({
                "http_protocol_options": {"enable_trailers": true},
            })),
        });
        balanced.as_object().map_or(Value::Null, |balanced| merged(common, balanced))
    }
}

/// The cluster of the external processor.
#[derive(Debug, Clone)]
pub struct Picker {
    /// The cluster's name, which Envoy sends as `:authority`; Istio's have `|` in them.
    pub name: String,
    /// Addresses of the replicas; none makes Envoy fail at once.
    pub addresses: Vec<SocketAddr>,
    /// TLS without verification of the certificate; plaintext if absent.
    pub tls: Option<Tls>,
    /// Active gRPC health checking; off if absent.
    pub health_check: Option<HealthCheck>,
}

/// TLS towards the picker.
#[derive(Debug, Clone, Default)]
pub struct Tls {
    /// The server name to send; none if absent.
    pub sni: Option<String>,
}

/// Longest time that a health check may take: on a busy machine a good picker may be late.
const ANSWER: Duration = Duration::from_secs(5);

/// An active health check of the picker: one failure ejects a replica, one success brings it back,
/// and with none left Envoy uses none (panic threshold 0). What a check finds holds at once; Envoy would
/// collect what it finds for a second.
#[derive(Debug, Clone, Copy)]
pub struct HealthCheck {
    /// Time between two checks.
    pub interval: Duration,
}

impl Picker {
    /// A plaintext cluster named `epp` without health checks.
    pub fn new(addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self {
            name: "epp".to_owned(),
            addresses: addresses.into_iter().collect(),
            tls: None,
            health_check: None,
        }
    }

    pub(super) fn render(&self) -> Value {
        let checked = self.health_check.is_some();
        json!({
            "name": self.name,
            "type": "STATIC",
            "connect_timeout": "1s",
            "load_assignment": assignment(&self.name, &self.addresses),
            "typed_extension_protocol_options": protocol(&json!({"http2_protocol_options": {
                "initial_stream_window_size": 4 << 20,
                "initial_connection_window_size": 64 << 20,
            }})),
            "transport_socket": self.tls.as_ref().map(Tls::render),
            "health_checks": self.health_check.map(HealthCheck::render).as_slice(),
            "common_lb_config": checked.then(|| json!({
                "healthy_panic_threshold": {"value": 0},
                "update_merge_window": "0s",
            })),
        })
    }
}

impl Tls {
    fn render(&self) -> Value {
        let context = json!({
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "common_tls_context": {"alpn_protocols": ["h2"]},
            "sni": self.sni,
        });
        json!({"name": "envoy.transport_sockets.tls", "typed_config": context})
    }
}

impl HealthCheck {
    fn render(self) -> Value {
        let interval = duration(self.interval);
        json!({
            "timeout": duration(ANSWER),
            "interval": interval,
            "no_traffic_interval": interval,
            "unhealthy_threshold": 1,
            "healthy_threshold": 1,
            "grpc_health_check": {"service_name": "envoy.service.ext_proc.v3.ExternalProcessor"},
        })
    }
}

/// A loopback address with a port of the kernel's choice.
pub(super) fn loopback() -> Value {
    json!({"socket_address": {"address": "127.0.0.1", "port_value": 0}})
}

fn original_dst(destination: Destination) -> Value {
    match destination {
        Destination::Header => json!({"use_http_header": true, "http_header_name": DESTINATION}),
        Destination::Metadata => json!({"metadata_key": metadata_key(DESTINATION)}),
    }
}

fn override_host(destinations: &[Destination]) -> Value {
    let sources: Vec<Value> = destinations
        .iter()
        .map(|destination| match destination {
            Destination::Header => json!({"header": DESTINATION}),
            Destination::Metadata => json!({"metadata": metadata_key(DESTINATION)}),
        })
        .collect();
    let config = json!({
        "@type": policy_type("override_host.v3.OverrideHost"),
        "override_host_sources": sources,
        "selected_host_key": metadata_key(&format!("{DESTINATION}-served")),
        "fallback_policy": policy(&json!({"@type": policy_type("round_robin.v3.RoundRobin")})),
    });
    policy(&config)
}

fn policy(config: &Value) -> Value {
    json!({"policies": [{"typed_extension_config": {"name": "policy", "typed_config": config}}]})
}

fn policy_type(kind: &str) -> String {
    format!("type.googleapis.com/envoy.extensions.load_balancing_policies.{kind}")
}

fn metadata_key(key: &str) -> Value {
    json!({"key": "envoy.lb", "path": [{"key": key}]})
}

fn assignment(name: &str, addresses: &[SocketAddr]) -> Value {
    let endpoints: Vec<Value> = addresses
        .iter()
        .map(|address| {
            let socket = json!({"address": address.ip().to_string(), "port_value": address.port()});
            json!({"endpoint": {"address": {"socket_address": socket}}})
        })
        .collect();
    json!({"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]})
}

fn protocol(explicit: &Value) -> Value {
    json!({"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": explicit,
    }})
}
