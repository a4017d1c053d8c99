use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, timeout};

use super::pace::{SLOW, STEADY};
use super::*;
use crate::config::Engines;
use crate::pool::{EndpointSpec, InFlight, Sample, State};

mod fleet;
mod sources;

const GOOD: &str =
    "vllm:num_requests_waiting 3\nvllm:num_requests_running 2\nvllm:kv_cache_usage_perc 0.5\n";
const IDLE: &str = "vllm:num_requests_waiting 0\nvllm:num_requests_running 0\n";
const DEADLINE: Duration = Duration::from_secs(30);

/// A model server that answers every scrape as told; it ends with the test.
struct Server {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    _task: JoinSet<std::io::Result<()>>,
}

impl Server {
    async fn new<F: Future<Output = Response> + Send>(
        answer: impl Fn(usize) -> F + Clone + Send + Sync + 'static,
    ) -> Self {
        Self::at(([127, 0, 0, 1], 0).into(), answer).await
    }

    async fn at<F: Future<Output = Response> + Send>(
        address: SocketAddr,
        answer: impl Fn(usize) -> F + Clone + Send + Sync + 'static,
    ) -> Self {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let page = move || answer(count.fetch_add(1, Ordering::Relaxed));
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut task = JoinSet::new();
        let router = Router::new().route("/metrics", get(page));
        task.spawn(async move { axum::serve(listener, router).await });
        Self { address, asked, _task: task }
    }

