//! What a simulated server answers to which request.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde_json::json as object;

use super::{
    answer,
    ask::Api,
    denial::{Denial, json},
    fault::{Fault, FaultOrder},
    openai,
    page::{self, Facts},
    record::Record,
    server::{Server, Shared},
};

/// Bytes of a request body; a larger one is answered 413.
const MAX_BODY_BYTES: usize = 128 * 1024 * 1024;

/// Header of every response: the address of the server that made it.
const SERVER_HEADER: &str = "x-sim-server";

/// Answers one request.
pub(super) async fn respond(server: Arc<Server>, request: Request<Incoming>) -> Response<Body> {
    let address = server.address.to_string();
    let mut response = route(&server, &address, request).await;
    if let Ok(address) = HeaderValue::try_from(address) {
        response.headers_mut().insert(SERVER_HEADER, address);
    }
    response
}

async fn route(server: &Server, address: &str, request: Request<Incoming>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let (body, trailers) = match read(body).await {
        Ok(read) => read,
        Err(response) => return response,
    };
    let path = parts.uri.path();
    match (&parts.method, path) {
        (&Method::GET, "/health") => return Response::new(Body::empty()),
        (&Method::GET, "/metrics") => return metrics(server).await,
        (&Method::GET, "/sim/requests") => return requests(server),
        (&Method::POST, "/sim/fault") => return fault(Some(server.index), &server.shared, &body),
        _ => {}
    }
    let record = Record::new(address, &parts, &body, &trailers);
    server.record(record.clone());
    if path.starts_with("/v1/") && server.fault() == Fault::Error500 {
        return Denial::Ordered.response();
    }
    if parts.method == Method::POST
        && let Some(api) = Api::of(path)
    {
        let (driver, catalog) = (&server.driver, &server.shared.catalog);
        let answer = answer::respond(driver, catalog, api, &body, unix_time().as_secs()).await;
        return answer.unwrap_or_else(|denial| denial.response());
    }
    match (&parts.method, path) {
        (&Method::GET, "/version") => {
            json(StatusCode::OK, &object!({"version": env!("CARGO_PKG_VERSION")}))
        }
        (&Method::GET, "/v1/models") => {
            let length = server.driver.spec().kv_tokens;
            let catalog = &server.shared.catalog;
            json(StatusCode::OK, &openai::models(catalog, unix_time().as_secs(), length))
        }
        _ => json(StatusCode::OK, &object!(record)),
    }
}

/// Answers one request on the port of the fleet.
pub(super) async fn administer(
    servers: Arc<[Arc<Server>]>,
    request: Request<Incoming>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = match read(body).await {
        Ok((body, _)) => body,
        Err(response) => return response,
    };
    let query = parts.uri.query().unwrap_or_default();
    let index = query.strip_prefix("server=").and_then(|index| index.parse::<usize>().ok());
    let server = servers.get(index.unwrap_or(0));
    match (&parts.method, parts.uri.path(), server) {
        (&Method::GET, "/sim/requests", Some(server)) => requests(server),
        (&Method::POST, "/sim/fault", Some(server)) => fault(None, &server.shared, &body),
        _ => json(StatusCode::NOT_FOUND, &object!({"error": "no such path or server"})),
    }
}

async fn read(body: Incoming) -> Result<(Bytes, HeaderMap), Response<Body>> {
    let collected = Limited::new(body, MAX_BODY_BYTES).collect().await.map_err(|error| {
        let status = if error.is::<http_body_util::LengthLimitError>() {
            StatusCode::PAYLOAD_TOO_LARGE
        } else {
            StatusCode::BAD_REQUEST
        };
        json(status, &object!({"error": "the body could not be read"}))
    })?;
    let trailers = collected.trailers().cloned().unwrap_or_default();
    Ok((collected.to_bytes(), trailers))
}

fn requests(server: &Server) -> Response<Body> {
    json(StatusCode::OK, &object!(server.records()))
}

fn fault(asked: Option<usize>, shared: &Shared, body: &[u8]) -> Response<Body> {
    let refused = |error: &str| json(StatusCode::BAD_REQUEST, &object!({ "error": error }));
    match serde_json::from_slice::<FaultOrder>(body) {
        Ok(order) => match order.carry_out(asked, &shared.faults) {
            Ok(()) => json(StatusCode::OK, &object!({})),
            Err(error) => refused(&error.to_string()),
        },
        Err(error) => refused(&error.to_string()),
    }
}

async fn metrics(server: &Server) -> Response<Body> {
    match server.fault() {
        Fault::MetricsHanging => std::future::pending().await,
        Fault::MetricsError500 => json(StatusCode::INTERNAL_SERVER_ERROR, &object!({})),
        Fault::MetricsGarbage => text(Body::from(vec![0xff; 4_096])),
        Fault::MetricsEndless => {
            let line = Bytes::from_static(b"# this page has no end, and nothing on it\n");
            let lines = std::iter::repeat_with(move || Ok::<_, Denial>(line.clone()));
            text(Body::from_stream(tokio_stream::iter(lines)))
        }
        Fault::MetricsFrozen => {
            let mut frozen = server.frozen.lock();
            text(Body::from(frozen.get_or_insert_with(|| live_page(server)).clone()))
        }
        Fault::None | Fault::Slow { .. } | Fault::Wedged | Fault::Error500 | Fault::Down => {
            server.frozen.lock().take();
            text(Body::from(live_page(server)))
        }
    }
}

fn live_page(server: &Server) -> String {
    let shared = &server.shared;
    let facts = Facts {
        load: &server.driver.load(),
        spec: server.driver.spec(),
        catalog: &shared.catalog,
        now: unix_time().as_secs_f64(),
    };
    let series = page::series(shared.dialect, &facts);
    match &shared.page {
        Some(recorded) => page::overlay(recorded, &series),
        None => page::render(&series),
    }
}

fn text(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[expect(clippy::disallowed_methods, reason = "the shell reads the clock")]
fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
