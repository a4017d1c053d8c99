//! Where many requests go by the default policy, at once and as load grows.

use super::*;
use crate::pool::{InFlight, Prompt};
use crate::prefix::{Index, Settings as Cached};
use crate::request::{PromptPart, Reading};

/// A director by the default policy over endpoints with these pages, all at one instant, and what it knows of their caches.
struct Rig {
    director: Director,
    pool: Arc<ArcSwap<Snapshot>>,
    index: Arc<Index>,
}

impl Rig {
    fn new(pages: &[Sample]) -> Self {
        let now = clock::now();
        let pages: Vec<_> = pages.iter().cloned().map(Some).collect();
        let pool = Arc::new(ArcSwap::from_pointee(fixture::sampled(&pages, now)));
        let policy = crate::config::load(None, &[PLUGINS]).unwrap().profiles;
        let settings = Settings { clock: Clock::new(move || now), ..settings() };
        let index = Arc::new(Index::new(Cached::default(), 1));
        let director = with(settings, policy, &pool).with_prefix(Arc::clone(&index));
        Self { director, pool, index }
    }

    /// A prompt of so many tokens, all of the same letter.
    fn chain(&self, letter: u8, tokens: usize) -> Chain {
        let mut hashing = self.index.hashing();
        hashing.feed(PromptPart::Text(&vec![letter; 4 * tokens]));
        hashing.end(Some("m"), None)
    }

    /// An endpoint has a prompt in its cache.
    fn caches(&self, at: usize, chain: &Chain) {
        let id = self.pool.load().endpoints().nth(at).unwrap().id;
        self.index.record(id, chain, None);
    }

    /// An endpoint has prompts of 500 tokens to compute.
    fn loaded(&self, at: usize, prompts: usize) -> Vec<InFlight> {
        let pool = self.pool.load();
        let live = &pool.endpoints().nth(at).unwrap().live;
        let at = self.director.rules.load().settings.clock.now();
        let prompt = Prompt { tokens: 500, at, streams: true, loads: false };
        (0..prompts).map(|_| InFlight::begin(live, 500).computing(prompt)).collect()
    }

    fn decide(&self, chain: &Chain, tokens: usize, dice: u64) -> Decision {
        let mut request = Parsed::default();
        (request.prompt_tokens, request.reading) = (tokens as u64, Reading::Read);
        let ask = Ask {
            request: &request,
            chain,
            headers: &Headers::default(),
            bodyless: false,
            model: Some("m"),
            priority: 0,
            subset: &Subset::All,
        };
        self.director.decide(ask, dice).expect("a place")
    }
}

fn page(waiting: f32, kv_usage: f32) -> Sample {
    Sample {
        waiting: Some(waiting),
        running: Some(0.0),
        kv_usage: Some(kv_usage),
        ..Sample::default()
    }
}

// FR-048
#[test]
fn a_burst_with_a_beginning_that_all_have_cached_is_spread_at_every_instant() {
    let (rig, mut rng) = (Rig::new(&vec![page(0.0, 0.1); 8]), fastrand::Rng::with_seed(1));
    let beginning = rig.chain(b'x', 1_024);
    (0..8).for_each(|at| rig.caches(at, &beginning));
    let mut open = Vec::new();
    for _ in 0..400 {
        open.push(rig.decide(&beginning, 1_024 + 64, rng.u64(..)));
        let counts: Vec<_> = rig.pool.load().endpoints().map(|it| it.live.requests()).collect();
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(most - least <= 2, "{counts:?}");
    }
}

// FR-054
#[test]
fn a_new_prompt_goes_past_a_server_that_has_little_cached_but_much_to_do() {
    let rig = Rig::new(&[page(50.0, 0.99), page(0.0, 0.2)]);
    (b'a'..=b'z').for_each(|letter| rig.caches(1, &rig.chain(letter, 4_000)));
    for n in 0..50 {
        let placed = rig.decide(&rig.chain(n, 1_000), 1_000, u64::from(n));
        assert_eq!(placed.endpoints[0].spec.name, "pod-1", "{n}");
    }
}

// FR-056
#[test]
fn a_request_leaves_the_server_that_has_its_prompt_once_and_for_good_as_that_fills_up() {
    let chosen = |load: usize| {
        let rig = Rig::new(&vec![page(0.0, 0.1); 3]);
        rig.caches(0, &rig.chain(b'x', 4_096));
        rig.caches(1, &rig.chain(b'x', 2_048));
        let _load = [(0, load), (1, 4), (2, 3)].map(|(at, prompts)| rig.loaded(at, prompts));
        let placed = rig.decide(&rig.chain(b'x', 4_096), 4_096, 7);
        placed.endpoints[0].spec.name.clone()
    };
    let all: Vec<_> = (0..=40).map(chosen).collect();
    let mut changes = all.clone();
    changes.dedup();
    assert_eq!(changes, ["pod-0", "pod-1"], "{all:?}");
    assert!(all[4] == "pod-0" && all[40] == "pod-1", "neither at the first request nor never");
}

// FR-104
#[test]
fn decisions_go_on_while_the_pool_changes_all_the_time() {
    let rig = Rig::new(&vec![page(0.0, 0.1); 4]);
    let prompt = rig.chain(b'x', 256);
    let other = Arc::new(fixture::snapshot(3));
    std::thread::scope(|threads| {
        for seed in 0..4 {
            let (rig, prompt) = (&rig, &prompt);
            threads.spawn(move || (0..500).for_each(|n| drop(rig.decide(prompt, 256, seed ^ n))));
        }
        let first = rig.pool.load_full();
        for _ in 0..500 {
            rig.pool.store(Arc::clone(&other));
            rig.pool.store(Arc::clone(&first));
            assert!(!rig.director.vacant(), "and health is told");
        }
    });
    assert!(rig.pool.load().endpoints().all(|it| it.live.requests() == 0));
}
