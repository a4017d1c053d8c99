//! What prompts are made of, and the hashes of their blocks.
//!
//! The text of a prompt does not matter, only where two prompts are alike. So a prompt is a list of segments, each with
//! an id that stands for its tokens; and the hash of a block is that of the pieces of segments it is made of, and of all
//! blocks before it. Equal beginnings give equal hashes, whatever the size of a block.

use std::sync::Arc;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::prefix::{BLOCK_TOKENS, Chain};
use crate::replay::Arrival;
use crate::sim::engine::EngineSpec;

/// A stretch of a prompt: the first `tokens` tokens of an endless text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Which text.
    pub content: u64,
    /// How much of it.
    pub tokens: usize,
}

impl Arrival {
    /// A request to the base model at `at` for `output_tokens`, with a prompt of `segments`; it counts.
    pub(super) fn new(at: Duration, segments: &[Segment], output_tokens: usize) -> Self {
        let tokens: usize = segments.iter().map(|segment| segment.tokens).sum();
        Self {
            at,
            prompt_tokens: tokens.max(1),
            output_tokens: output_tokens.max(1),
            adapter: None,
            chain: Arc::new(Chain::from(hashes(segments, BLOCK_TOKENS as usize))),
            blocks: hashes(segments, EngineSpec::default().block_tokens).into(),
            shared_tokens: 0,
            counts: true,
        }
    }
}

/// The hashes of the whole blocks of a prompt, first block first.
fn hashes(segments: &[Segment], block_tokens: usize) -> Vec<u64> {
    let tokens: usize = segments.iter().map(|segment| segment.tokens).sum();
    let mut hashes = Vec::with_capacity(tokens / block_tokens);
    let (mut hash, mut room) = (block_tokens as u64, block_tokens);
    for segment in segments {
        let mut from = 0;
        while from < segment.tokens {
            let piece = room.min(segment.tokens - from);
            hash = link(hash, [segment.content, from as u64, piece as u64]);
            (from, room) = (from + piece, room - piece);
            if room == 0 {
                hashes.push(hash);
                room = block_tokens;
            }
        }
    }
    hashes
}

/// The hash of `facts` after all that `before` is the hash of.
pub(super) fn link(before: u64, facts: [u64; 3]) -> u64 {
    let [a, b, c] = facts.map(u64::to_le_bytes);
    let mut bytes = [0; 24];
    for (to, from) in bytes.iter_mut().zip(a.into_iter().chain(b).chain(c)) {
        *to = from;
    }
    xxh3_64_with_seed(&bytes, before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(segments: &[(u64, usize)]) -> Arrival {
        let segment = |&(content, tokens)| Segment { content, tokens };
        let segments: Vec<_> = segments.iter().map(segment).collect();
        Arrival::new(Duration::ZERO, &segments, 1)
    }

    /// How many blocks of 64 and of 16 tokens two prompts share.
    fn shared(a: &Arrival, b: &Arrival) -> (usize, usize) {
        let alike = |a: &[u64], b: &[u64]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
        (alike(a.chain.hashes(), b.chain.hashes()), alike(&a.blocks, &b.blocks))
    }

    #[test]
    fn only_whole_blocks_are_hashed() {
        let prompt = prompt(&[(1, 512), (2, 100)]);
        assert_eq!(prompt.prompt_tokens, 612);
        assert_eq!((prompt.chain.hashes().len(), prompt.blocks.len()), (612 / 64, 612 / 16));
    }

    #[test]
    fn prompts_share_the_blocks_before_their_first_difference() {
        let (a, b) = (prompt(&[(1, 2_000), (2, 200)]), prompt(&[(1, 2_000), (3, 200)]));
        assert_eq!(shared(&a, &b), (31, 125), "2,000 tokens are 31.25 and 125 blocks");
        assert_eq!(shared(&a, &a), (34, 137));
    }

    #[test]
    fn a_text_that_goes_on_shares_all_that_the_shorter_prompt_has() {
        let (short, long) = (prompt(&[(1, 512), (2, 100)]), prompt(&[(1, 512), (2, 512)]));
        assert_eq!(shared(&short, &long), (9, 38));
    }

    #[test]
    fn the_same_text_after_another_beginning_is_no_hit() {
        let (a, b) = (prompt(&[(1, 64), (2, 640)]), prompt(&[(3, 64), (2, 640)]));
        assert_eq!(shared(&a, &b), (0, 0));
    }
}
