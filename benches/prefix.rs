//! The prefix index at 1,000 endpoints of 10,000 blocks: time of a search and a record, memory of a block.
//!
//! `cargo bench --bench prefix`. Each figure is the best of several rounds, in microseconds a call.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program for the terminal")]

use std::collections::BTreeMap;
use std::time::Duration;

use lodesman::pool::{EndpointId, EndpointSpec, Event, Slot, Snapshot, State};
use lodesman::prefix::{Chain, Hits, Index, Settings};
use lodesman::request::PromptPart;
use lodesman_e2e::wait::now;

const ENDPOINTS: u16 = 1000;
const BLOCKS: usize = 10_000;
const ROUNDS: usize = 9;

fn main() {
    let snapshot = snapshot();
    let ids: Vec<_> = snapshot.endpoints().map(|endpoint| endpoint.id).collect();
    let settings =
        Settings { block_limit: usize::MAX, capacity_tokens: 1 << 40, ..Settings::default() };
    let index = Index::new(settings, fastrand::u64(..));
    let before = resident_bytes();
    fill(&index, &ids);
    let bytes = (resident_bytes() - before) / index.len();
    println!("{} blocks of {ENDPOINTS} endpoints, {bytes} bytes each", index.len());
    let hot = chain(&index, 0, 2048);
    for (n, id) in ids.iter().enumerate() {
        index.record(*id, &chain(&index, 0, 1 + n * 2), None);
    }
    let all = snapshot.ready();
    search(&index, "unknown prompt", &chain(&index, u64::MAX, 128), all);
    search(&index, "8,192 tokens on one endpoint", &chain(&index, 1, 128), all);
    search(&index, "131,072 tokens on one endpoint", &chain(&index, 1, 2048), all);
    search(&index, "131,072 tokens, 1,000 endpoints, each another length", &hot, all);
    search(&index, "8,192 tokens, 1,000 endpoints", &chain(&index, 0, 128), all);
    let long = chain(&index, u64::MAX - 1, BLOCKS);
    let hundred = all.get(..100).unwrap();
    for (id, share) in ids.iter().zip(1..=100) {
        index.record(*id, &chain(&index, u64::MAX - 1, BLOCKS * share / 100), None);
    }
    search(&index, "640,000 tokens, 100 endpoints, each another length", &long, hundred);
    for id in ids.iter().take(100) {
        index.record(*id, &long, None);
    }
    search(&index, "640,000 tokens on each of 100 endpoints", &long, hundred);
    let first = *ids.first().unwrap();
    for blocks in [128, 2048] {
        let prompt = chain(&index, 1, blocks);
        let took = best(|| index.record(first, &prompt, None));
        println!("record {blocks} known blocks: {took:.1}");
        let mut fresh =
            (0..ROUNDS).map(|n| chain(&index, 1 << (40 + n), blocks)).collect::<Vec<_>>();
        let full = Some(BLOCKS as u64 * 64);
        let took = best(|| index.record(first, &fresh.pop().unwrap(), full));
        println!("record {blocks} new blocks, evicting as many: {took:.1}");
    }
}

/// Gives each endpoint prompts of its own of 2,000 blocks.
fn fill(index: &Index, ids: &[EndpointId]) {
    for (n, id) in (1_u64..).zip(ids) {
        for prompt in 0..5_u64 {
            index.record(*id, &chain(index, n + (prompt << 32), BLOCKS / 5), None);
        }
    }
}

fn search(index: &Index, what: &str, chain: &Chain, candidates: &[Slot]) {
    let mut hits = Hits::default();
    let took = best(|| index.longest(chain, candidates, &mut hits));
    println!("search {what}: {took:.1}");
}

/// Microseconds of the fastest round.
fn best(mut work: impl FnMut()) -> f64 {
    let time = |_| {
        let began = now();
        work();
        now() - began
    };
    (0..ROUNDS).map(time).min().unwrap_or(Duration::ZERO).as_secs_f64() * 1e6
}

fn chain(index: &Index, prompt: u64, blocks: usize) -> Chain {
    let mut hashing = index.hashing();
    let mut block = [0; 256];
    for at in 0..blocks as u64 {
        block[..8].copy_from_slice(&prompt.to_le_bytes());
        block[8..16].copy_from_slice(&at.to_le_bytes());
        hashing.feed(PromptPart::Text(&block));
    }
    hashing.end(Some("m"), None)
}

fn snapshot() -> Snapshot {
    let spec = |n: u16| EndpointSpec {
        name: n.to_string(),
        namespace: "default".to_owned(),
        address: ([10, 0, n.to_be_bytes()[0], n.to_be_bytes()[1]], 8000).into(),
        labels: BTreeMap::new(),
        uid: String::new(),
        other_ips: Vec::new(),
    };
    let mut state = State::new(Duration::from_secs(2));
    state.apply(Event::Endpoints((0..ENDPOINTS).map(spec).collect()), now());
    state.snapshot()
}

fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}
