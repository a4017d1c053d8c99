//! What there is to say of a request that has ended, for logs and traces: facts, never a word of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::director::shown;
use crate::extproc::Exchange;
use crate::extproc::account::Ending;
use crate::metrics::Spent;
use crate::pool::Endpoint;
use crate::request::Api;

/// A request that has ended.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Its id: the client's, else ours.
    pub request_id: String,
    /// The API that it spoke; `unknown` where nothing told.
    pub api: &'static str,
    /// The model that its client named; at most 256 bytes of the name.
    pub model: Option<String>,
    /// The model that the server was asked for; as long, and none where there is no server.
    pub served_model: Option<String>,
    /// How urgent it was.
    pub priority: i32,
    /// Who answered it; none where it had no place.
    pub endpoint: Option<Arc<Endpoint>>,
    /// How it ended, as the metric `lodesman_request_outcomes_total` names it.
    pub outcome: &'static str,
    /// Its error, as the metric `llm_d_epp_request_error_total` names it; none where it had none.
    pub error: Option<&'static str>,
    /// The status that the server answered with.
    pub status: Option<u16>,
    /// The tokens that it took.
    pub spent: Spent,
    /// When its headers came.
    pub received: Instant,
    /// When the first token of its answer came, where tokens were seen.
    pub first_token: Option<Instant>,
    /// When its stream was gone.
    pub ended: Instant,
}

impl Summary {
    /// The time to the first token.
    pub fn ttft(&self) -> Option<Duration> {
        self.first_token.map(|first| first.saturating_duration_since(self.received))
    }

    /// The time to its end.
    pub fn lasted(&self) -> Duration {
        self.ended.saturating_duration_since(self.received)
    }
}

impl Ending {
    /// Whether the request was refused, or its server failed it.
    pub fn failed(&self) -> bool {
        self.error.is_some()
    }
}

impl Exchange {
    /// What there is to say of the request that ended so; none where another stream tells of it.
    pub fn summary(&self, ending: &Ending) -> Option<Summary> {
        if self.observed {
            return None;
        }
        let name = |name: &str| shown(name).to_owned();
        let served = ending.model.as_deref().filter(|_| ending.endpoint.is_some()).map(name);
        let named = self.answer.client_model().or(ending.named.as_deref()).map(name);
        Some(Summary {
            request_id: String::from_utf8_lossy(&self.request_id()).into_owned(),
            api: self.api.map_or("unknown", Api::name),
            model: named.or_else(|| served.clone()),
            served_model: served,
            priority: self.priority,
            endpoint: ending.endpoint.clone(),
            outcome: ending.outcome,
            error: ending.error,
            status: (ending.status > 0).then_some(ending.status),
            spent: self.spent(),
            received: ending.received,
            first_token: ending.first_token,
            ended: ending.at,
        })
    }
}
