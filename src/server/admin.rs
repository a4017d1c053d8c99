//! Pages of the admin port that tell of decisions: `/debug/decisions` and `/debug/explain`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::body::{Body, to_bytes};
use axum::extract::{Query, Request};
use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::director::{DecisionLog, Director, Wanted};
use crate::extproc::{Rehearsal, Settings};
use crate::metrics::Metrics;

use super::clock;

/// Decisions that are shown unless asked otherwise.
const SHOWN: usize = 20;

/// Decisions that are shown at most.
const MOST_SHOWN: usize = 1000;

/// Dry requests at a time, so that their bodies take a bounded part of the memory; more wait.
const REHEARSALS: usize = 2;

/// The time in which the body of a dry request has to come.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Where decisions are told of.
#[derive(Clone, Debug)]
pub struct Decisions {
    /// Decides, and explains what it would decide.
    pub director: Arc<Director>,
    /// How requests are read.
    pub settings: Arc<ArcSwap<Settings>>,
    /// None where decisions are never kept.
    pub log: Option<Arc<DecisionLog>>,
}

/// The fields of a query.
type Fields = HashMap<String, String>;

/// The routes `/debug/decisions` (newest first; `?id=`, `?request-id=`, `?limit=`) and `/debug/explain`, which takes the body
/// and the headers of a request and tells where it would go (`?path=`, `?method=`, `?subset=`, `?dice=`).
pub fn decisions_router(decisions: Decisions) -> Router {
    let (kept, turns) = (decisions.log.clone(), Arc::new(Semaphore::new(REHEARSALS)));
    let list = get(async move |Query(fields): Query<Fields>| {
        aside(move || list(kept.as_deref(), &fields)).await
    });
    let explain =
        post(async move |Query(fields): Query<Fields>, headers: HeaderMap, body: Body| {
            let limit = decisions.settings.load().body_limit;
            let _turn = turns.acquire().await;
            let Ok(Ok(body)) = timeout(BODY_TIMEOUT, to_bytes(body, limit)).await else {
                let told = format!("the body is longer than {limit} bytes, or did not come\n");
                return (StatusCode::PAYLOAD_TOO_LARGE, told).into_response();
            };
            aside(move || explain(&decisions, &fields, &headers, body)).await
        });
    Router::new().route("/debug/decisions", list).route("/debug/explain", explain)
}

/// Answers on another thread: a long prompt takes its time, as many decisions do, and the control plane has one thread.
async fn aside(answer: impl FnOnce() -> Response + Send + 'static) -> Response {
    let failed = |_| StatusCode::INTERNAL_SERVER_ERROR.into_response();
    tokio::task::spawn_blocking(answer).await.unwrap_or_else(failed)
}

/// Refuses requests for a host of another name than this machine has for itself: a page of the web may have a name of its
/// own that leads here, and would be let to read what it gets.
pub fn local_only(router: Router) -> Router {
    router.layer(from_fn(async |request: Request, next: Next| {
        if is_local(request.headers()) {
            return next.run(request).await;
        }
        let told = "ask for this port by localhost or an IP address\n";
        (StatusCode::MISDIRECTED_REQUEST, told).into_response()
    }))
}

/// Whether the host is `localhost`, an address, or not said.
fn is_local(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST) else { return true };
    let Ok(authority) = host.to_str().unwrap_or_default().parse::<Authority>() else {
        return false;
    };
    let host = authority.host();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

fn list(log: Option<&DecisionLog>, fields: &Fields) -> Response {
    let Some(log) = log.filter(|log| log.wanted()) else {
        let told = "decisions are not kept: --decision-log N keeps the last N\n";
        return (StatusCode::NOT_FOUND, told).into_response();
    };
    let id = fields.get("id").map(|id| u64::from_str_radix(id, 16)).transpose();
    let limit = fields.get("limit").map(|limit| limit.parse::<usize>()).transpose();
    let (Ok(id), Ok(limit)) = (id, limit) else {
        let told = "give id in hexadecimal digits, and limit as a number\n";
        return (StatusCode::BAD_REQUEST, told).into_response();
    };
    let limit = limit.unwrap_or(SHOWN).min(MOST_SHOWN);
    let wanted = Wanted { id, request_id: fields.get("request-id").cloned(), limit };
    Json(log.find(&wanted, clock::now())).into_response()
}

fn explain(decisions: &Decisions, fields: &Fields, headers: &HeaderMap, body: Bytes) -> Response {
    let dice = fields.get("dice").map(|dice| u64::from_str_radix(dice, 16)).transpose();
    let Ok(dice) = dice else {
        return (StatusCode::BAD_REQUEST, "give dice in hexadecimal digits\n").into_response();
    };
    let Ok(metrics) = Metrics::new("", "", false) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let aside = Arc::new(decisions.director.aside(metrics));
    let pseudo = [(":path", "path", ""), (":method", "method", "POST")].map(|(name, field, or)| {
        let value = fields.get(field).map_or(or, String::as_str);
        (Bytes::from_static(name.as_bytes()), Bytes::copy_from_slice(value.as_bytes()))
    });
    let sent = headers.iter().map(|(name, value)| {
        (Bytes::copy_from_slice(name.as_str().as_bytes()), Bytes::copy_from_slice(value.as_bytes()))
    });
    let headers = pseudo.into_iter().chain(sent).collect();
    let rehearsal = Rehearsal { headers, body, subset: fields.get("subset").cloned() };
    let dice = dice.unwrap_or_else(|| fastrand::u64(..));
    match rehearsal.explain(&aside, &decisions.settings.load_full(), dice, clock::now()) {
        Ok(explanation) => Json(explanation).into_response(),
        Err(refused) => (StatusCode::UNPROCESSABLE_ENTITY, Json(refused)).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_page_of_the_web_is_not_let_in_under_a_name_of_its_own() {
        let local = |host: &'static str| {
            is_local(&HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]))
        };
        for host in ["localhost", "LOCALHOST:9091", "127.0.0.1:9091", "[::1]:9091", "10.0.0.7"] {
            assert!(local(host), "{host}");
        }
        for host in ["evil.example:9091", "localhost.evil.example", "", "127.0.0.1.evil.example"] {
            assert!(!local(host), "{host}");
        }
        assert!(is_local(&HeaderMap::new()));
    }
}
