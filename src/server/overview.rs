//! `/debug/overview` of the admin port: what an operator wants to see at a glance, which `lodesman top` and the web page
//! show.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, watch};

use crate::director::{Brief, DecisionLog, Rung};
use crate::metrics::Metrics;
use crate::pool::Snapshot;
use crate::pool::readiness::Readiness;

pub use crate::pool::EndpointView;

use super::clock;

/// Endpoints that are shown at most.
pub const MOST_ENDPOINTS: usize = 2_000;

/// Decisions that are shown unless asked otherwise.
const SHOWN: usize = 50;

/// Decisions that are shown at most: what is kept while somebody watches.
const MOST_SHOWN: usize = 100;

/// What is to be seen of a picker.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Overview {
    /// The picker's version.
    pub version: String,
    /// The namespace of its pool.
    pub namespace: String,
    /// The name of its pool.
    pub pool: String,
    /// How long it has been running.
    pub uptime_seconds: f64,
    /// Whether it takes new requests.
    pub ready: bool,
    /// Why it does not, or what is wrong besides, each in words.
    pub notes: Vec<String>,
    /// How much knowledge the newest decision rests on, `policy` or `load_only`; absent before the first.
    pub rung: Option<String>,
    /// Open ext_proc streams, which are requests.
    pub streams: i64,
    /// Decisions since the start.
    pub decisions_made: u64,
    /// Endpoints of the pool, of which [`MOST_ENDPOINTS`] are shown.
    pub endpoints_total: usize,
    /// The endpoints.
    pub endpoints: Vec<EndpointView>,
    /// The newest decisions, newest first. They are kept while somebody asks for this, or by `--decision-log`.
    pub decisions: Vec<Brief>,
}

/// What an overview is made from.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The newest snapshot.
    pub pool: Arc<ArcSwap<Snapshot>>,
    /// The namespace and the name of the pool.
    pub name: [String; 2],
    /// Streams and decisions.
    pub metrics: Arc<Metrics>,
    /// Whether we take requests.
    pub readiness: watch::Receiver<Readiness>,
    /// The last decisions; none where nothing is decided.
    pub log: Option<Arc<DecisionLog>>,
    /// When we were started.
    pub since: Instant,
}

impl Sources {
    /// What is to be seen at `now`, with at most so many decisions, which are kept from now on for a while.
    pub fn overview(&self, decisions: usize, now: Instant) -> Overview {
        let (pool, readiness) = (self.pool.load(), self.readiness.borrow().clone());
        let [namespace, name] = self.name.clone();
        let failures = readiness.checks().filter_map(|check| check.failure);
        let recent = |log: &Arc<DecisionLog>| {
            log.watch(now);
            log.recent(decisions, now)
        };
        Overview {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            namespace,
            pool: name,
            uptime_seconds: now.saturating_duration_since(self.since).as_secs_f64(),
            ready: readiness.ready(),
            notes: failures.chain(readiness.warning.as_deref()).map(str::to_owned).collect(),
            rung: Rung::of_depth(self.metrics.rung.get()).map(|rung| rung.name().to_owned()),
            streams: self.metrics.streams.open(),
            decisions_made: self.metrics.decision_duration.get_sample_count(),
            endpoints_total: pool.endpoints().count(),
            endpoints: pool.view(MOST_ENDPOINTS, now),
            decisions: self.log.as_ref().map(recent).unwrap_or_default(),
        }
    }
}

/// The route `/debug/overview` (`?decisions=` is how many are told, 50 unless said). One at a time is made, on another
/// thread: the control plane has one, and a large pool takes some milliseconds.
pub fn router(sources: Sources) -> Router {
    let one_at_a_time = Arc::new(Mutex::new(()));
    let show = async move |Query(fields): Query<HashMap<String, String>>| {
        let asked = fields.get("decisions").map(|most| most.parse::<usize>()).transpose();
        let Ok(asked) = asked else {
            return (StatusCode::BAD_REQUEST, "give decisions as a number\n").into_response();
        };
        let most = asked.unwrap_or(SHOWN).min(MOST_SHOWN);
        let _turn = one_at_a_time.lock().await;
        let made = move || Json(sources.overview(most, clock::now())).into_response();
        tokio::task::spawn_blocking(made).await.unwrap_or_else(|_| failed())
    };
    Router::new().route("/debug/overview", get(show))
}

fn failed() -> Response {
    StatusCode::INTERNAL_SERVER_ERROR.into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::readiness::Stage;

    #[test]
    fn a_picker_that_is_not_ready_says_why_and_one_that_is_what_is_wrong() {
        let readiness = watch::Sender::new(Readiness::default());
        let log = Arc::new(DecisionLog::new(0));
        let sources = Sources {
            pool: Arc::default(),
            name: ["ns", "llm"].map(str::to_owned),
            metrics: Metrics::new("ns", "llm", false).unwrap(),
            readiness: readiness.subscribe(),
            log: Some(Arc::clone(&log)),
            since: clock::now(),
        };
        let told = sources.overview(9, clock::now());
        assert!(!told.ready && told.notes.len() == 2, "{told:?}");
        assert!(log.wanted(), "who looks wants decisions");
        let warning = Some("pool not valid".into());
        readiness.send_replace(Readiness { stage: Stage::Synced, warning, ..Readiness::default() });
        let told = sources.overview(9, clock::now());
        assert_eq!((told.ready, told.notes), (true, vec!["pool not valid".to_owned()]));
        assert_eq!((told.namespace.as_str(), told.pool.as_str()), ("ns", "llm"));
        assert_eq!((told.endpoints_total, told.rung), (0, None));
    }
}
