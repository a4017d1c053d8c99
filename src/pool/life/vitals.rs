//! Signs of life: whether a server does what it has taken on, by what passes through us and by its page.
//!
//! A server that hangs accepts requests, answers probes of its health and shows a page; only no token comes out of it. Its
//! queue is short, so it would draw requests. While it has work of ours and neither a token comes nor its cache changes
//! for longer than it should take, it is suspect; so it is when a probe of one token fails twice, or six times where its
//! cache changes: it may be busy with long prompts. What is held against it stays until a token came out, of a request or of
//! a probe: clients that give up must not make it look idle.
//!
//! Patience is `max(1 s, 10 * step + 2 * prefill)`: the step in which its sequences decode, and what the prompts should
//! take that it had to compute when it was last heard of, at the speed that was learnt of it.

use std::time::{Duration, Instant};

use crate::pool::{Outlook, PROMPT_TOKEN_SECONDS, Reason};

/// Patience at least: a step may be held up by others.
const LEAST: f32 = 1.0;

/// Steps without a token.
const STEPS: f32 = 10.0;

/// Times that prompts may take what they should.
const SLACK: f32 = 2.0;

/// Patience at most, in seconds: no prompt takes longer.
const MOST: f32 = 60.0;

/// What a learnt speed is mixed with, in prompts.
const GUESS_WEIGHT: f32 = 0.5;

/// Where answers come as a whole, only the page tells; it has to stand still for so long. Doubled with each time that it
/// was held for this and a token came: the pages of some engines change seldom.
const FROZEN: Duration = Duration::from_millis(2500);

/// Frozen pages that were none are counted up to here.
const MOST_ALARMS: u32 = 5;

/// Probes that failed in a row are no accident.
const STRIKES: u32 = 2;

/// The same of a server whose cache changes.
const BUSY_STRIKES: u32 = 6;

/// A cache that changed no longer ago is one that changes: longer than two probes take.
const CHANGES: Duration = Duration::from_secs(5);

/// Where no probe can tell that a server works again, it is tried again after so long.
const REST: Duration = Duration::from_secs(10);

/// What is watched of one endpoint, from look to look.
#[derive(Clone, Copy, Debug)]
pub(in crate::pool) struct Vitals {
    /// When it was listed.
    pub(in crate::pool) listed: Instant,
    tokens: u32,
    kv_usage: Option<f32>,
    quiet: Option<Quiet>,
    held: Option<Held>,
    /// When its cache was last seen to change.
    moved: Option<Instant>,
    /// Times that its page stood still although it worked, since it last changed.
    alarms: u32,
}

/// What is held against it.
#[derive(Clone, Copy, Debug)]
struct Held {
    reason: Reason,
    since: Instant,
    /// A token has come since.
    proven: bool,
}

/// It has work of ours and gave no sign of life since.
#[derive(Clone, Copy, Debug)]
struct Quiet {
    since: Instant,
    patience: Duration,
}

/// What is seen of an endpoint at one look.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::pool) struct Signs {
    /// Changes with every token that came out.
    pub(in crate::pool) tokens: u32,
    /// Requests of ours that have not ended.
    pub(in crate::pool) requests: u32,
    /// Whether the answer of one of them comes token by token.
    pub(in crate::pool) streams: bool,
    /// What is to be expected of it.
    pub(in crate::pool) outlook: Outlook,
    /// Its page, where that is fresh.
    pub(in crate::pool) page: Option<Page>,
    /// What speaks against it by itself, as long as it does.
    pub(in crate::pool) plain: Option<Reason>,
    /// Probes that failed in a row; none where no probe can tell.
    pub(in crate::pool) strikes: Option<u32>,
}

/// What a page says that matters here.
#[derive(Clone, Copy, Debug)]
pub(in crate::pool) struct Page {
    /// When it was asked for.
    pub(in crate::pool) at: Instant,
    /// Whether requests wait or run; none when it does not say.
    pub(in crate::pool) busy: Option<bool>,
    /// Used share of the cache.
    pub(in crate::pool) kv_usage: Option<f32>,
}

