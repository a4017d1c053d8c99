//! A scripted API server under the real client: objects by path, versions that are compared, faults on demand.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::service_fn;

/// A request that was made: method, path and query, body.
pub(super) type Asked = (Method, String, Value);

/// The server.
#[derive(Clone, Debug, Default)]
pub(super) struct Api {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Value>,
    version: u64,
    fault: Fault,
    asked: Vec<Asked>,
}

/// How it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Fault {
    #[default]
    None,
    /// This HTTP status to what writes.
    Refuses(StatusCode),
    /// Not at all.
    Hangs,
    /// It does what is asked, and does not answer.
    LosesAnswers,
}

impl Api {
    /// A client of it.
    pub(super) fn client(&self) -> Client {
        let api = self.clone();
        let serve = move |request: Request<Body>| {
            let api = api.clone();
            async move { Ok::<_, std::io::Error>(api.serve(request).await) }
        };
        Client::new(service_fn(serve), "ns")
    }

    /// How it answers from now on.
    pub(super) fn set(&self, fault: Fault) {
        self.state.lock().fault = fault;
    }

    /// All requests since this was last called.
    pub(super) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state.lock().asked)
    }

    /// The object whose path ends so.
    pub(super) fn object(&self, end: &str) -> Option<Value> {
        let state = self.state.lock();
        state.objects.iter().find(|(path, _)| path.ends_with(end)).map(|(_, object)| object.clone())
    }

    /// Makes or replaces an object, as another client would.
    pub(super) fn put(&self, path: &str, object: Value) {
        self.state.lock().put(path.to_owned(), object);
    }

    /// Removes an object, as another client would.
    pub(super) fn remove(&self, end: &str) {
        self.state.lock().objects.retain(|path, _| !path.ends_with(end));
    }

    /// Changes the object whose path ends so, as another client would.
    pub(super) fn edit(&self, end: &str, change: impl FnOnce(&mut Value)) {
        let mut state = self.state.lock();
        state.version += 1;
        let version = state.version.to_string();
        let (_, object) = state.objects.iter_mut().find(|(path, _)| path.ends_with(end)).unwrap();
        change(object);
        object["metadata"]["resourceVersion"] = json!(version);
    }

    async fn serve(&self, request: Request<Body>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let path = head.uri.path_and_query().unwrap().to_string();
        let fault = {
            let mut state = self.state.lock();
            state.asked.push((head.method.clone(), path, body));
            state.fault
        };
        if fault == Fault::Hangs {
            std::future::pending::<()>().await;
        }
        let answer = self.state.lock().answer(&head.method, head.uri.path());
        if fault == Fault::LosesAnswers {
            std::future::pending::<()>().await;
        }
        let (code, object) = answer.unwrap_or_else(|code| (code, failure(code)));
        let body = serde_json::to_vec(&object).unwrap();
        Response::builder().status(code).body(Body::from(body)).unwrap()
    }
}

impl State {
    fn answer(&mut self, method: &Method, path: &str) -> Result<(StatusCode, Value), StatusCode> {
        let body = self.asked.last().unwrap().2.clone();
        if let (Fault::Refuses(code), true) = (self.fault, method != Method::GET) {
            return Err(code);
        }
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        let made = format!("{path}/{name}");
        let path = if method == Method::POST { &made } else { path.trim_end_matches("/status") };
        let known = self.objects.get(path);
        let version = known.map(|known| known["metadata"]["resourceVersion"].clone());
        let object = match (method, known, version) {
            (&Method::GET, Some(known), _) => return Ok((StatusCode::OK, known.clone())),
            (&Method::POST, None, _) => body,
            (&Method::PUT, _, Some(version)) if version == body["metadata"]["resourceVersion"] => {
                body
            }
            (&Method::PATCH, Some(known), Some(version))
                if body["metadata"].get("resourceVersion").is_none_or(|seen| *seen == version) =>
            {
                merged(known, &body)
            }
            (_, Some(_), _) => return Err(StatusCode::CONFLICT),
            _ => return Err(StatusCode::NOT_FOUND),
        };
        self.put(path.to_owned(), object);
        Ok((StatusCode::OK, self.objects[path].clone()))
    }

    fn put(&mut self, path: String, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(path, object);
    }
}

/// An object with the top-level fields of a patch, but its own metadata.
fn merged(object: &Value, patch: &Value) -> Value {
    let mut object = object.clone();
    for (field, value) in patch.as_object().unwrap() {
        if field != "metadata" {
            object[field] = value.clone();
        }
    }
    object
}

fn failure(code: StatusCode) -> Value {
    let reason = code.canonical_reason().unwrap_or_default().replace(' ', "");
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16(),
        "message": "refused by the test", "reason": reason})
}
