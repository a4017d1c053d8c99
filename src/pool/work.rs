//! What an endpoint has yet to compute for us.
//!
//! A server computes prompts in the order in which they came. So the time from one first token to the next is what the
//! later prompt took, and between two of them the prompt at the head is being computed: it grows shorter at the speed that
//! was learnt, and is done when its first token comes. An answer that comes as a whole tells nothing before its end; its
//! prompt is taken to be computed when it should be.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::pool::Tally;
use crate::pool::speed::{CHUNK_TOKENS, PROMPT_TOKEN_SECONDS, Speed};

/// What is left of a prompt whose first token has not come, as a share of it, at least.
const UNDONE: f32 = 0.05;

/// First tokens that are no further apart come from one step.
const ONE_STEP: Duration = Duration::from_millis(5);

/// What the first guess counts beside what was learnt, in prompts.
const GUESS_WEIGHT: f32 = 0.5;

/// Tokens of a prompt that was not read.
const UNREAD_TOKENS: u64 = 1_000;

/// Prompts at a time of a server that has computed none.
pub(in crate::pool) const UNPROVEN_PROMPTS: usize = 4;

/// Prompts that are taken over from elsewhere at most.
const MOST_RESUMED: f32 = 10_000.0;

/// The work of one endpoint. Bounded by the requests in flight on it.
#[derive(Debug, Default)]
pub(in crate::pool) struct Work {
    /// In the order in which they were placed.
    prompts: VecDeque<(Ticket, Prompt)>,
    /// Tokens of these.
    tokens: u64,
    next: u64,
    /// The head was given up since the last call that knew the time.
    orphaned: bool,
    /// It is not known when the head was begun.
    unsure: bool,
    /// When the last prompt was done.
    done: Option<Instant>,
    /// Prompts that were computed to the end.
    proven: usize,
    /// Streams of tokens.
    decoding: u32,
    speed: Speed,
    /// What the last step told; another prompt may have been done in it.
    step: Option<Computed>,
    /// What has passed.
    pub(in crate::pool) tally: Tally,
}

/// Prompts whose first tokens came from one step.
#[derive(Clone, Copy, Debug)]
struct Computed {
    tokens: f32,
    /// Since the first tokens before.
    seconds: f32,
    at: Instant,
}

/// Names a prompt in its endpoint's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
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

/// The work of an endpoint as decisions read it: what an outlook is made from.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::pool) struct Shown {
    /// The same but for what has passed since it was shown.
    outlook: Outlook,
    head: Head,
}

/// The prompt that is being computed.
#[derive(Clone, Copy, Debug, Default)]
enum Head {
    /// There is none.
    #[default]
    Nothing,
    /// Its first token will be seen.
    Streams {
        /// Tokens of it that are to be computed.
        tokens: f32,
        begun: Instant,
    },
    /// It takes all prompts to tell, or the work has to change.
    Unclear,
}

impl Shown {
    /// Whether only [`Work::outlook`] tells what is to be expected.
    #[inline]
    pub(in crate::pool) fn unclear(&self) -> bool {
        matches!(self.head, Head::Unclear)
    }

    /// What is to be expected now.
    ///
    /// It and what it calls are inlined: else half of its instructions copy outlooks.
    #[inline]
    pub(in crate::pool) fn outlook(&self, now: Instant) -> Outlook {
        let mut outlook = Outlook { speed: self.outlook.speed.at(now), ..self.outlook };
        if let Head::Streams { tokens, begun } = self.head {
            let computed = outlook.computed_since(begun, now);
            outlook.prompt_tokens -= computed.min(tokens * (1.0 - UNDONE));
            outlook.prompt_tokens = outlook.prompt_tokens.max(0.0);
        }
        outlook
    }
}

impl Outlook {
    /// Tokens of prompts that are computed in this time.
    #[inline]
    fn computed_since(&self, begun: Instant, now: Instant) -> f32 {
        let passed = now.saturating_duration_since(begun).as_secs_f32();
        let token = self.speed.prompt_token(PROMPT_TOKEN_SECONDS, GUESS_WEIGHT)
            + self.speed.step(self.decoding) / CHUNK_TOKENS;
        passed / token
    }
}

