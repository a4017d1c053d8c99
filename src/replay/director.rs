//! The production director, with a pool of simulated pods around it.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::config;
use crate::director::{
    Ask, Clock, DECISION_DEADLINE, Decision, Director, Policy, Report, Settings,
};
use crate::metrics::Metrics;
use crate::pool::{
    Adapters, EndpointId, EndpointSpec, Event as PoolEvent, FailureMode, Names, Sample, Snapshot,
    State, Subset,
};
use crate::prefix::{Chain, Index};
use crate::replay::clock::VirtualClock;
use crate::replay::contender::{Asked, Chooser};
use crate::replay::pod::Pod;
use crate::replay::scaling::Looks;
use crate::replay::tally::{BLOCK_TOKENS, position};
use crate::replay::{Arrival, Failure, Fleet, Workload};
use crate::request::{Parsed, Usage};
use crate::schedule::Headers;
use crate::schedule::registry::PLUGINS;
use crate::sim::engine::{AdapterId, Engine, Event, JobId};

/// The name of the model that requests without an adapter ask for.
const BASE: &str = "base";

/// The port of all pods; their addresses differ.
const PORT: u16 = 8000;

/// As `--metrics-staleness-threshold` is unless given.
const STALENESS: Duration = Duration::from_secs(2);

/// Tokens of an engine's block, as [`Arrival::blocks`] has them.
const ENGINE_BLOCK_TOKENS: usize = 16;

/// A director and all that is around it in a process.
#[derive(Debug)]
pub(super) struct Directed {
    clock: VirtualClock,
    state: State,
    pool: Arc<ArcSwap<Snapshot>>,
    /// Something was applied that is not published.
    unpublished: bool,
    director: Director,
    index: Option<Arc<Index>>,
    request: Parsed,
    headers: Headers,
    /// By position of the pod; none while it is gone.
    endpoints: Vec<Option<EndpointId>>,
    /// What is open, by position in the workload.
    open: Vec<Option<Placed>>,
    /// The names of adapters.
    adapters: BTreeMap<AdapterId, Box<str>>,
    /// What each page says alike.
    blank: Sample,
    /// What a page says of adapters while there is no request for one, by the number of slots.
    no_adapters: BTreeMap<usize, Arc<Adapters>>,
    scrape_interval: Duration,
    /// For autoscalers.
    looks: Looks,
    dice: fastrand::Rng,
}

/// A request that was placed.
#[derive(Debug)]
struct Placed {
    decision: Decision,
    chain: Arc<Chain>,
    adapter: Option<AdapterId>,
    usage: Usage,
}

impl Directed {
    /// Decides by a configuration document, or by the default policy.
    pub(super) fn new(
        text: Option<&str>,
        workload: &Workload,
        fleet: &Fleet,
        dice: fastrand::Rng,
    ) -> Result<Self, Failure> {
        let resolved = config::load(text, &[PLUGINS]).map_err(Failure::Configuration)?;
        let (clock, pool) = (VirtualClock::new(), Arc::<ArcSwap<Snapshot>>::default());
        let time = clock.clone();
        let settings = Settings {
            forced_failure_mode: None,
            failure_mode: resolved.failure_mode.unwrap_or(FailureMode::FailClose),
            deadline: DECISION_DEADLINE,
            scores: false,
            clock: Clock::new(move || time.now()),
        };
        let metrics = Metrics::new("default", "replay", false)?;
        let index = resolved.prefix.map(|settings| Arc::new(Index::new(settings, 0)));
        let policy = Policy::new(resolved.profiles, Some(resolved.detector))
            .with_admitters(resolved.admitters)
            .with_facts(resolved.facts);
        let mut director = Director::new(Arc::clone(&pool), policy, metrics, settings);
        if let Some(index) = &index {
            director = director.with_prefix(Arc::clone(index));
        }
        let mut request = Parsed::default();
        request.stream = true;
        let asked = workload.arrivals.iter().filter_map(|arrival| arrival.adapter);
        let mut directed = Self {
            clock,
            state: State::new(STALENESS),
            pool,
            unpublished: false,
            director,
            index,
            request,
            headers: Headers::default(),
            endpoints: Vec::new(),
            open: Vec::new(),
            adapters: asked.map(|id| (id, format!("adapter-{}", id.0).into())).collect(),
            blank: Sample {
                models: Some(Arc::new([BASE].into_iter().collect())),
                ..Sample::default()
            },
            no_adapters: BTreeMap::new(),
            scrape_interval: fleet.scrape_interval,
            looks: Looks::new(resolved.autoscaling),
            dice,
        };
        directed.open.resize_with(workload.arrivals.len(), || None);
        directed.list((0..fleet.engines.len()).map(|_| Some(0)));
        Ok(directed)
    }

