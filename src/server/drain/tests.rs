use std::collections::BTreeMap;

use axum::body::{Body, to_bytes};
use axum::http::Method;
use tower::ServiceExt;

use super::*;
use crate::pool::{EndpointSpec, InFlight, State};

/// A pool of one pod with two endpoints and its writer.
struct Rig {
    drains: Drains,
    pool: Arc<ArcSwap<Snapshot>>,
    _writer: tokio::task::JoinSet<()>,
}

impl Rig {
    fn new() -> Self {
        let mut state = State::new(Duration::from_secs(2));
        let spec = |rank: u16| EndpointSpec {
            name: format!("pod-rank-{rank}"),
            namespace: "default".to_owned(),
            address: ([10, 0, 0, 1], 8000 + rank).into(),
            labels: BTreeMap::new(),
            uid: "u".to_owned(),
            other_ips: Vec::new(),
        };
        state.apply(Event::Endpoints((0..2).map(spec).collect()), clock::now());
        let pool = Arc::new(ArcSwap::from_pointee(state.snapshot()));
        let (events, mut queue) = mpsc::channel(8);
        let mut writer = tokio::task::JoinSet::new();
        let published = Arc::clone(&pool);
        writer.spawn(async move {
            while let Some(event) = queue.recv().await {
                state.apply(event, clock::now());
                published.store(Arc::new(state.snapshot()));
            }
        });
        Self { drains: Drains::new(Arc::clone(&pool), events), pool, _writer: writer }
    }

    /// Status and text of an answer of either port.
    async fn ask(&self, method: Method, path: &str, origin: Option<&str>) -> (u16, String) {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(origin) = origin {
            request = request.header(ORIGIN, origin);
        }
        let routes = self.drains.wait_router().merge(self.drains.order_router());
        let answer = routes.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let status = answer.status().as_u16();
        let body = to_bytes(answer.into_body(), 1 << 16).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn get(&self, path: &str) -> (u16, String) {
        self.ask(Method::GET, path, None).await
    }

    fn begin(&self) -> InFlight {
        let pool = self.pool.load();
        InFlight::begin(&pool.endpoints().next().unwrap().live, 1)
    }
}

fn states(json: &str) -> Vec<(String, Phase)> {
    let told: Vec<Remaining> = serde_json::from_str(json).unwrap();
    told.into_iter().map(|it| (it.endpoint, it.state)).collect()
}

#[tokio::test]
async fn an_order_holds_until_it_is_withdrawn() {
    let rig = Rig::new();
    let all = |phase| ["pod-rank-0", "pod-rank-1"].map(|name| (name.to_owned(), phase));
    let (status, told) = rig.ask(Method::POST, "/endpoints/pod/drain", None).await;
    assert_eq!((status, states(&told)), (200, all(Phase::Draining).to_vec()));
    let (_, told) = rig.ask(Method::DELETE, "/endpoints/pod-rank-1/drain", None).await;
    assert_eq!(states(&told), [("pod-rank-1".to_owned(), Phase::New)]);
    assert_eq!(rig.pool.load().ready().len(), 1);
    rig.ask(Method::DELETE, "/endpoints/pod/drain", None).await;
    let (_, told) = rig.get("/endpoints/pod/drain").await;
    assert_eq!(states(&told), all(Phase::New));
    assert_eq!(rig.get("/endpoints/other/drain").await.0, 404);
}

#[tokio::test]
async fn a_web_page_orders_nothing() {
    let rig = Rig::new();
    for method in [Method::POST, Method::DELETE, Method::GET] {
        let (status, _) =
            rig.ask(method, "/endpoints/pod/drain", Some("http://127.0.0.1:9091")).await;
        assert_eq!(status, 403);
    }
    assert_eq!(rig.pool.load().ready().len(), 2);
}

// FR-160
#[tokio::test]
async fn a_wait_begins_a_drain_and_lasts_until_nothing_is_left() {
    let rig = Rig::new();
    let request = rig.begin();
    let (status, told) = rig.get("/drain/wait?pod=pod&timeout=400ms").await;
    assert_eq!(status, 504, "{told}");
    assert!(told.contains("pod-rank-0: draining (awaited), 1 of our requests"), "{told}");
    assert!(!told.contains("pod-rank-1"), "{told}");
    let end = async {
        while rig.pool.load().in_service() > 0 {
            sleep(LOOK).await;
        }
        drop(request);
    };
    let ((), (status, told)) = tokio::join!(end, rig.get("/drain/wait?pod=pod&timeout=1m"));
    assert_eq!((status, told.as_str()), (200, "pod: drained\n"));
}

#[tokio::test]
async fn a_wait_that_cannot_be_is_refused_with_the_reason() {
    let rig = Rig::new();
    for (query, status, why) in [
        ("", 400, "give the pod: ?pod=NAME\n"),
        ("?pod=other", 404, "the pool has no endpoint and no pod named \"other\"\n"),
        ("?pod=pod&timeout=6m", 400, "timeout: 6m is longer than 5m, give less and ask again\n"),
        ("?pod=pod&timeout=x", 400, "timeout: `x` is no duration such as 50ms, 2s or 1m30s\n"),
    ] {
        let (seen, told) = rig.get(&format!("/drain/wait{query}")).await;
        assert_eq!((seen, told.as_str()), (status, why));
    }
    assert_eq!(rig.pool.load().in_service(), 2, "nothing drains");
    let _all = rig.drains.waits.try_acquire_many(u32::try_from(WAITS).unwrap()).unwrap();
    assert_eq!(rig.get("/drain/wait?pod=pod").await.0, 503);
}
