//! What this process has in flight on an endpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use seqlock::SeqLock;
use tokio::sync::Notify;

use crate::pool::Phase;
use crate::pool::activity::Activity;
use crate::pool::cached::Cached;
use crate::pool::health::Health;
use crate::pool::life::Signs;
use crate::pool::tally::Tally;
use crate::pool::work::{Outlook, Prompt, Shown, Ticket, UNPROVEN_PROMPTS, Work};

/// Times that tokens of a stream come between two that are taken as samples of a server's speed.
const SAMPLED: u32 = 7;

/// Counters of one endpoint that requests change themselves.
///
/// They outlive the endpoint's slot: a late completion counts down the endpoint that it was charged to, whoever has
/// the slot by then.
#[derive(Debug, Default)]
pub struct Live {
    requests: AtomicU32,
    prompt_tokens: AtomicU64,
    decode_tokens: AtomicU64,
    /// Changes with every sign that a token came out of it; wraps.
    tokens: AtomicU32,
    /// Locked for a walk over a few names.
    pub(in crate::pool) adapters: Mutex<Activity>,
    /// Told by the first of the requests in flight.
    begun: Notify,
    health: Health,
    cached: Cached,
    /// Locked for a walk over the prompts that are not computed, and by who changes it.
    work: Mutex<Work>,
    /// The same for decisions, which read that of every endpoint: they lock nothing and write no memory that they share.
    shown: SeqLock<Shown>,
}

impl Live {
    /// Requests placed here whose answer has not ended.
    pub fn requests(&self) -> u32 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Estimated prompt tokens of the requests placed here whose answer has not begun.
    pub fn prompt_tokens(&self) -> u64 {
        self.prompt_tokens.load(Ordering::Relaxed)
    }

    /// Waits until a request is placed here while no other is; one since the last call counts.
    pub async fn begun(&self) {
        self.begun.notified().await;
    }

    /// Whether connections to it fail, as whoever tries all the time sees it.
    pub fn reach(&self, unreachable: bool) {
        self.health.reach(unreachable);
    }

    /// Changes with every sign that a token came out of it.
    pub fn tokens(&self) -> u32 {
        self.tokens.load(Ordering::Relaxed)
    }

    /// A probe got a token out of it.
    pub fn proven(&self) {
        self.tokens.fetch_add(1, Ordering::Relaxed);
        self.health.probed(Some(0));
    }

    /// A probe got none.
    pub fn probe_failed(&self) {
        self.health.probed(Some(self.health.strikes().unwrap_or(0).saturating_add(1)));
    }

    /// No probe can tell whether it works.
    pub fn unprobed(&self) {
        self.health.probed(None);
    }

    /// Whether the last probe told something; before the first none has.
    pub fn probed(&self) -> bool {
        self.health.strikes().is_some()
    }

    /// Waits until something new speaks against it; what came since the last call counts.
    pub async fn doubted(&self) {
        self.health.doubted().await;
    }

    /// Whether it is in quarantine.
    pub fn held(&self) -> bool {
        self.health.held()
    }

    /// Whether it drains.
    pub fn draining(&self) -> bool {
        self.health.draining()
    }

    /// Whether it may have a further prompt while it has no history.
    pub(in crate::pool) fn has_room(&self) -> bool {
        let few = usize::try_from(self.requests()).is_ok_and(|it| it < UNPROVEN_PROMPTS);
        few || self.work.lock().has_room()
    }

    /// Whether connections to it fail.
    pub fn unreachable(&self) -> bool {
        self.health.unreachable()
    }

    /// Whether it seems not to answer: a last resort.
    pub fn suspect(&self, now: Instant) -> bool {
        self.held() || self.health.suspicion(now).is_some()
    }

    /// What matters of it for signs of life; its page is to be added.
    pub(in crate::pool) fn signs(&self, now: Instant) -> Signs {
        // On its own line: the lock is not held when the outlook takes it again.
        let streams = self.work.lock().streams();
        Signs {
            tokens: self.tokens(),
            requests: self.requests(),
            streams,
            outlook: self.outlook(now),
            page: None,
            plain: self.health.suspicion(now),
            strikes: self.health.strikes(),
        }
    }

    /// It stands there now.
    pub(in crate::pool) fn stands(&self, phase: Phase) {
        self.health.stands(phase);
    }

    /// Something new speaks against it.
    pub(in crate::pool) fn doubt(&self) {
        self.health.doubt();
    }

    /// How much of its prompts of late it had in its cache.
    #[inline]
    pub fn cached(&self) -> &Cached {
        &self.cached
    }

    /// What is to be expected of it.
    #[inline]
    pub fn outlook(&self, now: Instant) -> Outlook {
        let shown = self.shown.read();
        if shown.unclear() { self.change(|work| work.outlook(now)) } else { shown.outlook(now) }
    }

