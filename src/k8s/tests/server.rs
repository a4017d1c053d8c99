//! An API server that plays a script, and a follower of its pods.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use kube::{Api, Client, Config};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_stream::StreamExt;

use crate::k8s::client::Access;
use crate::k8s::convert::{self, Member};
use crate::k8s::follow::{Follower, Listing, Timing};
use crate::k8s::kind::{Kind, Place};
use crate::k8s::types::Pod;

/// How long a test waits for what must come.
pub(super) const SOON: Duration = Duration::from_secs(10);

/// What the API server does with a request.
pub(super) enum Answer {
    /// A status and a body.
    Says(u16, String),
    /// Lines of a watch, which ends after them.
    Lines(Vec<String>),
    /// Lines of a watch, and then nothing.
    Open(Vec<String>),
    /// Nothing at all.
    Silent,
}

/// What it does with the next requests, and what it was asked.
#[derive(Default)]
pub(super) struct Script {
    /// For lists; afterwards [`Script::pods`].
    pub(super) lists: VecDeque<Answer>,
    /// For watches; afterwards nothing happens in them.
    pub(super) watches: VecDeque<Answer>,
    /// Names of the pods that there are, and the version of that.
    pub(super) pods: (Vec<&'static str>, u64),
    /// Whether it tells its version, as an API server does.
    pub(super) versioned: bool,
    /// Paths and queries of all requests.
    pub(super) asked: Vec<String>,
}

/// The API server; it ends with the test.
pub(super) struct Server {
    pub(super) script: Arc<Mutex<Script>>,
    pub(super) client: Client,
    tasks: JoinSet<()>,
}

impl Server {
    pub(super) async fn start(script: Script) -> Self {
        let script = Arc::new(Mutex::new(script));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&script));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum_serve(listener, router).await });
        let config = Config::new(format!("http://{address}").parse().unwrap());
        let client = Access::new(config, None).unwrap().client;
        Self { script, client, tasks }
    }

    /// Follows the pods with `app=a`; the wait for a kind that is absent is 50 ms.
    pub(super) fn follow(&mut self, change: impl FnOnce(&mut Timing)) -> Followed {
        let (labels, selector) = watch::channel(Some("app=a".into()));
        let (listing, listed) = watch::channel(Listing::default());
        let kind = {
            let place = Place { server: "".into(), namespace: "prod".into() };
            Kind::new(("", "pods"), None, &place, "the endpoints")
        };
        let mut timing = Timing::new(Duration::from_millis(50));
        timing.least = Duration::from_millis(10);
        change(&mut timing);
        let follower = Follower {
            api: Api::<Pod>::namespaced(self.client.clone(), "prod"),
            kind: Arc::clone(&kind),
            fields: None,
            convert: convert::member,
            listing,
            timing,
        };
        self.tasks.spawn(follower.run(selector));
        Followed { listed, kind, labels }
    }

    /// How many requests there were whose path and query contain `part`.
    pub(super) fn asked(&self, part: &str) -> usize {
        self.script.lock().asked.iter().filter(|asked| asked.contains(part)).count()
    }

    /// Waits until there were so many.
    pub(super) async fn until_asked(&self, part: &str, count: usize) {
        let wait = async {
            while self.asked(part) < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let asked = tokio::time::timeout(SOON, wait).await;
        assert!(asked.is_ok(), "{:?}", self.script.lock().asked);
    }
}

/// What a follower knows.
pub(super) struct Followed {
    pub(super) listed: watch::Receiver<Listing<Member>>,
    pub(super) kind: Arc<Kind>,
    pub(super) labels: watch::Sender<Option<Arc<str>>>,
}

impl Followed {
    /// Waits until the pods are these.
    pub(super) async fn until(&mut self, names: &[&str]) {
        let same = |listing: &Listing<Member>| {
            listing.complete.is_some() && listing.items().keys().eq(names.iter())
        };
        let reached = tokio::time::timeout(SOON, self.listed.wait_for(same)).await.is_ok();
        assert!(reached, "{names:?}, but {:?} {:?}", *self.listed.borrow(), self.kind.progress());
    }

    /// The pods as they are known now.
    pub(super) fn now(&self) -> Vec<String> {
        self.listed.borrow().items().keys().cloned().collect()
    }