impl Work {
    /// What was to be expected elsewhere: prompts of the same length, 10,000 at most, that begin now.
    pub(in crate::pool) fn resume(&mut self, outlook: Outlook, now: Instant) {
        let Outlook { prompt_tokens, prompts, decoding, speed } = outlook;
        (self.speed, self.decoding) = (speed, count(decoding));
        let prompts = prompts.min(MOST_RESUMED);
        let tokens = u64::from(count(prompt_tokens / prompts.max(1.0)));
        for _ in 0..count(prompts) {
            self.place(Prompt { tokens, at: now, streams: true, loads: false });
        }
    }

    /// A prompt is placed.
    pub(in crate::pool) fn place(&mut self, prompt: Prompt) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.tokens += prompt.tokens;
        self.tally.place(prompt.tokens);
        self.prompts.push_back((ticket, prompt));
        ticket
    }

    /// The first token of a prompt came, or its whole answer.
    ///
    /// Nothing is learnt where it cannot be told when the prompt was begun: behind one whose answer comes as a whole, and
    /// behind one that was given up.
    pub(in crate::pool) fn computed(&mut self, ticket: Ticket, now: Instant) {
        let ahead = self.place_of(ticket).unwrap_or_default();
        let unsure = self.unsure || self.prompts.iter().take(ahead).any(|(_, it)| !it.streams);
        let Some(prompt) = self.take(ticket) else { return };
        self.proven = self.proven.saturating_add(1);
        if !prompt.streams {
            return;
        }
        let begun = self.begun(&prompt);
        let waited = now.saturating_duration_since(begun).as_secs_f32();
        let tokens = prompt.tokens as f32;
        let expected = tokens * self.speed.prompt_token(PROMPT_TOKEN_SECONDS, GUESS_WEIGHT);
        self.tally.begin(now.saturating_duration_since(prompt.at).as_secs_f32() - expected);
        let seconds = waited - self.shared(tokens, begun == prompt.at);
        if prompt.loads && !unsure {
            self.speed.loaded(seconds - expected);
        } else if !unsure {
            self.learn(Computed { tokens, seconds, at: now });
        }
        (self.done, self.unsure, self.orphaned) = (Some(now), false, false);
        self.decoding += 1;
    }

    /// Learns from a step once the next one is there.
    fn learn(&mut self, next: Computed) {
        let same = |step: &Computed| next.at.saturating_duration_since(step.at) < ONE_STEP;
        if let Some(step) = self.step.as_mut().filter(|step| same(step)) {
            step.tokens += next.tokens;
            step.seconds += next.seconds;
        } else if let Some(Computed { tokens, seconds, at }) = self.step.replace(next) {
            self.speed.computed(tokens, seconds, at);
        }
    }

    /// Seconds of the steps in which `tokens` are computed that go to sequences that decode meanwhile; `idle` when no
    /// other prompt was being computed, so that a step of decoding had to end first.
    fn shared(&self, tokens: f32, idle: bool) -> f32 {
        let chunks = tokens / CHUNK_TOKENS;
        let steps = if idle { chunks.ceil() + 0.5 } else { chunks };
        steps * self.speed.step(self.decoding as f32)
    }

    /// A prompt will not be computed.
    pub(in crate::pool) fn give_up(&mut self, ticket: Ticket) {
        self.orphaned |= self.place_of(ticket) == Some(0);
        self.take(ticket);
    }

    fn take(&mut self, ticket: Ticket) -> Option<Prompt> {
        let (_, prompt) = self.prompts.remove(self.place_of(ticket)?)?;
        self.tokens -= prompt.tokens;
        Some(prompt)
    }

    /// Tickets ascend.
    fn place_of(&self, ticket: Ticket) -> Option<usize> {
        self.prompts.binary_search_by_key(&ticket, |(of, _)| *of).ok()
    }

    /// Whether the answer of a request comes token by token, or is to.
    pub(in crate::pool) fn streams(&self) -> bool {
        self.decoding > 0 || self.prompts.iter().any(|(_, prompt)| prompt.streams)
    }

    /// Whether a server without a history may have a further prompt: four, and one more for each that it computed. So what
    /// it has at a time doubles with each round.
    pub(in crate::pool) fn has_room(&self) -> bool {
        self.prompts.len() < UNPROVEN_PROMPTS.saturating_add(self.proven)
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
    pub(in crate::pool) fn outlook(&mut self, now: Instant) -> Outlook {
        if std::mem::take(&mut self.orphaned) {
            (self.done, self.unsure) = (Some(now), true);
        }
        let mut outlook = Outlook { speed: self.speed.at(now), ..self.counts() };
        let Some((_, first)) = self.prompts.front() else { return outlook };
        let mut computed = outlook.computed_since(self.begun(first), now);
        for (_, prompt) in &self.prompts {
            let tokens = prompt.tokens as f32;
            let most = if prompt.streams { tokens * (1.0 - UNDONE) } else { tokens };
            outlook.prompt_tokens -= computed.min(most);
            if prompt.streams || computed < tokens {
                break;
            }
            outlook.decoding += 1.0;
            computed -= tokens;
        }
        outlook.prompt_tokens = outlook.prompt_tokens.max(0.0);
        outlook
    }

    /// What decisions read until the work changes.
    pub(in crate::pool) fn shown(&self) -> Shown {
        let head = match self.prompts.front() {
            _ if self.orphaned => Head::Unclear,
            None => Head::Nothing,
            Some((_, first)) if !first.streams => Head::Unclear,
            Some((_, first)) => {
                Head::Streams { tokens: first.tokens as f32, begun: self.begun(first) }
            }
        };
        Shown { outlook: self.counts(), head }
    }

    /// What is placed, as if no time passed.
    fn counts(&self) -> Outlook {
        Outlook {
            prompt_tokens: self.tokens as f32,
            prompts: self.prompts.len() as f32,
            decoding: self.decoding as f32,
            speed: self.speed,
        }
    }

    /// When a prompt at the head began to be computed.
    fn begun(&self, prompt: &Prompt) -> Instant {
        self.done.map_or(prompt.at, |done| done.max(prompt.at))
    }
}

