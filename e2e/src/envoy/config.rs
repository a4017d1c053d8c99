//! The whole configuration: a listener, its filters, its routes, and the clusters that they name.
//!
//! Envoy takes a `null` field as absent.

use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::cluster::{Picker, Pool, loopback};
use super::filter::ExtProc;
use super::rate_limits::RateLimits;

/// What an Envoy of the tests and the demo does. Fields are Envoy's defaults unless said otherwise.
#[derive(Debug, Clone)]
pub struct EnvoyConfig {
    /// The pool that requests go to.
    pub pool: Pool,
    /// External processors in the order of their filters; none is a plain proxy.
    pub ext_procs: Vec<ExtProc>,
    /// `per_connection_buffer_limit_bytes` of the listener, which also bounds buffered bodies.
    pub buffer_limit_bytes: Option<u32>,
    /// Endpoints of the subset hint, set as dynamic metadata before the first external processor;
    /// a string or a list, as gateways differ.
    pub subset_hint: Option<Value>,
    /// Times that a failed request (5xx or no connection) is tried again; 0 is never.
    pub retries: u32,
    /// Routes before the one to `pool`.
    pub routes: Vec<HeaderRoute>,
    /// How long a stream may be idle; 5 minutes if absent.
    pub idle_timeout: Option<Duration>,
    /// What limits requests to `pool`; nothing if absent.
    pub rate_limits: Option<RateLimits>,
}

/// A route for requests that carry a header, for tests of the route cache.
#[derive(Debug, Clone)]
pub struct HeaderRoute {
    /// The header's name.
    pub header: String,
    /// Its exact value.
    pub value: String,
    /// Where such requests go.
    pub pool: Pool,
}

impl EnvoyConfig {
    /// A plain proxy to `pool`.
    pub fn plain(pool: Pool) -> Self {
        Self {
            pool,
            ext_procs: Vec::new(),
            buffer_limit_bytes: None,
            subset_hint: None,
            retries: 0,
            routes: Vec::new(),
            idle_timeout: None,
            rate_limits: None,
        }
    }

    /// A proxy that asks `ext_proc` where to send requests.
    pub fn picked(ext_proc: ExtProc, pool: Pool) -> Self {
        Self { ext_procs: vec![ext_proc], ..Self::plain(pool) }
    }

    /// The bootstrap configuration, with ports of the kernel's choice.
    pub(super) fn bootstrap(&self, access_log: &Path) -> Value {
        let listener = json!({
            "name": "http",
            "address": loopback(),
            "per_connection_buffer_limit_bytes": self.buffer_limit_bytes,
            "filter_chains": [{"filters": [{
                "name": "envoy.filters.network.http_connection_manager",
                "typed_config": self.connection_manager(access_log),
            }]}],
        });
        json!({
            "admin": {"address": loopback()},
            "static_resources": {"listeners": [listener], "clusters": self.clusters()},
        })
    }

    fn connection_manager(&self, access_log: &Path) -> Value {
        json!({
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "http",
            "stream_idle_timeout": self.idle_timeout.map(duration),
            "http_protocol_options": {"enable_trailers": true},
            "access_log": [logger(access_log)],
            "http_filters": self.filters(),
            "route_config": {"virtual_hosts": [
                {"name": "all", "domains": ["*"], "routes": self.route_table()},
            ]},
        })
    }

    fn filters(&self) -> Vec<Value> {
        let limits = self.rate_limits.as_ref().map(|_| RateLimits::filter());
        let hint = self.subset_hint.as_ref().map(subset_filter);
        let router = json!({
            "name": "envoy.filters.http.router",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
            },
        });
        let processors = self.ext_procs.iter().enumerate().map(|(at, filter)| filter.render(at));
        limits.into_iter().chain(hint).chain(processors).chain([router]).collect()
    }

    fn route_table(&self) -> Vec<Value> {
        let special = self.routes.iter().enumerate().map(|(at, route)| {
            let matches = json!({"name": route.header, "string_match": {"exact": route.value}});
            json!({
                "match": {"prefix": "/", "headers": [matches]},
                "route": {"cluster": pool_name(at + 1), "timeout": "0s"},
            })
        });
        let action = json!({
            "cluster": pool_name(0),
            "timeout": "0s",
            "retry_policy": retry_policy("5xx,connect-failure", self.retries),
        });
        let limits = self.rate_limits.as_ref().map(|limits| &limits.limits);
        let route = json!({
            "match": {"prefix": "/"},
            "route": action,
            "typed_per_filter_config": limits,
        });
        special.chain([route]).collect()
    }

    fn clusters(&self) -> Vec<Value> {
        let pools = [&self.pool].into_iter().chain(self.routes.iter().map(|route| &route.pool));
        let pools = pools.enumerate().map(|(at, pool)| pool.render(&pool_name(at)));
        let mut pickers: Vec<&Picker> = Vec::new();
        for filter in &self.ext_procs {
            if pickers.iter().all(|picker| picker.name != filter.picker.name) {
                pickers.push(&filter.picker);
            }
        }
        let limits = self.rate_limits.as_ref().map(RateLimits::cluster);
        pools.chain(pickers.into_iter().map(Picker::render)).chain(limits).collect()
    }
}

/// A duration in Envoy's JSON form.
pub(super) fn duration(value: Duration) -> Value {
    json!(format!("{}s", value.as_secs_f64()))
}

/// A retry policy with a back-off of 5 to 20 ms; absent if there are no retries.
pub(super) fn retry_policy(retry_on: &str, retries: u32) -> Option<Value> {
    (retries > 0).then(|| {
        json!({
            "retry_on": retry_on,
            "num_retries": retries,
            "retry_back_off": {"base_interval": "0.005s", "max_interval": "0.02s"},
        })
    })
}

/// `base` with the fields of `more`, which win. Both are objects.
pub(super) fn merged(mut base: Value, more: &Map<String, Value>) -> Value {
    if let Some(fields) = base.as_object_mut() {
        fields.extend(more.clone());
    }
    base
}

fn pool_name(at: usize) -> String {
    if at == 0 { "pool".to_owned() } else { format!("pool-{at}") }
}

fn subset_filter(hint: &Value) -> Value {
    json!({
        "name": "envoy.filters.http.set_metadata",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config",
            "metadata": [{
                "metadata_namespace": "envoy.lb.subset_hint",
                "value": {"x-gateway-destination-endpoint-subset": hint},
            }],
        },
    })
}

fn logger(path: &Path) -> Value {
    json!({
        "name": "envoy.access_loggers.file",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
            "path": path,
            "log_format": {"json_format": {
                "status": "%RESPONSE_CODE%",
                "flags": "%RESPONSE_FLAGS%",
                "details": "%RESPONSE_CODE_DETAILS%",
                "method": "%REQ(:METHOD)%",
                "path": "%REQ(:PATH)%",
                "upstream": "%UPSTREAM_HOST%",
                "request_id": "%REQ(X-REQUEST-ID)%",
                "lb": "%DYNAMIC_METADATA(envoy.lb)%",
                "lodesman": "%DYNAMIC_METADATA(lodesman)%",
                "duration_ms": "%DURATION%",
            }},
        },
    })
}
