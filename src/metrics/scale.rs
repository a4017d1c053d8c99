//! The families for autoscalers.

use prometheus::Gauge;

use super::Families;

/// What the demand on the pool is: means over the last 30 s, told anew each second. All are always there.
#[derive(Debug)]
pub struct ScaleMetrics {
    /// Requests that wait, in engines and for an endpoint, for each ready endpoint.
    pub queue: Gauge,
    /// Seconds that streams wait for their first token, but for those that their own prompts take; 0 without streams.
    pub queue_time: Gauge,
    /// Used share of the KV cache with what the waiting requests would take, the mean over the ready endpoints.
    pub kv_pressure: Gauge,
    /// Tokens a second, for each ready endpoint.
    pub tokens: Gauge,
    /// How full the ready endpoints are, the mean.
    pub saturation: Gauge,
    /// Requests being computed, for each ready endpoint.
    pub running: Gauge,
    /// Requests a second.
    pub requests: Gauge,
    /// Requests a second that a replica can bear.
    pub knee: Gauge,
    /// Endpoints that take requests.
    pub ready: Gauge,
    /// Endpoints that end what they have.
    pub draining: Gauge,
    /// Ready endpoints whose page cannot be had.
    pub unmeasured: Gauge,
    /// Replicas that the load needs.
    pub recommended: Gauge,
    /// Until the ready endpoints are at their knee.
    pub to_saturation: Gauge,
}

impl ScaleMetrics {
    pub(super) fn new(new: &Families<'_>) -> prometheus::Result<Self> {
        let gauge = |name: &str, help: &str| {
            new.registered(Gauge::with_opts(new.ours(&format!("lodesman_scale_{name}"), help))?)
        };
        Ok(Self {
            queue: gauge(
                "queue_per_replica",
                "Requests that wait in the engines or for an endpoint, for each ready endpoint (for all, where there is none).",
            )?,
            queue_time: gauge(
                "queue_time_seconds",
                "Mean time that streams waited for their first token beyond what computing their own prompts takes; 0 where none began.",
            )?,
            kv_pressure: gauge(
                "kv_pressure",
                "Used share of the KV cache, and what the waiting requests would take of it; the mean of the ready endpoints. May exceed 1.",
            )?,
            tokens: gauge(
                "tokens_per_second_per_replica",
                "Tokens computed of prompts and generated, by what passed here, for each ready endpoint.",
            )?,
            saturation: gauge(
                "saturation",
                "How full the ready endpoints are, the mean: the greater of waiting requests / 5 and KV pressure / 0.8. May exceed 1.",
            )?,
            running: gauge(
                "running_per_replica",
                "Requests that the engines compute, for each ready endpoint.",
            )?,
            requests: gauge(
                "requests_per_second",
                "Requests that come, those of other clients of the endpoints estimated.",
            )?,
            knee: gauge(
                "knee_requests_per_second",
                "Requests a second that one replica can bear, by what was learnt of its speed.",
            )?,
            ready: gauge(
                "ready_endpoints",
                "Endpoints that do not drain; those that are quarantined are among them.",
            )?,
            draining: gauge(
                "draining_endpoints",
                "Endpoints that end what they have and take no more.",
            )?,
            unmeasured: gauge(
                "unmeasured_endpoints",
                "Ready endpoints without a recent metrics page: requests in flight stand for what it would tell.",
            )?,
            recommended: gauge(
                "recommended_replicas",
                "Replicas that the load needs for the target time to first token and the target utilization.",
            )?,
            to_saturation: gauge(
                "seconds_to_saturation",
                "Time until the load exceeds what the ready endpoints can bear, if it goes on as it does; +Inf where it does not grow.",
            )?,
        })
    }
}