/// A number of things; what is no such number is none.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn count(value: f32) -> u32 {
    value as u32
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::server::clock;

    const STEP: Duration = Duration::from_secs(1);

    fn prompt(tokens: u64, at: Instant) -> Prompt {
        Prompt { tokens, at, streams: true, loads: false }
    }

    fn near(left: f32, right: f32) -> bool {
        (left - right).abs() <= 0.01 * right.abs().max(1.0)
    }

    #[test]
    fn a_prompt_grows_shorter_and_is_done_with_its_first_token() {
        let (mut work, start) = (Work::default(), clock::now());
        let first = work.place(prompt(8_000, start));
        let second = work.place(prompt(4_000, start));
        assert!(near(work.outlook(start).prompt_tokens, 12_000.0));
        assert!(near(work.outlook(start + STEP / 2).prompt_tokens, 8_000.0));
        let late = work.outlook(start + STEP * 10);
        assert!(near(late.prompt_tokens, 4_400.0), "the head is not done: {late:?}");
        work.computed(first, start + STEP);
        let after = work.outlook(start + STEP);
        assert!(near(after.prompt_tokens, 4_000.0) && near(after.decoding, 1.0), "{after:?}");
        work.give_up(second);
        work.give_up(second);
        assert!(near(work.outlook(start + STEP).prompt_tokens, 0.0));
        work.ended();
        assert!(near(work.outlook(start + STEP).decoding, 0.0));
    }

    #[test]
    fn an_answer_as_a_whole_is_taken_to_be_computed_in_time() {
        let (mut work, start) = (Work::default(), clock::now());
        let whole = Prompt { streams: false, ..prompt(8_000, start) };
        let (first, _) = (work.place(whole), work.place(whole));
        let outlook = work.outlook(start + STEP + STEP / 2);
        assert!(near(outlook.prompt_tokens, 4_000.0), "{outlook:?}");
        assert!(near(outlook.decoding, 1.0), "{outlook:?}");
        work.computed(first, start + STEP * 9);
        assert!(
            near(work.outlook(start + STEP * 9).speed.weight(), 0.0),
            "nothing is learnt of it"
        );
    }

    #[test]
    fn nothing_is_learnt_behind_what_hides_when_it_began() {
        let (mut work, start) = (Work::default(), clock::now());
        work.place(Prompt { streams: false, ..prompt(8_000, start) });
        let hidden = work.place(prompt(8_000, start));
        work.computed(hidden, start + STEP * 30);
        let mut work = Work::default();
        let (head, next) = (work.place(prompt(8_000, start)), work.place(prompt(8_000, start)));
        work.give_up(head);
        let begun = work.outlook(start + STEP * 20);
        assert!(near(begun.prompt_tokens, 8_000.0), "it begins now: {begun:?}");
        work.computed(next, start + STEP * 30);
        let after = work.place(prompt(8_000, start + STEP * 30));
        work.computed(after, start + STEP * 40);
        assert!(near(work.outlook(start + STEP * 40).speed.weight(), 0.0));
    }

    #[test]
    fn the_speed_is_learnt_from_what_came_one_after_the_other() {
        let (mut work, start) = (Work::default(), clock::now());
        let mut now = start;
        for _ in 0..40 {
            let tickets = [3_000, 5_000].map(|tokens| work.place(prompt(tokens, now)));
            work.computed(tickets[0], now + STEP * 3 / 4);
            work.computed(tickets[1], now + STEP * 2);
            (0..2).for_each(|_| work.ended());
            now += STEP * 3;
        }
        let token = work.outlook(now).speed.prompt_token(PROMPT_TOKEN_SECONDS, 1e-3);
        // 50 ms of the two seconds go to the sequence that decodes meanwhile.
        assert!(near(token * 8_000.0, 1.95), "twice as slow as expected: {token}");
    }

    #[test]
    fn an_adapter_that_is_loaded_tells_of_loads_and_not_of_prompts() {
        let (mut work, mut now) = (Work::default(), clock::now());
        for _ in 0..20 {
            let ticket = work.place(Prompt { loads: true, ..prompt(800, now) });
            now += STEP * 11 / 10;
            work.computed(ticket, now);
            work.ended();
        }
        let speed = work.outlook(now).speed;
        assert!(near(speed.load(), 1.0) && near(speed.weight(), 0.0), "{speed:?}");
    }

    #[test]
    fn what_a_new_server_may_have_at_a_time_doubles_with_each_round() {
        let (mut work, now) = (Work::default(), clock::now());
        let mut rounds = Vec::new();
        for _ in 0..4 {
            let mut tickets = Vec::new();
            while work.has_room() {
                tickets.push(work.place(prompt(100, now)));
            }
            rounds.push(tickets.len());
            for ticket in tickets {
                work.computed(ticket, now);
            }
        }
        assert_eq!(rounds, [4, 8, 16, 32]);
        for _ in 0..64 {
            let ticket = work.place(prompt(100, now));
            work.give_up(ticket);
        }
        assert_eq!(work.proven, 60, "what is given up proves nothing");
    }

    #[test]
    fn steps_are_learnt_while_no_prompt_is_computed() {
        let (mut work, start) = (Work::default(), clock::now());
        let ticket = work.place(prompt(8, start));
        work.computed(ticket, start);
        let slow = Duration::from_millis(60);
        let busy = work.place(prompt(8, start));
        (0..99).for_each(|n| work.decoded(1, start + slow * n, start + slow * (n + 1)));
        assert!(near(work.outlook(start).speed.step(1.0) * 1e3, 20.0), "not while it computes");
        work.give_up(busy);
        (0..99).for_each(|n| work.decoded(1, start + slow * n, start + slow * (n + 1)));
        assert!(near(work.outlook(start).speed.step(1.0) * 1e3, 60.0));
    }
}