impl Vitals {
    pub(in crate::pool) fn new(now: Instant) -> Self {
        Self {
            listed: now,
            tokens: 0,
            kv_usage: None,
            quiet: None,
            held: None,
            moved: None,
            alarms: 0,
        }
    }

    /// What spoke against the endpoint at the last look.
    pub(in crate::pool) fn suspected(&self) -> Option<Reason> {
        self.held.map(|held| held.reason)
    }

    /// What speaks against the endpoint now.
    pub(in crate::pool) fn look(&mut self, signs: &Signs, now: Instant) -> Option<Reason> {
        self.listen(signs, now);
        let found = signs.plain.or_else(|| self.found(signs, now));
        let anew = |reason| Held { reason, since: now, proven: false };
        if self.held.is_some_and(|held| held.proven && held.reason == Reason::Frozen) {
            self.alarms = (self.alarms + 1).min(MOST_ALARMS);
        }
        self.held = self.held.filter(|held| held.stays(signs, now)).or_else(|| found.map(anew));
        self.suspected()
    }

    /// Takes in whether it gave a sign of life.
    fn listen(&mut self, signs: &Signs, now: Instant) {
        let token = signs.tokens != self.tokens;
        let kv_usage = signs.page.and_then(|page| page.kv_usage).or(self.kv_usage);
        let changed = |was: f32| kv_usage.map(f32::to_bits) != Some(was.to_bits());
        let moved = self.kv_usage.is_some_and(changed);
        (self.tokens, self.kv_usage) = (signs.tokens, kv_usage);
        let rests = |quiet: Quiet| {
            let since = |page: &Page| page.at >= quiet.since;
            signs.page.filter(since).is_some_and(|page| page.busy == Some(false))
        };
        if let Some(held) = &mut self.held {
            held.proven |= token;
        }
        if moved {
            (self.moved, self.alarms) = (Some(now), 0);
        }
        if token || moved || signs.requests == 0 || self.quiet.is_some_and(rests) {
            self.quiet = None;
        }
        if signs.requests > 0 && self.quiet.is_none() {
            self.quiet = Some(Quiet { since: now, patience: patience(&signs.outlook) });
        }
    }

    fn found(&self, signs: &Signs, now: Instant) -> Option<Reason> {
        let quiet = |quiet: &Quiet| now.saturating_duration_since(quiet.since);
        let silent = |it: &Quiet| signs.streams && quiet(it) > it.patience;
        let stands = signs.page.is_some_and(|it| it.busy == Some(true) && it.kv_usage.is_some());
        let frozen = FROZEN * 2_u32.pow(self.alarms);
        let frozen = |it: &Quiet| stands && quiet(it) > it.patience.max(frozen);
        let changes = self.moved.is_some_and(|at| now.saturating_duration_since(at) < CHANGES);
        let strikes = if changes { BUSY_STRIKES } else { STRIKES };
        match &self.quiet {
            _ if signs.strikes.is_some_and(|it| it >= strikes) => Some(Reason::NoToken),
            Some(it) if silent(it) => Some(Reason::Silent),
            Some(it) if frozen(it) => Some(Reason::Frozen),
            Some(_) | None => None,
        }
    }
}

impl Held {
    /// Whether it is held on: as long as it shows, and until a token came.
    fn stays(&self, signs: &Signs, now: Instant) -> bool {
        let rested = now.saturating_duration_since(self.since) >= REST;
        let proven = self.proven || (signs.strikes.is_none() && rested);
        // Whoever tries to connect all the time sees at once when it is there again.
        signs.plain == Some(self.reason) || !(proven || self.reason == Reason::Unreachable)
    }
}

fn patience(outlook: &Outlook) -> Duration {
    let token = outlook.speed.prompt_token(PROMPT_TOKEN_SECONDS, GUESS_WEIGHT);
    let step = outlook.speed.step(outlook.decoding.max(1.0));
    let seconds = STEPS * step + SLACK * outlook.prompt_tokens * token;
    Duration::try_from_secs_f32(seconds.clamp(LEAST, MOST)).unwrap_or(Duration::from_secs(1))
}

#[cfg(test)]
mod tests;