    /// Tells the pool which pods there are, each by its life, or none while it is gone.
    fn list(&mut self, lives: impl Iterator<Item = Option<u32>>) {
        let listed = lives.enumerate().filter_map(|(at, life)| Some(spec(at, life?)));
        let listed: Vec<_> = listed.collect();
        let now = self.clock.now();
        self.state.apply(PoolEvent::Endpoints(listed), now);
        let snapshot = self.publish();
        let found = |at: usize| {
            let slot = snapshot.by_address(address(at))?;
            Some(snapshot.endpoint(slot)?.id)
        };
        let known = snapshot.endpoints().filter_map(|endpoint| pod_at(endpoint.spec.address));
        let pods = known.max().map_or(0, |last| last + 1);
        self.endpoints = (0..pods).map(found).collect();
        if let Some(index) = &self.index {
            index.keep(|id| snapshot.by_id(id).is_some());
        }
    }

    fn publish(&mut self) -> Arc<Snapshot> {
        let snapshot = Arc::new(self.state.snapshot());
        self.pool.store(Arc::clone(&snapshot));
        self.unpublished = false;
        snapshot
    }

    /// What an engine's page says.
    fn page(&mut self, engine: &Engine) -> Sample {
        let (gauges, spec) = (engine.gauges(), engine.spec());
        Sample {
            waiting: Some(gauges.waiting as f32),
            running: Some(gauges.running as f32),
            kv_usage: Some(narrow(gauges.kv_used)),
            block_size: u32::try_from(spec.block_tokens).ok(),
            blocks: u32::try_from(spec.kv_blocks()).ok(),
            adapters: (spec.adapter_slots > 0).then(|| self.adapters_of(engine)),
            ..self.blank.clone()
        }
    }

    fn adapters_of(&mut self, engine: &Engine) -> Arc<Adapters> {
        let slots = engine.spec().adapter_slots;
        let busy = engine.running_adapters().chain(engine.waiting_adapters()).next().is_some();
        let none = Adapters { slots: u32::try_from(slots).ok(), ..Adapters::default() };
        if !busy {
            return Arc::clone(self.no_adapters.entry(slots).or_insert_with(|| Arc::new(none)));
        }
        let mut waiting: Vec<_> = engine.waiting_adapters().collect();
        waiting.sort_unstable();
        waiting.dedup();
        Arc::new(Adapters {
            running: self.names(engine.running_adapters()),
            waiting: self.names(waiting.into_iter()),
            ..none
        })
    }

    fn names(&self, adapters: impl Iterator<Item = AdapterId>) -> Names {
        adapters.filter_map(|id| self.adapters.get(&id)).map(|name| &**name).collect()
    }

    /// An answer has ended, and says what it took.
    fn report(&self, placed: &Placed) {
        let Placed { decision, chain, adapter, usage } = placed;
        let Some(endpoint) = decision.endpoints.first() else { return };
        let adapter = adapter.and_then(|id| self.adapters.get(&id));
        self.director.reported(Report {
            endpoint,
            chain,
            model: Some(adapter.map_or(BASE, |name| name)),
            prediction: decision.prediction,
            usage: *usage,
        });
    }

    /// The prompt as the index cuts it.
    fn chain(&self, arrival: &Arrival) -> Arc<Chain> {
        let Some(index) = &self.index else { return Arc::default() };
        let settings = index.settings();
        let size = usize::try_from(settings.block_tokens.get()).unwrap_or(usize::MAX);
        if size == BLOCK_TOKENS {
            let hashes = arrival.chain.hashes();
            return match hashes.get(..settings.chain_limit) {
                Some(first) => Arc::new(Chain::from(first.to_vec())),
                None => Arc::clone(&arrival.chain),
            };
        }
        let whole = arrival.prompt_tokens / size;
        let ends = (1..=whole).map(|block| (block * size).div_ceil(ENGINE_BLOCK_TOKENS));
        let links = ends.map_while(|end| arrival.blocks.get(end - 1).copied());
        Arc::new(Chain::from(links.take(settings.chain_limit).collect::<Vec<_>>()))
    }
}

