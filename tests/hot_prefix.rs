//! A prefix that most requests share, in virtual time: the default policy over simulated engines.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::tests_outside_test_module,
    reason = "an integration test"
)]

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use lodesman::director::{Ask, Clock, DECISION_DEADLINE, Decision, Director, Policy, Settings};
use lodesman::metrics::Metrics;
use lodesman::pool::{self, EndpointSpec, FailureMode, Sample, State, Subset};
use lodesman::prefix::Index;
use lodesman::request::{Parsed, PromptPart};
use lodesman::schedule::Headers;
use lodesman::schedule::registry::PLUGINS;
use lodesman::sim::engine::{Engine, EngineSpec, Event, Job, JobId};

const ENGINES: u8 = 8;
const REQUESTS: u64 = 3_000;
/// Tokens of the shared beginning, and of what is each request's own.
const SHARED: usize = 2_000;
const OWN: usize = 200;
/// Of ten requests so many begin alike.
const HOT: u64 = 8;
/// What all prompts would take of the fleet's prefill rate without any hit: with hits it can bear them, and what is each
/// hot request's own is more than one engine can.
const LOAD: f64 = 2.0;
const SCRAPE: Duration = Duration::from_millis(50);

thread_local! {
    static NOW: Cell<Instant> = Cell::new(lodesman_e2e::wait::now());
}

/// A fleet, the director over it, and what happened.
struct Fleet {
    engines: Vec<Engine>,
    /// When the present step of each engine ends; none while it is idle.
    steps: Vec<Option<(Instant, Vec<Event>)>>,
    next_scrape: Instant,
    state: State,
    pool: Arc<ArcSwap<pool::Snapshot>>,
    director: Director,
    index: Arc<Index>,
    open: HashMap<JobId, (Instant, Decision)>,
    placed: Vec<u32>,
    waits: Vec<Duration>,
    cached: usize,
}

impl Fleet {
    fn new(config: &str) -> Self {
        let policy = lodesman::config::load(Some(config), &[PLUGINS]).unwrap();
        let spec = |n| EndpointSpec {
            name: format!("pod-{n}"),
            namespace: "default".to_owned(),
            address: ([10, 0, 0, n], 8000).into(),
            labels: BTreeMap::new(),
            uid: String::new(),
            other_ips: Vec::new(),
        };
        let mut state = State::new(Duration::from_secs(2));
        state.apply(pool::Event::Endpoints((0..ENGINES).map(spec).collect()), NOW.get());
        let pool = Arc::new(ArcSwap::from_pointee(state.snapshot()));
        let settings = Settings {
            forced_failure_mode: None,
            failure_mode: FailureMode::FailClose,
            deadline: DECISION_DEADLINE,
            scores: false,
            clock: Clock::new(|| NOW.get()),
        };
        let index = Arc::new(Index::new(policy.prefix.unwrap_or_default(), 1));
        let metrics = Metrics::new("ns", "pool", false).unwrap();
        let director =
            Director::new(Arc::clone(&pool), Policy::new(policy.profiles, None), metrics, settings);
        Self {
            engines: (0..ENGINES).map(|_| Engine::new(EngineSpec::default())).collect(),
            steps: (0..ENGINES).map(|_| None).collect(),
            next_scrape: NOW.get(),
            state,
            pool,
            director: director.with_prefix(Arc::clone(&index)),
            index,
            open: HashMap::new(),
            placed: vec![0; usize::from(ENGINES)],
            waits: Vec::new(),
            cached: 0,
        }
    }

    /// Runs all requests through and lets the fleet come to rest.
    fn run(&mut self) {
        let tokens = (SHARED + OWN) as f64;
        let rate =
            LOAD * EngineSpec::default().prefill_tokens_per_second * f64::from(ENGINES) / tokens;
        let (mut rng, mut arrival) = (fastrand::Rng::with_seed(1), NOW.get());
        for id in 0..REQUESTS {
            arrival += Duration::from_secs_f64(-(1.0 - rng.f64()).ln() / rate);
            self.until(arrival);
            self.place(id, rng.u64(..));
        }
        self.until(arrival + Duration::from_mins(10));
        assert!(self.open.is_empty(), "all are answered");
    }

    /// Lets time pass: steps end, pages are read.
    fn until(&mut self, end: Instant) {
        loop {
            let due = self.steps.iter().flatten().map(|(at, _)| *at).min();
            let next = due.unwrap_or(end).min(self.next_scrape).min(end);
            NOW.set(next);
            self.end_steps(next);
            if next == self.next_scrape {
                self.scrape(next);
                self.next_scrape += SCRAPE;
            }
            if next == end {
                return;
            }
        }
    }

