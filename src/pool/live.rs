//! What this process has in flight on an endpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::pool::activity::Activity;
use crate::pool::health::Health;
use crate::pool::work::{Outlook, Prompt, Ticket, Work};

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
    /// Locked for a walk over a few names.
    pub(in crate::pool) adapters: Mutex<Activity>,
    /// Told by the first of the requests in flight.
    begun: Notify,
    health: Health,
    /// Locked for a walk over the prompts that are not computed.
    work: Mutex<Work>,
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

    /// Whether it seems not to answer: a last resort.
    pub fn suspect(&self, now: Instant) -> bool {
        self.health.suspect(now)
    }

    /// What is to be expected of it.
    pub fn outlook(&self, now: Instant) -> Outlook {
        self.work.lock().outlook(now)
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
        self.work.lock().resume(outlook, now);
    }

    /// Output tokens that the requests placed here are expected to generate yet.
    pub fn decode_tokens(&self) -> u64 {
        self.decode_tokens.load(Ordering::Relaxed)
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
        }
    }

    /// The prompt is computed after those that were placed before it.
    #[must_use]
    pub fn computing(mut self, prompt: Prompt) -> Self {
        self.give_up();
        self.prompt = Some((self.live.work.lock().place(prompt), prompt));
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
            self.live.work.lock().computed(ticket, now);
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
        if let Some((last, times)) = self.last.filter(|_| self.streams && tokens > 0) {
            if times == SAMPLED {
                self.live.work.lock().decoded(tokens, last, now);
            }
            self.last = Some((now, if times == SAMPLED { 0 } else { times + 1 }));
        }
    }

    /// So many tokens were generated, at most those that were expected count.
    pub fn generated(&mut self, tokens: u64) {
        let tokens = tokens.min(self.decode_tokens);
        self.decode_tokens -= tokens;
        self.live.decode_tokens.fetch_sub(tokens, Ordering::Relaxed);
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
            self.live.work.lock().give_up(ticket);
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
            self.live.work.lock().ended();
        }
        self.computed();
        self.generated(u64::MAX);
        self.forget_adapter();
        self.live.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::activity::Standing;
    use crate::server::clock;

    fn counts(live: &Live) -> (u32, u64, u64) {
        (live.requests(), live.prompt_tokens(), live.decode_tokens())
    }

    fn holds(live: &Live, name: &str) -> bool {
        live.adapters.lock().standing(name, None, clock::now()) == Some(Standing::Resident)
    }

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