    /// How often it had to ask anew for this reason.
    pub(super) fn restarts(&self, reason: &str) -> u64 {
        self.kind.progress().restarts.get(reason).copied().unwrap_or(0)
    }

    /// Waits until it had to ask anew so often for this reason.
    pub(super) async fn until_restarts(&self, reason: &str, count: u64) {
        let wait = async {
            while self.restarts(reason) < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let failed = tokio::time::timeout(SOON, wait).await;
        assert!(failed.is_ok(), "{reason}: {:?}", self.kind.progress());
    }
}

async fn axum_serve(listener: tokio::net::TcpListener, router: Router) {
    crate::server::http::serve_http(listener, router, std::future::pending()).await;
}

async fn answer(State(script): State<Arc<Mutex<Script>>>, request: Request) -> Response {
    let asked = request.uri().to_string();
    if asked.starts_with("/version") && script.lock().versioned {
        return version().to_string().into_response();
    }
    if !asked.contains("/pods?") {
        return StatusCode::NOT_FOUND.into_response();
    }
    let watches = asked.contains("watch=true");
    let answer = {
        let mut script = script.lock();
        script.asked.push(asked);
        let (names, version) = script.pods.clone();
        let next = if watches { script.watches.pop_front() } else { script.lists.pop_front() };
        let usual = if watches { Answer::Open(Vec::new()) } else { page(&names, version, None) };
        next.unwrap_or(usual)
    };
    match answer {
        Answer::Says(code, body) => (StatusCode::from_u16(code).unwrap(), body).into_response(),
        Answer::Lines(lines) => stream(lines, tokio_stream::empty()),
        Answer::Open(lines) => stream(lines, tokio_stream::pending()),
        Answer::Silent => std::future::pending().await,
    }
}

fn stream(
    lines: Vec<String>,
    rest: impl tokio_stream::Stream<Item = Bytes> + Send + 'static,
) -> Response {
    let lines = lines.into_iter().map(|line| Bytes::from(line + "\n"));
    let all = tokio_stream::iter(lines).chain(rest).map(Ok::<_, Infallible>);
    Body::from_stream(all).into_response()
}

/// A ready pod with an address of its own for each name of up to three letters.
fn pod(name: &str, version: u64) -> Value {
    let mut ip = [0; 4];
    ip.iter_mut().zip(name.bytes().rev()).for_each(|(octet, letter)| *octet = letter);
    json!({"metadata": {"name": name, "namespace": "prod", "uid": name, "resourceVersion": version.to_string()},
           "status": {"podIP": std::net::Ipv4Addr::from(ip), "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn version() -> Value {
    let fields = [
        "buildDate",
        "compiler",
        "gitCommit",
        "gitTreeState",
        "gitVersion",
        "goVersion",
        "major",
        "minor",
        "platform",
    ];
    fields
        .into_iter()
        .map(|field| (field.to_owned(), json!("1")))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// A page of a list; `token` leads to the next.
pub(super) fn page(names: &[&str], version: u64, token: Option<&str>) -> Answer {
    let items: Vec<_> = names.iter().map(|name| pod(name, version)).collect();
    let metadata = json!({"resourceVersion": version.to_string(), "continue": token});
    let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items});
    Answer::Says(200, list.to_string())
}

/// A line of a watch: `ADDED`, `MODIFIED` or `DELETED`.
pub(super) fn event(kind: &str, name: &str, version: u64) -> String {
    json!({"type": kind, "object": pod(name, version)}).to_string()
}

/// A line of a watch that tells the version alone.
pub(super) fn bookmark(version: u64) -> String {
    let metadata = json!({"resourceVersion": version.to_string()});
    let object = json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata});
    json!({"type": "BOOKMARK", "object": object}).to_string()
}

/// How the API server refuses; `wait` is in seconds.
pub(super) fn status(code: u16, wait: u32) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": format!("code {code}"),
           "reason": "Test", "details": {"retryAfterSeconds": wait}})
}

/// The same as an answer.
pub(super) fn refusal(code: u16, wait: u32) -> Answer {
    Answer::Says(code, status(code, wait).to_string())
}
