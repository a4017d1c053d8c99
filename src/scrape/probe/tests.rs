use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use prometheus::Opts;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;
use crate::pool::{EndpointSpec, Event, Phase, State};
use crate::server::clock;

const DEADLINE: Duration = Duration::from_secs(30);

const TOKEN: &str = r#"{"choices":[{"text":" 2"}],"usage":{"completion_tokens":1}}"#;

/// A server that answers questions for a token as told, an endpoint of it, and a prober.
struct Rig {
    endpoint: Arc<Endpoint>,
    asked: Arc<AtomicUsize>,
    prober: Prober,
    model: Model,
    _task: JoinSet<std::io::Result<()>>,
}

impl Rig {
    async fn new<F: Future<Output = Response> + Send>(
        interval: Option<Duration>,
        answer: impl Fn(usize) -> F + Clone + Send + Sync + 'static,
    ) -> Self {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let route = post(move |body: String| {
            assert!(body.contains(r#""max_tokens":1"#) && body.contains(r#""model":"m""#));
            answer(count.fetch_add(1, Ordering::Relaxed))
        });
        let router = Router::new().route("/v1/completions", route);
        let mut task = JoinSet::new();
        task.spawn(async move { axum::serve(listener, router).await });
        let results = IntCounterVec::new(Opts::new("probes", "help"), &["result"]).unwrap();
        let prober = Prober::new(&Page::default(), Probing { interval, results }).unwrap();
        let model = Model::default();
        model.listed(&["m", "other"].into_iter().collect());
        Self { endpoint: endpoint(address), asked, prober, model, _task: task }
    }

    /// Probes until the condition is met.
    async fn until(&self, condition: impl Fn(&Self) -> bool) {
        let watch = self.prober.watch(&self.endpoint, &self.model);
        let met = async {
            while !condition(self) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            () = watch => panic!("ended"),
            met = timeout(DEADLINE, met) => met.expect("in time"),
        }
    }

    fn results(&self, result: &str) -> u64 {
        self.prober.probing.results.with_label_values(&[result]).get()
    }
}

fn endpoint(address: SocketAddr) -> Arc<Endpoint> {
    let mut state = State::new(Duration::from_secs(2));
    let spec = EndpointSpec {
        name: "pod".to_owned(),
        namespace: String::new(),
        address,
        labels: BTreeMap::new(),
        uid: String::new(),
        other_ips: Vec::new(),
    };
    state.apply(Event::Endpoints(vec![spec]), clock::now());
    Arc::clone(state.snapshot().endpoints().next().unwrap())
}

#[tokio::test]
async fn an_endpoint_that_gave_no_token_for_a_while_is_asked_for_one() {
    let often = Some(Duration::from_millis(20));
    let rig = Rig::new(often, |_| std::future::ready(TOKEN.into_response())).await;
    rig.until(|rig| rig.results("token") >= 3 && rig.endpoint.live.tokens() >= 3).await;
    let busy =
        Rig::new(Some(Duration::from_millis(200)), |_| std::future::ready(TOKEN.into_response()))
            .await;
    busy.until(|rig| {
        // A token in each moment.
        rig.endpoint.live.proven();
        rig.endpoint.live.tokens() > 40
    })
    .await;
    assert_eq!(busy.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_doubt_is_asked_about_until_a_token_comes() {
    let rig = Rig::new(None, |asked| async move {
        match asked {
            0 => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            1 => StatusCode::TOO_MANY_REQUESTS.into_response(),
            2 => std::future::pending().await,
            _ => TOKEN.into_response(),
        }
    })
    .await;
    rig.endpoint.live.doubt_for_test();
    rig.until(|rig| rig.results("token") == 1).await;
    assert_eq!((rig.results("failed"), rig.results("busy")), (2, 1));
    let looks = AtomicUsize::new(0);
    rig.until(|_| looks.fetch_add(1, Ordering::Relaxed) > 20).await;
    assert_eq!(rig.asked.load(Ordering::Relaxed), 4, "and then no more");
}

#[tokio::test]
async fn a_server_that_does_not_take_the_question_is_not_held_to_it() {
    for answer in [StatusCode::NOT_FOUND, StatusCode::UNAUTHORIZED, StatusCode::OK] {
        let rig =
            Rig::new(None, move |_| std::future::ready((answer, "no JSON").into_response())).await;
        rig.endpoint.live.probe_failed();
        rig.endpoint.live.doubt_for_test();
        rig.until(|rig| {
            rig.results("declined") == 1 && rig.endpoint.live.strikes_for_test().is_none()
        })
        .await;
    }
}

#[tokio::test]
async fn a_probe_that_fails_while_tokens_come_is_not_held_against_a_server() {
    let rig = Rig::new(None, |_| std::future::pending()).await;
    rig.endpoint.live.doubt_for_test();
    rig.until(|rig| {
        if rig.asked.load(Ordering::Relaxed) > 0 && rig.results("failed") == 0 {
            rig.endpoint.live.proven();
        }
        rig.results("failed") == 1
    })
    .await;
    assert_eq!(rig.endpoint.live.strikes_for_test(), Some(0));
}

#[tokio::test]
async fn an_endpoint_that_drains_is_not_asked() {
    let often = Some(Duration::from_millis(20));
    let rig = Rig::new(often, |_| std::future::ready(TOKEN.into_response())).await;
    rig.endpoint.live.stands_for_test(Phase::Draining);
    rig.endpoint.live.doubt_for_test();
    let looks = std::cell::Cell::new(0);
    rig.until(|_| looks.replace(looks.get() + 1) > 40).await;
    assert_eq!(rig.asked.load(Ordering::Relaxed), 0);
    rig.endpoint.live.stands_for_test(Phase::Ready);
    rig.until(|rig| rig.results("token") > 0).await;
}

#[tokio::test]
async fn nobody_is_asked_before_a_model_is_known() {
    let rig = Rig::new(None, |_| std::future::ready(TOKEN.into_response())).await;
    let nameless = Rig { model: Model::default(), ..rig };
    nameless.endpoint.live.probe_failed();
    nameless.endpoint.live.doubt_for_test();
    nameless.until(|rig| rig.endpoint.live.strikes_for_test().is_none()).await;
    assert_eq!(nameless.asked.load(Ordering::Relaxed), 0);
    nameless.model.named(&["m"].into_iter().collect());
    nameless.endpoint.live.doubt_for_test();
    nameless.until(|rig| rig.results("token") == 1).await;
}

#[test]
fn the_list_of_models_stands_over_the_names_of_series() {
    let (model, names) =
        (Model::default(), |names: &[&str]| names.iter().copied().collect::<Names>());
    model.named(&names(&["series"]));
    assert_eq!(model.name().as_deref(), Some("series"));
    model.listed(&names(&["a", "b"]));
    model.named(&names(&["series"]));
    assert_eq!(model.name().as_deref(), Some("a"));
    model.listed(&names(&["b", "a"]));
    assert_eq!(model.name().as_deref(), Some("a"), "it is still served");
    model.listed(&names(&["c"]));
    model.listed(&names(&[]));
    assert_eq!(model.name().as_deref(), Some("c"));
}
