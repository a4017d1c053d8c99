//! Drains by HTTP: orders on the admin port, and on the metrics port a wait for whoever ends a model server.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use axum::extract::{Path, Query, Request};
use axum::http::StatusCode;
use axum::http::header::ORIGIN;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::sleep;

use crate::pool::{Drain, EndpointId, Event, Phase, Reason, Remaining, Snapshot};
use crate::units::GoDuration;

use super::clock;

/// Waits at a time; more are refused, so that they do not push out those who read metrics.
const WAITS: usize = 128;

/// The longest wait: a connection of the port lives no longer.
const LONGEST_WAIT: Duration = Duration::from_mins(5);

/// A wait without a time-out: a little less than what a wait at the end of a pod may take by default.
const USUAL_WAIT: Duration = Duration::from_secs(25);

/// A drain that was begun by a wait holds for so long after its time-out, so that one that leads to nothing does not leave a server
/// idle for ever.
const AFTER_WAIT: Duration = Duration::from_mins(5);

/// Between two looks at what is left.
const LOOK: Duration = Duration::from_millis(100);

/// How long an order may take to show.
const SHOWS_WITHIN: Duration = Duration::from_secs(2);

/// Orders drains and sees how they go.
#[derive(Clone, Debug)]
pub struct Drains {
    pool: Arc<ArcSwap<Snapshot>>,
    events: mpsc::Sender<Event>,
    waits: Arc<Semaphore>,
}

/// Why nothing is drained.
#[derive(Debug)]
enum Refusal {
    Bad(String),
    Unknown(String),
    Crowded,
    Late(String),
}

impl Drains {
    /// Drains of a pool, which takes the orders as `events`.
    pub fn new(pool: Arc<ArcSwap<Snapshot>>, events: mpsc::Sender<Event>) -> Self {
        Self { pool, events, waits: Arc::new(Semaphore::new(WAITS)) }
    }

    /// The route of the metrics port, `/drain/wait?pod=NAME&timeout=110s`: begins a drain and answers when it is over.
    pub fn wait_router(&self) -> Router {
        let drains = self.clone();
        let wait = get(async move |Query(fields): Query<HashMap<String, String>>| {
            drains.wait(&fields).await.unwrap_or_else(Refusal::into_response)
        });
        Router::new().route("/drain/wait", wait)
    }

    /// The route of the admin port, `/endpoints/{name}/drain`: POST orders a drain, DELETE withdraws the order, GET tells
    /// what is left. Requests of web pages are refused: one of another site would be sent with no question asked.
    pub fn order_router(&self) -> Router {
        let [told, ordered, withdrawn] = [self.clone(), self.clone(), self.clone()];
        let orders = get(async move |Path(name): Path<String>| told.told(&name))
            .post(async move |Path(name): Path<String>| {
                ordered.order(&name, Some(Drain::ordered())).await
            })
            .delete(async move |Path(name): Path<String>| withdrawn.order(&name, None).await);
        Router::new().route("/endpoints/{name}/drain", orders).layer(from_fn(
            async |request: Request, next: Next| {
                if request.headers().contains_key(ORIGIN) {
                    return (StatusCode::FORBIDDEN, "not from a web page\n").into_response();
                }
                next.run(request).await
            },
        ))
    }

    fn told(&self, name: &str) -> Response {
        match self.named(name) {
            Ok(ids) => Json(self.left(&ids)).into_response(),
            Err(refusal) => refusal.into_response(),
        }
    }

    async fn order(&self, name: &str, drain: Option<Drain>) -> Response {
        let ids = match self.named(name) {
            Ok(ids) => ids,
            Err(refusal) => return refusal.into_response(),
        };
        self.send(&ids, drain).await;
        Json(self.left(&ids)).into_response()
    }

