//! A decision after parsing: by the default policy, by eight scorers, and over a large pool with a long prompt.

use lodesman::director::{Ask, Director};
use lodesman::pool::Subset;
use lodesman::prefix::{Chain, Index, Settings};
use lodesman::request::{Parsed, PromptPart};
use lodesman::schedule::Headers;

use crate::measure::Bench;
use crate::pool::{director, state};
use crate::prefix::beginning;

const EIGHT: &str = "\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: running-requests-size-scorer
- type: kv-cache-utilization-scorer
- type: load-aware-scorer
- type: active-request-scorer
- type: token-load-scorer
- type: lora-affinity-scorer
- type: prefix-cache-scorer
";

const MANY: u16 = 1_000;
const BLOCKS: usize = 10_000;
const BLOCK_BYTES: usize = 256;

pub(crate) fn run(bench: &mut Bench) {
    for (case, text) in
        [("default, 100 endpoints", None), ("eight scorers, 100 endpoints", Some(EIGHT))]
    {
        let (director, index) = director(text, 100, |_| {});
        let chain = chain(&index, 2_000 * 4);
        decide(bench, case, &director, &chain);
    }
    let (director, index) = director(None, MANY, |settings: &mut Settings| {
        settings.chain_limit = BLOCKS;
        settings.capacity_tokens = 1 << 40;
        settings.auto_tune = false;
    });
    let chain = chain(&index, BLOCKS * BLOCK_BYTES);
    let snapshot = state(MANY).snapshot();
    for (endpoint, percent) in snapshot.endpoints().step_by(10).zip(1..) {
        index.record(endpoint.id, &beginning(&chain, BLOCKS * percent / 100), None);
    }
    decide(
        bench,
        "default, 1,000 endpoints, 10,000 blocks that 100 have in part",
        &director,
        &chain,
    );
}

fn chain(index: &Index, bytes: usize) -> Chain {
    let mut hashing = index.hashing();
    hashing.feed(PromptPart::Text(&vec![b'x'; bytes]));
    hashing.end(Some("m"), None)
}

fn decide(bench: &mut Bench, case: &str, director: &Director, chain: &Chain) {
    let mut request = Parsed::default();
    (request.prompt_tokens, request.stream) = (chain.hashes().len() as u64 * 64, true);
    let ask = Ask {
        request: &request,
        chain,
        headers: &Headers::default(),
        bodyless: false,
        model: Some("m"),
        priority: 0,
        subset: &Subset::All,
    };
    let mut dice = 0;
    bench.case(case, || {
        dice += 1;
        director.decide(ask, dice).unwrap()
    });
}
