//! What an endpoint has yet to compute for us.
//!
//! A server computes prompts in the order in which they came. So the time from one first token to the next is what the
//! later prompt took, and between two of them the prompt at the head is being computed: it grows shorter at the speed that
//! was learnt, and is done when its first token comes. An answer that comes as a whole tells nothing before its end; its
//! prompt is taken to be computed when it should be.

use std::collections::VecDeque;
use std::time::Instant;

use crate::pool::speed::{CHUNK_TOKENS, PROMPT_TOKEN_SECONDS, Speed};

/// What is left of a prompt whose first token has not come, as a share of it, at least.
const UNDONE: f32 = 0.05;

/// Tokens of a prompt that was not read.
const UNREAD_TOKENS: u64 = 1_000;

/// The work of one endpoint. Bounded by the requests in flight on it.
#[derive(Debug, Default)]
pub(in crate::pool) struct Work {
    /// In the order in which they were placed.
    prompts: VecDeque<(Ticket, Prompt)>,
    next: u64,
    /// When the last prompt was done.
    done: Option<Instant>,
    /// Streams of tokens.
    decoding: u32,
    speed: Speed,
}

/// Names a prompt in its endpoint's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pool) struct Ticket(u64);

/// A prompt that is placed and not known to be computed.
#[derive(Clone, Copy, Debug)]
pub struct Prompt {
    /// Tokens of it that are to be computed.
    pub tokens: u64,
    /// When it was placed.
    pub at: Instant,
    /// Whether its first token will be seen, or only the whole answer.
    pub streams: bool,
    /// Whether its adapter has to be loaded first.
    pub loads: bool,
}

impl Prompt {
    /// Tokens to be computed of a prompt of which so many are cached, at least 1; a prompt of no tokens was not read.
    pub fn uncached(tokens: u64, cached: u64) -> u64 {
        match tokens {
            0 => UNREAD_TOKENS,
            tokens => tokens.saturating_sub(cached).max(1),
        }
    }
}

/// What is to be expected of an endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outlook {
    /// Tokens of prompts that it has yet to compute for us.
    pub prompt_tokens: f32,
    /// Prompts among which these are.
    pub prompts: f32,
    /// Requests of ours that decode.
    pub decoding: f32,
    /// How fast it is.
    pub speed: Speed,
}

impl Work {
    /// A prompt is placed.
    pub(in crate::pool) fn place(&mut self, prompt: Prompt) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.prompts.push_back((ticket, prompt));
        ticket
    }

    /// The first token of a prompt came, or its whole answer.
    pub(in crate::pool) fn computed(&mut self, ticket: Ticket, now: Instant) {
        let Some(prompt) = self.remove(ticket) else { return };
        if !prompt.streams {
            return;
        }
        let begun = self.begun(&prompt);
        let waited = now.saturating_duration_since(begun).as_secs_f32();
        let tokens = prompt.tokens as f32;
        let shared = self.shared(tokens, begun == prompt.at);
        if prompt.loads {
            let expected = tokens * self.speed.prompt_token(PROMPT_TOKEN_SECONDS, CHUNK_TOKENS);
            self.speed.loaded(waited - shared - expected);
        } else {
            self.speed.computed(tokens, waited, shared, now);
        }
        self.done = Some(now);
        self.decoding += 1;
    }

    /// Seconds of the steps in which `tokens` are computed that go to sequences that decode meanwhile; `idle` when no
    /// other prompt was being computed, so that a step of decoding had to end first.
    fn shared(&self, tokens: f32, idle: bool) -> f32 {
        let chunks = tokens / CHUNK_TOKENS;
        let steps = if idle { chunks.ceil() + 0.5 } else { chunks };
        steps * self.speed.step(self.decoding as f32)
    }

    /// A prompt will not be computed.
    pub(in crate::pool) fn remove(&mut self, ticket: Ticket) -> Option<Prompt> {
        let at = self.prompts.iter().position(|(of, _)| *of == ticket)?;
        self.prompts.remove(at).map(|(_, prompt)| prompt)
    }

    /// A stream of tokens ended.
    pub(in crate::pool) fn ended(&mut self) {
        self.decoding = self.decoding.saturating_sub(1);
    }

    /// So many tokens came since `last`.
    pub(in crate::pool) fn decoded(&mut self, tokens: u64, last: Instant, now: Instant) {
        let alone = self.prompts.is_empty() && self.done.is_none_or(|done| done <= last);
        if alone && tokens > 0 {
            let gap = now.saturating_duration_since(last).as_secs_f32() / tokens as f32;
            self.speed.decoded(gap, self.decoding as f32);
        }
    }

    /// What is to be expected now.
    pub(in crate::pool) fn outlook(&self, now: Instant) -> Outlook {
        let speed = self.speed.at(now);
        let mut outlook =
            Outlook { prompt_tokens: 0.0, prompts: 0.0, decoding: self.decoding as f32, speed };
        let Some((_, first)) = self.prompts.front() else { return outlook };
        let passed = now.saturating_duration_since(self.begun(first)).as_secs_f32();
        let token = speed.prompt_token(PROMPT_TOKEN_SECONDS, CHUNK_TOKENS)
            + speed.step(outlook.decoding) / CHUNK_TOKENS;
        let mut computed = passed / token;
        for (_, prompt) in &self.prompts {
            let tokens = prompt.tokens as f32;
            let most = if prompt.streams { tokens * (1.0 - UNDONE) } else { tokens };
            outlook.prompts += 1.0;
            outlook.prompt_tokens += tokens - computed.min(most);
            outlook.decoding += f32::from(!prompt.streams && computed >= tokens && passed > 0.0);
            computed = if prompt.streams { 0.0 } else { (computed - tokens).max(0.0) };
        }
        outlook
    }

    /// When a prompt at the head began to be computed.
    fn begun(&self, prompt: &Prompt) -> Instant {
        self.done.map_or(prompt.at, |done| done.max(prompt.at))
    }
}