    /// Takes what was in flight on it elsewhere, which never ends here, and what was to be expected of it.
    pub(in crate::pool) fn resume(
        &self,
        in_flight: (u32, u64, u64),
        outlook: Outlook,
        now: Instant,
    ) {
        let (requests, prompt_tokens, decode_tokens) = in_flight;
        self.requests.store(requests, Ordering::Relaxed);
        self.prompt_tokens.store(prompt_tokens, Ordering::Relaxed);
        self.decode_tokens.store(decode_tokens, Ordering::Relaxed);
        self.change(|work| work.resume(outlook, now));
    }

    /// Changes the work, and shows it.
    fn change<T>(&self, change: impl FnOnce(&mut Work) -> T) -> T {
        let mut work = self.work.lock();
        let result = change(&mut work);
        *self.shown.lock_write() = work.shown();
        result
    }

    /// What has passed through it since it joined.
    pub fn tally(&self) -> Tally {
        self.work.lock().tally
    }

    /// Output tokens that the requests placed here are expected to generate yet.
    pub fn decode_tokens(&self) -> u64 {
        self.decode_tokens.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
impl Live {
    /// What only the writer of the pool does.
    pub(crate) fn doubt_for_test(&self) {
        self.doubt();
    }

    /// What only the writer of the pool does.
    pub(crate) fn stands_for_test(&self, phase: Phase) {
        self.stands(phase);
    }

    /// What only the writer of the pool reads.
    pub(crate) fn strikes_for_test(&self) -> Option<u32> {
        self.health.strikes()
    }
}

/// Counts one request as in flight on an endpoint until dropped, however the stream ends.
#[derive(Debug)]
pub struct InFlight {
    live: Arc<Live>,
    prompt_tokens: u64,
    decode_tokens: u64,
    adapter: Option<(Arc<str>, Instant)>,
    prompt: Option<(Ticket, Prompt)>,
    /// Its tokens are seen as they come.
    streams: bool,
    /// When the last token was seen, and how many since one was taken as a sample.
    last: Option<(Instant, u32)>,
    /// Tokens of the answer, as far as they are known.
    output: u64,
    /// Those of them that are in the tally.
    tallied: u64,
}

impl InFlight {
    /// Charges `live` with one request and its prompt.
    pub fn begin(live: &Arc<Live>, prompt_tokens: u64) -> Self {
        if live.requests.fetch_add(1, Ordering::Relaxed) == 0 {
            live.begun.notify_one();
        }
        live.prompt_tokens.fetch_add(prompt_tokens, Ordering::Relaxed);
        Self {
            live: Arc::clone(live),
            prompt_tokens,
            decode_tokens: 0,
            adapter: None,
            prompt: None,
            streams: false,
            last: None,
            output: 0,
            tallied: 0,
        }
    }

    /// The prompt is computed after those that were placed before it.
    #[must_use]
    pub fn computing(mut self, prompt: Prompt) -> Self {
        self.give_up();
        self.prompt = Some((self.live.change(|work| work.place(prompt)), prompt));
        self
    }

    /// Charges the output that is expected as well.
    #[must_use]
    pub fn decoding(mut self, tokens: u64) -> Self {
        self.live.decode_tokens.fetch_add(tokens, Ordering::Relaxed);
        self.decode_tokens += tokens;
        self
    }

    /// The status of the answer is known: an error of the server's or not.
    pub fn answered_with(&self, failed: bool, now: Instant) {
        self.live.health.answered(failed, now);
    }

    /// The request is for an adapter, which its server loads if it must.
    #[must_use]
    pub fn adapting(mut self, name: &str, now: Instant) -> Self {
        self.forget_adapter();
        self.adapter = Some((self.live.adapters.lock().begin(name, now), now));
        self
    }

    /// Whether the request is for an adapter.
    pub fn adapts(&self) -> bool {
        self.adapter.is_some()
    }

    /// The answer is an error: the prompt weighs no more, and was not computed.
    pub fn failed(&mut self) {
        self.give_up();
        self.computed();
    }

    /// The answer has begun: the prompt is computed and weighs no more. Further calls change nothing.
    pub fn answered(&mut self, now: Instant) {
        if let Some((ticket, prompt)) = self.prompt.take() {
            self.live.change(|work| work.computed(ticket, now));
            self.live.tokens.fetch_add(1, Ordering::Relaxed);
            self.streams = prompt.streams;
            self.last = Some((now, 0));
        }
        self.computed();
    }

    fn computed(&mut self) {
        let tokens = std::mem::take(&mut self.prompt_tokens);
        self.live.prompt_tokens.fetch_sub(tokens, Ordering::Relaxed);
    }

    /// So many tokens came, at most those that were expected count. Every eighth time they tell of the server's speed.
    pub fn streamed(&mut self, tokens: u64, now: Instant) {
        self.generated(tokens);
        self.output += tokens;
        if let Some((last, times)) = self.last.filter(|_| self.streams && tokens > 0) {
            self.live.tokens.fetch_add(1, Ordering::Relaxed);
            if times == SAMPLED {
                self.sample(tokens, last, now);
            }
            self.last = Some((now, if times == SAMPLED { 0 } else { times + 1 }));
        }
    }

    /// So many tokens were generated, at most those that were expected count.
    pub fn generated(&mut self, tokens: u64) {
        let tokens = tokens.min(self.decode_tokens);
        if tokens > 0 {
            self.decode_tokens -= tokens;
            self.live.decode_tokens.fetch_sub(tokens, Ordering::Relaxed);
        }
    }

    fn sample(&mut self, tokens: u64, last: Instant, now: Instant) {
        let more = self.tallied();
        self.live.change(|work| {
            work.tally.generated += more;
            work.decoded(tokens, last, now);
        });
    }

    /// The server says that the whole answer has so many tokens; 0 says nothing.
    pub fn told(&mut self, tokens: u64) {
        if tokens > 0 {
            self.output = tokens.max(self.tallied);
        }
    }

    /// Tokens that are known and not in the tally, which they go to.
    fn tallied(&mut self) -> u64 {
        self.output - std::mem::replace(&mut self.tallied, self.output)
    }

    /// Another endpoint than the chosen one serves the request: the charge moves there.
    pub fn move_to(&mut self, live: &Arc<Live>) {
        let moved = Self::begin(live, self.prompt_tokens).decoding(self.decode_tokens);
        let moved = match self.prompt {
            Some((_, prompt)) => moved.computing(prompt),
            None => moved,
        };
        *self = match &self.adapter {
            Some((name, at)) => moved.adapting(name, *at),
            None => moved,
        };
    }

    fn give_up(&mut self) {
        if let Some((ticket, _)) = self.prompt.take() {
            self.live.change(|work| work.give_up(ticket));
        }
    }

    fn forget_adapter(&mut self) {
        if let Some((name, _)) = self.adapter.take() {
            self.live.adapters.lock().end(&name);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.give_up();
        if std::mem::take(&mut self.streams) {
            self.live.change(Work::ended);
        }
        if self.output > 0 {
            let (more, all) = (self.tallied(), self.output);
            let mut work = self.live.work.lock();
            work.tally.generated += more;
            work.tally.end(all);
        }
        self.computed();
        self.generated(u64::MAX);
        self.forget_adapter();
        self.live.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pool::activity::Standing;
    use crate::server::clock;

    fn counts(live: &Live) -> (u32, u64, u64) {
        (live.requests(), live.prompt_tokens(), live.decode_tokens())
    }

    fn holds(live: &Live, name: &str) -> bool {
        live.adapters.lock().standing(name, None, clock::now()) == Some(Standing::Resident)
    }

    // FR-164
    #[test]
    fn a_request_is_charged_once_and_released_once() {
        let live = Arc::new(Live::default());
        let mut request = InFlight::begin(&live, 100).decoding(10);
        assert_eq!(counts(&live), (1, 100, 10));
        request.answered(clock::now());
        request.answered(clock::now());
        request.generated(4);
        assert_eq!(counts(&live), (1, 0, 6));
        drop(request);
        assert_eq!(counts(&live), (0, 0, 0));
    }

    #[test]
    fn more_output_than_expected_takes_nothing_from_others() {
        let live = Arc::new(Live::default());
        let _other = InFlight::begin(&live, 0).decoding(5);
        let mut request = InFlight::begin(&live, 0).decoding(5);
        request.generated(3);
        request.generated(100);
        assert_eq!(counts(&live), (2, 0, 5));
    }

    #[test]
    fn what_decisions_read_is_what_the_work_says() {
        let (live, mut now) = (Arc::new(Live::default()), clock::now());
        let (mut requests, mut dice) = (Vec::<InFlight>::new(), fastrand::Rng::with_seed(7));
        for _ in 0..2_000 {
            now += Duration::from_millis(dice.u64(..400));
            let at = dice.usize(..=requests.len());
            match (dice.u8(..4), requests.get_mut(at)) {
                (0, Some(request)) => request.answered(now),
                (1, Some(request)) => request.streamed(9, now),
                (2, Some(_)) => drop(requests.swap_remove(at)),
                _ => {
                    let (tokens, streams) = (dice.u64(1..9_000), dice.u8(..8) > 0);
                    let prompt = Prompt { tokens, at: now, streams, loads: false };
                    requests.push(InFlight::begin(&live, tokens).decoding(99).computing(prompt));
                }
            }
            let read = live.outlook(now);
            assert_eq!(read, live.work.lock().outlook(now));
        }
        assert!(live.outlook(now).speed.weight() > 0.0, "something was learnt");
    }

    #[test]
    fn the_charge_follows_the_endpoint_that_served() {
        let (chosen, served) = (Arc::new(Live::default()), Arc::new(Live::default()));
        let mut request = InFlight::begin(&chosen, 7).decoding(3).adapting("sql", clock::now());
        request.move_to(&served);
        assert_eq!((counts(&chosen), counts(&served)), ((0, 0, 0), (1, 7, 3)));
        assert!(holds(&served, "sql"));
        drop(request);
        assert_eq!(counts(&served), (0, 0, 0));
    }
}