    fn end_steps(&mut self, now: Instant) {
        for at in 0..self.engines.len() {
            let ended = self.steps[at].take_if(|(end, _)| *end <= now);
            for event in ended.into_iter().flat_map(|(_, events)| events) {
                self.told(event);
            }
            self.begin_step(at, now);
        }
    }

    fn begin_step(&mut self, at: usize, now: Instant) {
        let mut events = Vec::new();
        if self.steps[at].is_none()
            && let Some(length) = self.engines[at].step(&mut events)
        {
            self.steps[at] = Some((now + length, events));
        }
    }

    fn told(&mut self, event: Event) {
        match event {
            Event::FirstToken { id, cached_tokens } => {
                self.cached += cached_tokens;
                let (arrival, decision) = self.open.get_mut(&id).unwrap();
                self.waits.push(NOW.get() - *arrival);
                decision.in_flight.answered(NOW.get());
            }
            Event::Finished { id } => drop(self.open.remove(&id)),
            Event::Token { .. } | Event::Preempted { .. } => {}
        }
    }

    fn scrape(&mut self, now: Instant) {
        let ids: Vec<_> = self.pool.load().endpoints().map(|endpoint| endpoint.id).collect();
        for (engine, id) in self.engines.iter().zip(ids) {
            let gauges = engine.gauges();
            let sample = Sample {
                waiting: Some(gauges.waiting as f32),
                running: Some(gauges.running as f32),
                kv_usage: Some(gauges.kv_used as f32),
                ..Sample::default()
            };
            self.state.apply(pool::Event::Scraped { id, sample, at: now, interval: SCRAPE }, now);
        }
        self.pool.store(Arc::new(self.state.snapshot()));
    }

    fn place(&mut self, id: u64, dice: u64) {
        let begins = if id % 10 < HOT { 0 } else { id + 1 };
        let text = |seed: u64, tokens: usize| seed.to_le_bytes().repeat(tokens / 2);
        let mut hashing = self.index.hashing();
        hashing.feed(PromptPart::Text(&text(begins, SHARED)));
        hashing.feed(PromptPart::Text(&text(id + 1, OWN)));
        let mut request = Parsed::default();
        request.prompt_tokens = (SHARED + OWN) as u64;
        let chain = hashing.end(Some("m"), None);
        let (subset, request) = (Subset::All, &request);
        let ask = Ask {
            request,
            chain: &chain,
            headers: &Headers::default(),
            bodyless: false,
            model: Some("m"),
            priority: 0,
            subset: &subset,
        };
        let decision = self.director.decide(ask, dice).unwrap();
        let at = decision.endpoints[0].id.slot.index();
        let block =
            |at: usize| if at < SHARED / 16 { begins << 16 } else { (id + 1) << 16 } + at as u64;
        let job = Job {
            id: JobId(id),
            prompt_tokens: SHARED + OWN,
            blocks: (0..(SHARED + OWN) / 16).map(block).collect(),
            output_tokens: 50,
            adapter: None,
        };
        self.engines[at].submit(job).unwrap();
        self.placed[at] += 1;
        self.open.insert(JobId(id), (NOW.get(), decision));
        self.begin_step(at, NOW.get());
    }

    /// The most requests that one engine got, against the mean.
    fn max_over_mean(&self) -> f64 {
        let most = f64::from(*self.placed.iter().max().unwrap());
        most * f64::from(ENGINES) / REQUESTS as f64
    }

    fn hit_ratio(&self) -> f64 {
        self.cached as f64 / (REQUESTS as f64 * (SHARED + OWN) as f64)
    }

    /// Time to the first token that one of a hundred requests exceeds.
    fn p99(&mut self) -> Duration {
        self.waits.sort_unstable();
        self.waits[self.waits.len() * 99 / 100]
    }
}

const HEADER: &str = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";

#[test]
fn a_prefix_that_most_requests_share_is_found_in_caches_and_overloads_nobody() {
    let mut fleet = Fleet::new(HEADER);
    fleet.run();
    let (spread, hits, p99) = (fleet.max_over_mean(), fleet.hit_ratio(), fleet.p99());
    assert!(spread < 1.8, "{spread} {:?}", fleet.placed);
    // 0.8 of the requests can find 2,000 of 2,200 tokens: 0.727 at most.
    assert!(hits > 0.65, "{hits}");
    assert!(p99 < Duration::from_secs(2), "{p99:?}");
}

#[test]
fn without_regard_to_load_all_that_share_a_prefix_wait_for_one_server() {
    let mut fleet = Fleet::new(&format!("{HEADER}plugins: [{{type: prefix-cache-scorer}}]\n"));
    fleet.run();
    let p99 = fleet.p99();
    assert!(fleet.max_over_mean() > 4.0 && p99 > Duration::from_secs(5), "the test above can fail");
}