impl Chooser for Directed {
    fn choose(&mut self, asked: Asked<'_>) -> Option<usize> {
        let Asked { job, arrival, now, .. } = asked;
        self.clock.set(now);
        if self.unpublished {
            self.publish();
        }
        let chain = self.chain(arrival);
        let model = arrival.adapter.and_then(|id| self.adapters.get(&id));
        self.request.prompt_tokens = arrival.prompt_tokens as u64;
        let ask = Ask {
            request: &self.request,
            chain: &chain,
            headers: &self.headers,
            bodyless: false,
            model: Some(model.map_or(BASE, |name| name)),
            priority: 0,
            subset: &Subset::All,
        };
        let decision = self.director.decide(ask, self.dice.u64(..)).ok()?;
        let chosen = pod_at(decision.endpoints.first()?.spec.address)?;
        let usage = Usage { prompt: self.request.prompt_tokens, ..Usage::default() };
        let placed = Placed { decision, chain, adapter: arrival.adapter, usage };
        *self.open.get_mut(position(job))? = Some(placed);
        Some(chosen)
    }

    fn scraped(&mut self, pod: usize, engine: &Engine, now: Duration) {
        let Some(id) = self.endpoints.get(pod).copied().flatten() else { return };
        self.clock.set(now);
        let (sample, at, interval) = (self.page(engine), self.clock.now(), self.scrape_interval);
        self.state.apply(PoolEvent::Scraped { id, sample, at, interval }, at);
        self.unpublished = true;
        if self.looks.due(now) {
            let snapshot = self.publish();
            self.looks.look(&snapshot, now, at);
        }
    }

    fn needed(&mut self) -> Vec<(Duration, u32)> {
        self.looks.told()
    }

    fn happened(&mut self, event: &Event, _pod: usize, now: Duration) {
        let Some(place) = self.open.get_mut(position(event.id())) else { return };
        let Some(placed) = place else { return };
        let in_flight = &mut placed.decision.in_flight;
        self.clock.set(now);
        let now = self.clock.now();
        match event {
            Event::FirstToken { cached_tokens, .. } => {
                in_flight.answered(now);
                in_flight.streamed(1, now);
                placed.usage.completion = 1;
                placed.usage.cached = Some(*cached_tokens as u64);
            }
            Event::Token { .. } => {
                in_flight.streamed(1, now);
                placed.usage.completion += 1;
            }
            Event::Finished { .. } => {
                if let Some(placed) = place.take() {
                    self.report(&placed);
                }
            }
            Event::Preempted { .. } => {}
        }
    }

    fn lost(&mut self, job: JobId, _pod: usize) {
        if let Some(place) = self.open.get_mut(position(job)) {
            *place = None;
        }
    }

    fn changed(&mut self, _pod: usize, pods: &[Pod], now: Duration) {
        self.clock.set(now);
        self.list(pods.iter().map(|pod| pod.up().then_some(pod.life)));
    }
}

/// How a pod's source describes it.
fn spec(pod: usize, life: u32) -> EndpointSpec {
    EndpointSpec {
        name: format!("pod-{pod}"),
        namespace: "default".to_owned(),
        uid: life.to_string(),
        address: address(pod),
        other_ips: Vec::new(),
        labels: BTreeMap::new(),
    }
}

/// 10.0.0.0 and what follows.
fn address(pod: usize) -> SocketAddr {
    let first = u32::from(Ipv4Addr::new(10, 0, 0, 0));
    let ip = first.wrapping_add(u32::try_from(pod).unwrap_or(u32::MAX));
    SocketAddr::from((Ipv4Addr::from(ip), PORT))
}

/// The pod that has an address.
fn pod_at(address: SocketAddr) -> Option<usize> {
    let SocketAddr::V4(address) = address else { return None };
    let first = u32::from(Ipv4Addr::new(10, 0, 0, 0));
    usize::try_from(u32::from(*address.ip()).wrapping_sub(first)).ok()
}

#[expect(clippy::cast_possible_truncation, reason = "a share needs no more digits")]
fn narrow(share: f64) -> f32 {
    share as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::prompt::Segment;
    use crate::sim::engine::EngineSpec;

    #[test]
    fn a_prompt_beyond_the_limit_is_cut_as_a_short_one_with_its_beginning() {
        let prompt = |tokens| Arrival::new(Duration::ZERO, &[Segment { content: 1, tokens }], 1);
        let (short, long) = (prompt(1_000), prompt(200_000));
        let fleet = Fleet {
            engines: vec![EngineSpec::default()],
            scrape_interval: Duration::from_millis(50),
            outages: Vec::new(),
        };
        let (workload, dice) = (Workload { arrivals: Vec::new() }, fastrand::Rng::with_seed(1));
        let directed = Directed::new(None, &workload, &fleet, dice).unwrap();
        let (short, long) = (directed.chain(&short), directed.chain(&long));
        assert_eq!((short.hashes().len(), long.hashes().len()), (15, 2_048));
        assert!(long.hashes().starts_with(short.hashes()));
    }
}
