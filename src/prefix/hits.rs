//! How much of a prompt each candidate has.

use std::ops::Range;

use crate::pool::Slot;
use crate::prefix::holders::{Holders, bit};
use crate::units::whole;

/// How many blocks of a prompt, from the first on, each candidate has. Kept warm from decision to decision.
#[derive(Debug, Default)]
pub struct Hits {
    /// By slot.
    blocks: Vec<u32>,
    total: u32,
    block_tokens: u32,
    /// Tokens of the prompt to a token of its blocks.
    scale: f64,
    /// Blocks that some candidate has, the most.
    deepest: usize,
    /// Prompts of late that shared as many.
    heat: u32,
    /// By slot, how far the endpoint's blocks are believed in.
    trust: Vec<f32>,
    /// A bit for each candidate that has all blocks so far.
    alive: Vec<u64>,
    /// The words of `alive` that may hold a bit.
    within: Range<usize>,
}

impl Hits {
    /// Blocks of the prompt that a candidate has, at most [`total`](Self::total); 0 for who was no candidate.
    pub fn blocks(&self, slot: Slot) -> u32 {
        self.blocks.get(slot.index()).copied().unwrap_or(0)
    }

    /// Blocks of the prompt; 0 when nothing is known of it.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// Tokens of a block.
    pub fn block_tokens(&self) -> u32 {
        self.block_tokens
    }

    /// Tokens of the prompt that a candidate is expected to have: those of its blocks, as far as it is trusted.
    pub fn tokens(&self, slot: Slot) -> u64 {
        match self.blocks(slot) {
            0 => 0,
            blocks => whole(self.prompt_tokens(blocks) * f64::from(self.trust(slot))),
        }
    }

    /// Share of the prompt's blocks that a candidate is expected to have, 0.0 ..= 1.0; 0.0 when nothing is known of it.
    pub fn share(&self, slot: Slot) -> f32 {
        self.blocks(slot) as f32 / self.total.max(1) as f32 * self.trust(slot)
    }

    /// Tokens of the prompt that one of so many candidates has on average, if each has what it is believed to have.
    pub fn average(&self, candidates: usize) -> u64 {
        if self.deepest == 0 {
            return 0;
        }
        let blocks: u64 = self.blocks.iter().map(|&blocks| u64::from(blocks)).sum();
        let tokens = f64::from(self.block_tokens) * self.scale;
        whole(blocks as f64 * tokens / candidates.max(1) as f64)
    }

    /// The prompt has so many tokens to each that its blocks are counted by: 1.0 unless set.
    pub fn scale(&mut self, scale: f64) {
        self.scale = scale;
    }

    /// Tokens of the prompt that some candidate has and this one has not.
    #[expect(clippy::cast_possible_truncation, reason = "the nearest is meant")]
    pub fn missing(&self, slot: Slot) -> f32 {
        self.prompt_tokens(count(self.deepest()).saturating_sub(self.blocks(slot))) as f32
    }

    /// Tokens of so many blocks of the prompt.
    fn prompt_tokens(&self, blocks: u32) -> f64 {
        f64::from(blocks) * f64::from(self.block_tokens) * self.scale
    }

    /// Prompts of late that began as this one does, as far as some candidate has it.
    pub fn heat(&self) -> u32 {
        self.heat
    }

    /// Blocks that some candidate has, the most.
    pub(crate) fn deepest(&self) -> usize {
        self.deepest
    }

    /// So many prompts began with what is the most that a candidate has.
    pub(super) fn hot(&mut self, prompts: u32) {
        self.heat = prompts;
    }

    fn trust(&self, slot: Slot) -> f32 {
        self.trust.get(slot.index()).copied().unwrap_or(1.0)
    }

    /// A candidate's blocks are believed in as far as this, 0.0 ..= 1.0.
    pub(super) fn trusted(&mut self, slot: Slot, trust: f32) {
        if let Some(place) = self.trust.get_mut(slot.index()) {
            *place = trust;
        }
    }

    /// Nothing is known of the prompt.
    pub fn clear(&mut self) {
        self.reset(0, 0, &[]);
    }

    /// All candidates are alive, and have nothing yet.
    pub(super) fn reset(&mut self, total: usize, block_tokens: u32, candidates: &[Slot]) {
        let slots = candidates.iter().map(|slot| slot.index() + 1).max().unwrap_or(0);
        self.total = count(total);
        self.block_tokens = block_tokens;
        self.scale = 1.0;
        (self.deepest, self.heat) = (0, 0);
        self.trust.clear();
        self.trust.resize(slots, 1.0);
        self.blocks.clear();
        self.blocks.resize(slots, 0);
        self.alive.clear();
        self.alive.resize(slots.div_ceil(64), 0);
        self.within = 0..self.alive.len();
        for slot in candidates {
            if let Some(word) = self.alive.get_mut(slot.index() / 64) {
                *word |= bit(*slot);
            }
        }
    }

    /// Whether somebody is alive.
    pub(super) fn any(&self) -> bool {
        !self.within.is_empty()
    }

    /// Whether all who are alive are among the holders.
    pub(super) fn all(&self, holders: Option<&Holders>) -> bool {
        let Some(holders) = holders else { return false };
        let mut words = self.within.clone().zip(self.alive_words());
        words.all(|(at, &alive)| alive & !holders.word(at) == 0)
    }

    /// Those who are not among the holders have `depth` blocks, and are alive no more.
    pub(super) fn keep(&mut self, holders: Option<&Holders>, depth: usize) {
        for at in self.within.clone() {
            let Some(alive) = self.alive.get_mut(at) else { continue };
            let kept = *alive & holders.map_or(0, |holders| holders.word(at));
            let dropped = std::mem::replace(alive, kept) & !kept;
            note(&mut self.blocks, at, dropped, depth);
            if dropped != 0 {
                self.deepest = depth;
            }
        }
        let (mut first, mut last) = (self.within.start, self.within.end);
        while first < last && self.alive.get(first) == Some(&0) {
            first += 1;
        }
        while first < last && self.alive.get(last - 1) == Some(&0) {
            last -= 1;
        }
        self.within = first..last;
    }

    fn alive_words(&self) -> &[u64] {
        self.alive.get(self.within.clone()).unwrap_or_default()
    }
}

/// Writes `depth` for each bit of the word `at`.
fn note(blocks: &mut [u32], at: usize, mut word: u64, depth: usize) {
    while word != 0 {
        let slot = at * 64 + word.trailing_zeros() as usize;
        if let Some(blocks) = blocks.get_mut(slot) {
            *blocks = count(depth);
        }
        word &= word - 1;
    }
}

/// Chains are far shorter than 2^32.
fn count(blocks: usize) -> u32 {
    u32::try_from(blocks).unwrap_or(u32::MAX)
}
