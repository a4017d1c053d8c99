//! The prefix index at 1,000 endpoints of 10,000 blocks: search, record, memory of a block.

use lodesman::pool::{EndpointId, Slot};
use lodesman::prefix::{Chain, Hits, Index, Settings};
use lodesman::request::PromptPart;

use crate::measure::Bench;
use crate::pool::state;

const ENDPOINTS: u16 = 1000;
const BLOCKS: usize = 10_000;

/// Of 8,192 tokens and of 131,072.
const SHORT: usize = 128;
const LONG: usize = 2048;

pub(crate) fn run(bench: &mut Bench) {
    let snapshot = state(ENDPOINTS).snapshot();
    let ids: Vec<_> = snapshot.endpoints().map(|endpoint| endpoint.id).collect();
    let settings = Settings {
        chain_limit: BLOCKS,
        block_limit: usize::MAX,
        capacity_tokens: 1 << 40,
        ..Settings::default()
    };
    let index = Index::new(settings, 1);
    if !bench.counted {
        let before = resident_bytes();
        fill(&index, &ids);
        bench.bytes(
            "a block of 10,000,000 at 1,000 endpoints",
            (resident_bytes() - before) / index.len(),
        );
    }
    searches(bench, &index, &ids, snapshot.ready());
    records(bench, &index, *ids.first().unwrap());
}

/// Gives each endpoint prompts of its own of 2,000 blocks.
fn fill(index: &Index, ids: &[EndpointId]) {
    for (n, id) in (1_u64..).zip(ids) {
        for prompt in 0..5_u64 {
            index.record(*id, &chain(index, n + (prompt << 32), BLOCKS / 5), None);
        }
    }
}

fn searches(bench: &mut Bench, index: &Index, ids: &[EndpointId], all: &[Slot]) {
    let hot = chain(index, 0, LONG);
    for (n, id) in ids.iter().enumerate() {
        index.record(*id, &beginning(&hot, 1 + n * 2), None);
    }
    index.record(*ids.first().unwrap(), &chain(index, 1, LONG), None);
    search(bench, index, "search an unknown prompt", &chain(index, u64::MAX, SHORT), all);
    search(bench, index, "search 8,192 tokens on one", &chain(index, 1, SHORT), all);
    search(bench, index, "search 131,072 tokens on one", &chain(index, 1, LONG), all);
    search(bench, index, "search 8,192 tokens on 1,000", &chain(index, 0, SHORT), all);
    search(bench, index, "search 131,072 tokens on 1,000, each another length", &hot, all);
    let long = chain(index, u64::MAX - 1, BLOCKS);
    let hundred = all.get(..100).unwrap();
    for (id, percent) in ids.iter().take(100).zip(1..) {
        index.record(*id, &beginning(&long, BLOCKS * percent / 100), None);
    }
    search(bench, index, "search 640,000 tokens on 100, each another length", &long, hundred);
    for id in ids.iter().take(100) {
        index.record(*id, &long, None);
    }
    search(bench, index, "search 640,000 tokens on each of 100", &long, hundred);
}

fn search(bench: &mut Bench, index: &Index, case: &str, chain: &Chain, candidates: &[Slot]) {
    let mut hits = Hits::default();
    bench.case(case, || index.longest(chain, candidates, &mut hits));
}

fn records(bench: &mut Bench, index: &Index, id: EndpointId) {
    for blocks in [SHORT, LONG] {
        let known = chain(index, 1, blocks);
        bench.case(&format!("record {blocks} known blocks"), || index.record(id, &known, None));
        // More than the endpoint holds: each is forgotten before its turn comes again.
        let row: Vec<_> =
            (0..2 * BLOCKS / blocks).map(|n| chain(index, 1 << 40 | n as u64, blocks)).collect();
        let mut turns = row.iter().cycle();
        let full = Some(BLOCKS as u64 * 64);
        let case = format!("record {blocks} new blocks, evicting as many");
        bench.case(&case, || turns.next().map(|chain| index.record(id, chain, full)));
    }
}

/// The first so many blocks of a prompt.
pub(crate) fn beginning(chain: &Chain, blocks: usize) -> Chain {
    Chain::from(chain.hashes().iter().take(blocks).copied().collect::<Vec<_>>())
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

fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}
