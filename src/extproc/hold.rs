//! A request that waits for the first endpoint of its pool.

use std::task::Context;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::extproc::refusal::Refusal;
use crate::extproc::request::Phase;
use crate::extproc::{BodyMode, End, Exchange, budget};
use crate::flow::{Ticket, Unheld};
use crate::pool::Subset;

/// When a client may try again whose request has waited in vain: an endpoint may be close.
const RETRY: Duration = Duration::from_secs(5);

/// Its place in the queue.
#[derive(Debug)]
pub(in crate::extproc) struct Waiting {
    ticket: Ticket,
    /// How long the gateway may be silent from the last message on: for the rest of the wait.
    left: Duration,
    /// The gateway has said all that it will.
    half_closed: bool,
}

impl Exchange {
    /// Whether the request waits for an endpoint.
    pub(in crate::extproc) fn waits(&self) -> bool {
        self.waiting.is_some()
    }

    /// Whether the request is let go: then [`decide`](Self::decide) is to be called again, and its outcome told. Wakes `cx`
    /// when it is, later.
    pub fn released(&mut self, cx: &mut Context<'_>) -> bool {
        self.waiting.as_mut().is_some_and(|waiting| waiting.ticket.poll(cx).is_ready())
    }

    /// How long the gateway may be silent while the request waits; none when it does not.
    pub(in crate::extproc) fn rest(&self) -> Option<Duration> {
        self.waiting.as_ref().map(|waiting| waiting.left)
    }

    /// Queues behind those that wait for an endpoint; true when it does. To be asked before a decision is. Where the request
    /// may not be held it may still find an endpoint.
    pub fn queues(&mut self, now: impl FnOnce() -> Instant) -> bool {
        let flow = &self.settings.flow;
        let Some(limits) = self.settings.hold.filter(|_| flow.held() > 0) else { return false };
        match flow.hold(&limits, self.held_bytes(), now()) {
            Ok(ticket) => self.wait(ticket, limits.max_wait),
            Err(_) => return false,
        }
        true
    }

    /// There is no endpoint in the pool: the request waits for one, or is refused.
    pub(in crate::extproc) fn lacks(&mut self, refusal: &Refusal, now: Instant) {
        let flow = &self.settings.flow;
        let Some(limits) = self.settings.hold else {
            flow.refused();
            return self.refuse(refusal);
        };
        if self.waits() && flow.closed() {
            flow.expired();
            return self.refuse(&Refusal::Stopping);
        }
        if let Some(waiting) = self.waiting.take() {
            let Waiting { ticket, left, half_closed } = *waiting;
            // it was let go for an endpoint that is gone again
            let place = ticket.place();
            drop(ticket);
            let ticket = flow.hold_again(place, self.held_bytes());
            self.waiting = Some(Box::new(Waiting { ticket, left, half_closed }));
            return;
        }
        match flow.hold(&limits, self.held_bytes(), now) {
            Ok(ticket) => self.wait(ticket, limits.max_wait),
            Err(why) => {
                let retry = flow.retry_after(now);
                flow.refused();
                self.director.metrics().hold.ended(result(why));
                self.refuse(&Refusal::Unheld(why, retry));
            }
        }
    }

    fn wait(&mut self, ticket: Ticket, left: Duration) {
        // what the gateway allowed was chosen of nothing
        self.subset = Subset::All;
        self.waiting = Some(Box::new(Waiting { ticket, left, half_closed: false }));
    }

    /// A message came while the request waits: its silence is counted from there.
    pub(in crate::extproc) fn heard(&mut self, now: Instant) {
        if let (Some(waiting), Some(limits)) = (&mut self.waiting, self.settings.hold.as_ref()) {
            let waited = now.saturating_duration_since(waiting.ticket.place().since);
            waiting.left = limits.max_wait.saturating_sub(waited);
        }
    }

    /// The gateway will send no more, and reads what comes.
    pub(in crate::extproc) fn waits_half_closed(&mut self) -> bool {
        if let Some(waiting) = &mut self.waiting {
            waiting.half_closed = true;
        }
        self.waits()
    }

    /// A piece of a body that is not read came behind the headers, which wait.
    pub(in crate::extproc) fn keep(&mut self, body: Bytes, end_of_stream: bool) {
        let open = self.modes().request == BodyMode::FullDuplex;
        let (Phase::Deciding { asked, .. }, Some(waiting), Some(limits)) =
            (&mut self.phase, &self.waiting, self.settings.hold)
        else {
            return;
        };
        if !open || !asked.open() {
            return self.anomaly("body_after_eos");
        }
        let len = body.len();
        if asked.keep(body, end_of_stream) > self.settings.body_limit {
            return self.refuse(&Refusal::TooLarge(self.settings.body_limit));
        }
        let bytes = budget::cost(len);
        if !self.share.grow(bytes) || !waiting.ticket.grow(&limits, bytes as u64) {
            self.refuse(&Refusal::BudgetSpent);
        }
    }

    /// It waits no more: as it is decided at `now`, refused or gone.
    pub(in crate::extproc) fn waited(&mut self, result: &str, now: Option<Instant>) {
        let Some(waiting) = self.waiting.take() else { return };
        let since = waiting.ticket.place().since;
        let waited = now.map(|now| now.saturating_duration_since(since));
        let hold = &self.director.metrics().hold;
        hold.ended(result);
        if let Some(waited) = waited {
            hold.duration.observe(waited.as_secs_f64());
            self.account.queued(waited);
        }
        if let Some(tracked) = &mut self.tracked {
            tracked.waited = waited;
        }
        if waiting.half_closed {
            self.end = self.end.or(Some(End::Ok));
        }
    }

    /// It has waited for as long as it may.
    pub(in crate::extproc) fn waited_in_vain(&mut self) {
        self.waited("expired", None);
        self.settings.flow.expired();
        self.refuse(&Refusal::Unheld(Unheld::TooLong, RETRY));
    }

    /// What the held body takes of the budget.
    fn held_bytes(&self) -> u64 {
        self.share.bytes() as u64
    }
}

/// The label of a request that is not held.
fn result(why: Unheld) -> &'static str {
    match why {
        Unheld::Full => "full",
        Unheld::TooLong => "too_long",
    }
}