    async fn constant(answer: impl Fn() -> Response + Clone + Send + Sync + 'static) -> Self {
        Self::new(move |_| std::future::ready(answer())).await
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

fn defaults() -> Sources {
    Sources { metrics: Some(Page::default()), models: None, engines: Engines::default() }
}

fn scraper(pace: Pace, events: mpsc::Sender<Event>, counters: Arc<Counters>) -> Scraper {
    let interval = match pace {
        Pace::Fixed(interval) => Some(interval),
        Pace::Adaptive => None,
    };
    Scraper::new(&defaults(), interval, events, counters).unwrap().unwrap()
}

/// A scraper over a pool that the test changes; it ends with the test.
struct Bench {
    state: State,
    pool: watch::Sender<Arc<Snapshot>>,
    events: mpsc::Receiver<Event>,
    counters: Arc<Counters>,
    task: JoinSet<()>,
}

impl Bench {
    fn new(addresses: &[SocketAddr], pace: Pace, queue: usize) -> Self {
        Self::with(addresses, queue, |events, counters| scraper(pace, events, counters))
    }

    fn with(
        addresses: &[SocketAddr],
        queue: usize,
        scraper: impl FnOnce(mpsc::Sender<Event>, Arc<Counters>) -> Scraper,
    ) -> Self {
        let (sender, events) = mpsc::channel(queue);
        let counters = Arc::new(Counters::default());
        let (pool, receiver) = watch::channel(Arc::new(Snapshot::default()));
        let scraper = scraper(sender, Arc::clone(&counters));
        let mut task = JoinSet::new();
        task.spawn(Arc::new(scraper).run(receiver));
        let mut bench = Self { state: State::new(DEADLINE), pool, events, counters, task };
        bench.members(addresses);
        bench
    }

    #[expect(clippy::disallowed_methods, reason = "real time")]
    fn members(&mut self, addresses: &[SocketAddr]) {
        let spec = |address: &SocketAddr| EndpointSpec {
            name: address.to_string(),
            namespace: "default".to_owned(),
            address: *address,
            labels: BTreeMap::new(),
            uid: String::new(),
            other_ips: Vec::new(),
        };
        let list = Event::Endpoints(addresses.iter().map(spec).collect());
        self.state.apply(list, std::time::Instant::now());
        self.pool.send_replace(Arc::new(self.state.snapshot()));
    }

    /// Labels all endpoints.
    fn label(&mut self, key: &str, value: &str) {
        let snapshot = self.state.snapshot();
        let labeled = |endpoint: &Arc<Endpoint>| EndpointSpec {
            labels: [(key.to_owned(), value.to_owned())].into(),
            ..endpoint.spec.clone()
        };
        let list = Event::Endpoints(snapshot.endpoints().map(labeled).collect());
        #[expect(clippy::disallowed_methods, reason = "real time")]
        self.state.apply(list, std::time::Instant::now());
        self.pool.send_replace(Arc::new(self.state.snapshot()));
    }

    fn endpoint(&self, address: SocketAddr) -> Arc<Endpoint> {
        let snapshot = self.pool.borrow();
        Arc::clone(snapshot.endpoint(snapshot.by_address(address).unwrap()).unwrap())
    }

    async fn next(&mut self) -> (EndpointId, Sample, Duration) {
        loop {
            let event = timeout(DEADLINE, self.events.recv()).await.expect("a sample in time");
            match event {
                Some(Event::Scraped { id, sample, interval, .. }) => return (id, sample, interval),
                Some(Event::Listed { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Waits until failures of `reason` were counted.
    async fn failures(&self, reason: &str, least: u64) {
        let count = || self.counters.errors().find(|(of, _)| *of == reason).unwrap().1;
        let enough = async {
            while count() < least {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = timeout(DEADLINE, enough).await;
        assert!(waited.is_ok(), "{:?}", self.counters.errors().collect::<Vec<_>>());
    }
}

/// Where log lines go.
struct Log(Arc<parking_lot::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What this thread logs until the guard is dropped.
fn log() -> (Arc<parking_lot::Mutex<Vec<u8>>>, tracing::subscriber::DefaultGuard) {
    let log = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let writer = Arc::clone(&log);
    let subscriber =
        tracing_subscriber::fmt().with_writer(move || Log(Arc::clone(&writer))).finish();
    (log, tracing::subscriber::set_default(subscriber))
}

fn endless() -> Response {
    let line = Bytes::from("x".repeat(99_999) + "\n");
    let (sender, receiver) = mpsc::channel::<Result<Bytes, std::io::Error>>(1);
    let mut writer = JoinSet::new();
    writer.spawn(async move { while sender.send(Ok(line.clone())).await.is_ok() {} });
    writer.detach_all();
    Body::from_stream(tokio_stream::wrappers::ReceiverStream::new(receiver)).into_response()
}

#[tokio::test]
async fn a_page_becomes_a_sample_of_its_endpoint() {
    let server = Server::constant(|| GOOD.into_response()).await;
    let mut bench = Bench::new(&[server.address], Pace::Adaptive, 8);
    let (id, sample, interval) = bench.next().await;
    assert_eq!((id, interval), (bench.endpoint(server.address).id, STEADY), "it is busy");
    let expected =
        Sample { waiting: Some(3.0), running: Some(2.0), kv_usage: Some(0.5), ..Sample::default() };
    assert_eq!(sample, expected);
}

// FR-086
#[tokio::test]
async fn a_page_that_lacks_what_its_engine_need_not_tell_is_no_failure() {
    for page in
        [GOOD, "sglang:num_queue_reqs 1\nsglang:num_running_reqs 0\nsglang:token_usage 0.1\n"]
    {
        let server = Server::constant(move || page.into_response()).await;
        let mut bench = Bench::new(&[server.address], Pace::Fixed(Duration::from_millis(1)), 8);
        for _ in 0..4 {
            assert_eq!(bench.next().await.1.adapters, None);
        }
        assert_eq!(bench.counters.errors().map(|(_, count)| count).sum::<u64>(), 0);
    }
}

// FR-085
#[tokio::test]
async fn a_metric_that_is_gone_from_a_page_is_told_once_by_its_name() {
    let (log, _guard) = log();
    let renamed = GOOD.replace("vllm:kv_cache_usage_perc", "vllm:new_cache_usage");
    let answer = move |asked| {
        let page = if asked < 3 { GOOD.to_owned() } else { renamed.clone() };
        std::future::ready(page.into_response())
    };
    let server = Server::new(answer).await;
    let mut bench = Bench::new(&[server.address], Pace::Fixed(Duration::from_millis(1)), 8);
    while server.asked() < 12 {
        bench.next().await;
    }
    let text = String::from_utf8(log.lock().clone()).unwrap();
    let told = text.lines().filter(|line| line.contains("vllm:kv_cache_usage_perc")).count();
    assert_eq!((told, text.lines().count()), (1, 1), "{text}");
}

#[tokio::test]
async fn one_connection_serves_all_scrapes() {
    let connections = Arc::new(parking_lot::Mutex::new(std::collections::HashSet::new()));
    let seen = Arc::clone(&connections);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let page = move |axum::extract::ConnectInfo(peer): axum::extract::ConnectInfo<SocketAddr>| {
        seen.lock().insert(peer);
        std::future::ready(GOOD)
    };
    let service = Router::new()
        .route("/metrics", get(page))
        .into_make_service_with_connect_info::<SocketAddr>();
    let mut server = JoinSet::new();
    server.spawn(async move { axum::serve(listener, service).await });
    let mut bench = Bench::new(&[address], Pace::Fixed(Duration::from_millis(1)), 64);
    for _ in 0..20 {
        bench.next().await;
    }
    assert_eq!(connections.lock().len(), 1);
}

// FR-089
#[tokio::test]
async fn requests_in_flight_make_it_fast_at_once() {
    let server = Server::constant(|| IDLE.into_response()).await;
    let mut bench = Bench::new(&[server.address], Pace::Adaptive, 8);
    bench.next().await;
    let begun = Instant::now();
    let in_flight = InFlight::begin(&bench.endpoint(server.address).live, 1);
    let intervals = [bench.next().await.2, bench.next().await.2];
    assert_eq!(intervals, [FAST, FAST]);
    assert!(begun.elapsed() < SLOW, "{:?}, nominally 100 ms", begun.elapsed());
    drop(in_flight);
    bench.next().await;
    assert_eq!(bench.next().await.2, SLOW);
}

// FR-106
#[tokio::test]
async fn members_that_go_are_left_alone_and_those_that_come_are_scraped() {
    let (a, b) = (
        Server::constant(|| GOOD.into_response()).await,
        Server::constant(|| GOOD.into_response()).await,
    );
    let mut bench = Bench::new(&[a.address], Pace::Fixed(FAST), 8);
    bench.next().await;
    let gone = bench.endpoint(a.address).id;
    bench.members(&[b.address]);
    while bench.next().await.0 == gone {}
    let before = a.asked();
    for _ in 0..5 {
        assert_ne!(bench.next().await.0, gone);
    }
    assert!(a.asked() <= before + 1, "{} after {before}", a.asked());
}

#[tokio::test]
async fn every_kind_of_bad_server_is_told_apart_and_disturbs_no_other() {
    let good = Server::constant(|| GOOD.into_response()).await;
    let moved = Server::constant(|| {
        (http::StatusCode::FOUND, [(LOCATION, "/metrics")], GOOD).into_response()
    })
    .await;
    let failing =
        Server::constant(|| (http::StatusCode::INTERNAL_SERVER_ERROR, GOOD).into_response()).await;
    let garbage = Server::constant(|| vec![0xff_u8; 100_000].into_response()).await;
    let hanging = Server::new(|_| std::future::pending()).await;
    let refused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let servers = [&good, &moved, &failing, &garbage, &hanging];
    let mut addresses: Vec<_> = servers.map(|server| server.address).into();
    addresses.push(refused);
    let mut bench = Bench::new(&addresses, Pace::Fixed(FAST), 1024);
    for (reason, least) in [("status", 2), ("nothing_known", 1), ("timeout", 1), ("no_answer", 1)] {
        bench.failures(reason, least).await;
    }
    let only = bench.endpoint(good.address).id;
    while let Ok(Event::Scraped { id, .. }) = bench.events.try_recv() {
        assert_eq!(id, only);
    }
    assert_eq!(bench.next().await.0, only, "still scraped");
}

#[tokio::test]
async fn pages_without_an_end_are_given_up() {
    for answer in [|| vec![b'x'; 50_000_000].into_response(), endless] {
        let server = Server::constant(answer).await;
        let bench = Bench::new(&[server.address], Pace::Fixed(FAST), 8);
        bench.failures("too_long", 1).await;
    }
}

#[tokio::test]
async fn a_page_that_breaks_off_is_no_sample() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut server = JoinSet::new();
    server.spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.readable().await.unwrap();
            drop(stream.try_read(&mut [0; 4096]));
            stream.writable().await.unwrap();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{GOOD}");
            drop(stream.try_write(answer.as_bytes()));
        }
    });
    let mut bench = Bench::new(&[address], Pace::Fixed(FAST), 8);
    bench.failures("broken", 2).await;
    assert!(bench.events.try_recv().is_err());
}

// FR-146
#[tokio::test]
async fn a_server_that_recovers_is_scraped_again_and_only_changes_are_logged() {
    let (log, _guard) = log();
    let answer = |asked| {
        let good = asked >= 5;
        std::future::ready(if good {
            GOOD.into_response()
        } else {
            http::StatusCode::BAD_GATEWAY.into_response()
        })
    };
    let server = Server::new(answer).await;
    let mut bench = Bench::new(&[server.address], Pace::Fixed(Duration::from_millis(5)), 8);
    assert_eq!(bench.next().await.1.waiting, Some(3.0));
    bench.next().await;
    bench.failures("status", 5).await;
    let text = String::from_utf8(log.lock().clone()).unwrap();
    let lines: Vec<_> = text
        .lines()
        .map(|line| (line.contains("reachable again"), line.contains("\"status\"")))
        .collect();
    assert_eq!(lines, [(false, true), (true, false)], "{text}");
}

#[tokio::test]
async fn a_full_queue_drops_samples_and_holds_nobody_up() {
    let server = Server::constant(|| GOOD.into_response()).await;
    let bench = Bench::new(&[server.address], Pace::Fixed(Duration::from_millis(1)), 1);
    let dropped = async {
        while bench.counters.dropped() < 5 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(DEADLINE, dropped).await.expect("scraping goes on");
}

#[tokio::test]
async fn a_loop_that_panics_is_begun_again_beside_the_others() {
    let server = Server::constant(|| GOOD.into_response()).await;
    let bench = Bench::new(&[server.address], Pace::Adaptive, 8);
    let (sender, _events) = mpsc::channel(1);
    let scraper = scraper(Pace::Adaptive, sender, Arc::default());
    let (scraper, snapshot) = (Arc::new(scraper), Arc::clone(&bench.pool.borrow()));
    let mut loops = Loops::default();
    let id = bench.endpoint(server.address).id;
    let panics = loops.tasks.spawn(async { panic!("on purpose") });
    let panicked = panics.id();
    loops.by_endpoint.insert(id, (bench.endpoint(server.address), panics));
    let error = loops.tasks.join_next().await.unwrap().unwrap_err();
    loops.ended(&error, &scraper);
    assert_eq!((loops.tasks.len(), loops.by_endpoint[&id].1.id() == panicked), (1, false));
    loops.follow(&scraper, &snapshot);
    assert_eq!(loops.tasks.len(), 1, "not a second one");
    loops.follow(&scraper, &Snapshot::default());
    let ended = timeout(DEADLINE, loops.tasks.join_next()).await.expect("aborted").unwrap();
    assert!(ended.unwrap_err().is_cancelled() && loops.by_endpoint.is_empty());
}

// FR-106
#[tokio::test]
async fn it_ends_with_its_pool() {
    let server = Server::constant(|| GOOD.into_response()).await;
    let Bench { pool, mut task, .. } = Bench::new(&[server.address], Pace::Adaptive, 8);
    drop(pool);
    timeout(DEADLINE, task.join_next())
        .await
        .expect("ends")
        .expect("was running")
        .expect("without a panic");
}
