//! The queue itself: first in, first out.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::flow::{DOUBLING, FIRST, Limits, Unheld};

/// Share of a new start of an endpoint in what is expected of the next.
const SHARE: f64 = 0.3;

/// Requests in the order in which they came. Bounded by the [`Limits`] that they come with, and those that come back by
/// what was let go.
#[derive(Debug, Default)]
pub(in crate::flow) struct Queue {
    requests: BTreeMap<u64, Held>,
    bytes: u64,
    next: u64,
    /// When the first came since the queue was last empty.
    since: Option<Instant>,
    /// When the first was let go, and how many were since.
    ramp: Option<(Instant, u32)>,
    /// From the first request to the first that is let go, a moving mean; none before the first time.
    usual: Option<Duration>,
    /// Nobody is held any more.
    closed: bool,
}

/// One of them.
#[derive(Debug)]
pub(in crate::flow) struct Held {
    pub(in crate::flow) bytes: u64,
    pub(in crate::flow) release: oneshot::Sender<()>,
}

impl Queue {
    pub(in crate::flow) fn len(&self) -> u32 {
        u32::try_from(self.requests.len()).unwrap_or(u32::MAX)
    }

    /// Whether one more may join.
    pub(in crate::flow) fn admit(
        &self,
        limits: &Limits,
        bytes: u64,
        now: Instant,
    ) -> Result<(), Unheld> {
        let all = self.bytes.saturating_add(bytes);
        if self.len() >= limits.max_requests || all > limits.max_bytes {
            return Err(Unheld::Full);
        }
        let late = self.expected(now).is_some_and(|wait| wait > limits.max_wait);
        if late { Err(Unheld::TooLong) } else { Ok(()) }
    }

    /// The place behind all others.
    pub(in crate::flow) fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Joins in a place that nobody has; is let go at once where nobody is held any more.
    pub(in crate::flow) fn join(&mut self, number: u64, held: Held, since: Instant) {
        if self.closed {
            return held.release.send(()).unwrap_or_default();
        }
        self.since.get_or_insert(since);
        self.bytes = self.bytes.saturating_add(held.bytes);
        self.requests.insert(number, held);
    }

    /// Holds nobody any more: those that go.
    pub(in crate::flow) fn close(&mut self) -> Vec<oneshot::Sender<()>> {
        self.closed = true;
        self.bytes = 0;
        let all = std::mem::take(&mut self.requests);
        self.rest();
        all.into_values().map(|held| held.release).collect()
    }

    /// Whether nobody is held any more.
    pub(in crate::flow) fn closed(&self) -> bool {
        self.closed
    }

    /// Gives up a place; no matter if that was done.
    pub(in crate::flow) fn forget(&mut self, number: u64) {
        if let Some(held) = self.requests.remove(&number) {
            self.bytes -= held.bytes;
            self.rest();
        }
    }

    /// More of a body that is held; false where that is too much.
    pub(in crate::flow) fn grow(&mut self, number: u64, limits: &Limits, bytes: u64) -> bool {
        let all = self.bytes.saturating_add(bytes);
        let Some(held) = self.requests.get_mut(&number) else { return true };
        if all > limits.max_bytes {
            return false;
        }
        held.bytes += bytes;
        self.bytes = all;
        true
    }

    /// Those that may go now, in order; none while no endpoint is ready.
    pub(in crate::flow) fn leave(&mut self, ready: u32, now: Instant) -> Vec<oneshot::Sender<()>> {
        let mut gone = Vec::new();
        for _ in 0..self.allowed(ready, now) {
            let Some((_, Held { bytes, release })) = self.requests.pop_first() else { break };
            self.bytes -= bytes;
            gone.push(release);
        }
        if let Some((_, released)) = &mut self.ramp {
            *released += u32::try_from(gone.len()).unwrap_or(u32::MAX);
        }
        self.rest();
        gone
    }

    /// The time until an endpoint is there, by what it took before; none where that is not known.
    pub(in crate::flow) fn expected(&self, now: Instant) -> Option<Duration> {
        let waited = self.since.map(|since| now.saturating_duration_since(since));
        self.usual.map(|usual| usual.saturating_sub(waited.unwrap_or_default()))
    }

    /// How many may go now. Without endpoints the ramp begins anew with the next.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    fn allowed(&mut self, ready: u32, now: Instant) -> usize {
        if ready == 0 || self.requests.is_empty() {
            self.ramp = None;
            return 0;
        }
        if self.ramp.is_none() {
            self.learn(now);
        }
        let (began, released) = *self.ramp.get_or_insert((now, 0));
        let doublings = now.saturating_duration_since(began).div_duration_f64(DOUBLING);
        let all = f64::from(ready) * FIRST * doublings.exp2();
        (all - f64::from(released)) as usize
    }

    fn learn(&mut self, now: Instant) {
        let Some(since) = self.since else { return };
        let took = now.saturating_duration_since(since);
        let mixed = |usual: Duration| usual.mul_f64(1.0 - SHARE) + took.mul_f64(SHARE);
        self.usual = Some(self.usual.map_or(took, mixed));
    }

    /// Nothing of this time counts for the next.
    fn rest(&mut self) {
        if self.requests.is_empty() {
            (self.since, self.ramp) = (None, None);
        }
    }
}