    async fn wait(&self, fields: &HashMap<String, String>) -> Result<Response, Refusal> {
        let name = fields.get("pod").filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Refusal::Bad("give the pod: ?pod=NAME".to_owned()))?;
        let timeout = timeout(fields.get("timeout").map(String::as_str))?;
        let _turn = self.waits.try_acquire().map_err(|_full| Refusal::Crowded)?;
        let ids = self.named(name)?;
        let begun = clock::now();
        let until = begun.checked_add(timeout + AFTER_WAIT);
        // A wait that came before holds for less long than this one.
        let stays = |id: &EndpointId| {
            self.phase(*id) != Some(Phase::Draining) || self.reason(*id) == Some(Reason::Awaited)
        };
        let awaited = Drain { reason: Reason::Awaited, until, ..Drain::ordered() };
        let new: Vec<_> = ids.iter().copied().filter(stays).collect();
        self.send(&new, Some(awaited)).await;
        loop {
            let left: Vec<_> = self.left(&ids).into_iter().filter(|it| !it.drained).collect();
            if left.is_empty() {
                return Ok((StatusCode::OK, format!("{name}: drained\n")).into_response());
            }
            if clock::now().saturating_duration_since(begun) >= timeout {
                return Err(Refusal::Late(lines(&left)));
            }
            sleep(LOOK).await;
        }
    }

    /// The endpoints of a name.
    fn named(&self, name: &str) -> Result<Vec<EndpointId>, Refusal> {
        let ids: Vec<_> = self.pool.load().named(name).map(|endpoint| endpoint.id).collect();
        if ids.is_empty() { Err(Refusal::Unknown(name.to_owned())) } else { Ok(ids) }
    }

    /// Sends an order for each, and waits until it shows.
    async fn send(&self, ids: &[EndpointId], drain: Option<Drain>) {
        for &id in ids {
            // Without a pool there is nothing to drain.
            let _unheard = self.events.send(Event::Drain { id, drain }).await.is_err();
        }
        let begun: Instant = clock::now();
        let shows = |id: &EndpointId| match (self.phase(*id), drain) {
            (None, _) => true,
            (Some(phase), Some(_)) => phase == Phase::Draining,
            // Another cause may hold on.
            (Some(_), None) => !matches!(self.reason(*id), Some(Reason::Ordered | Reason::Awaited)),
        };
        while !ids.iter().all(shows) && clock::now().saturating_duration_since(begun) < SHOWS_WITHIN
        {
            sleep(LOOK / 10).await;
        }
    }

    /// What is left on those that are still there.
    fn left(&self, ids: &[EndpointId]) -> Vec<Remaining> {
        let (pool, now) = (self.pool.load(), clock::now());
        let there = ids.iter().filter(|id| pool.by_id(**id).is_some());
        there.filter_map(|id| pool.remaining(id.slot, now)).collect()
    }

    fn phase(&self, id: EndpointId) -> Option<Phase> {
        let pool = self.pool.load();
        pool.by_id(id).and_then(|_| Some(pool.life(id.slot)?.phase))
    }

    fn reason(&self, id: EndpointId) -> Option<Reason> {
        let pool = self.pool.load();
        pool.by_id(id).and_then(|_| Some(pool.life(id.slot)?.reason))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, text) = match self {
            Self::Bad(text) => (StatusCode::BAD_REQUEST, text),
            Self::Unknown(name) => (
                StatusCode::NOT_FOUND,
                format!("the pool has no endpoint and no pod named {name:?}"),
            ),
            Self::Crowded => {
                let text = format!("{WAITS} others wait, come again");
                (StatusCode::SERVICE_UNAVAILABLE, text)
            }
            Self::Late(left) => {
                (StatusCode::GATEWAY_TIMEOUT, format!("not drained in time\n{left}"))
            }
        };
        (status, text.trim_end().to_owned() + "\n").into_response()
    }
}

fn timeout(text: Option<&str>) -> Result<Duration, Refusal> {
    let Some(text) = text else { return Ok(USUAL_WAIT) };
    let bad = |why: String| Refusal::Bad(format!("timeout: {why}"));
    let GoDuration(timeout) = text.parse().map_err(|error| bad(format!("{error}")))?;
    if timeout > LONGEST_WAIT {
        return Err(bad(format!("{text} is longer than 5m, give less and ask again")));
    }
    Ok(timeout)
}

fn lines(left: &[Remaining]) -> String {
    let mut text = String::new();
    for endpoint in left {
        let written = writeln!(text, "{endpoint}");
        debug_assert!(written.is_ok(), "a string takes everything");
    }
    text
}

#[cfg(test)]
mod tests;
