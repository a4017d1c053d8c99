//! Requests that find the pool without an endpoint: they are held for a while, in the order in which they came, or refused.
//!
//! The first of them is told at once, so that an autoscaler can start an endpoint. When one is there they are let go by a
//! ramp, so that it is not flooded: [`FIRST`] for each endpoint at once, and in all twice as many after each [`DOUBLING`].
//! Who comes meanwhile queues behind them. One that would have to wait longer than it may, by what earlier starts of an
//! endpoint took, is refused at once.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use self::queue::{Held, Queue};

mod queue;
#[cfg(test)]
mod tests;

/// Requests that are let go at once for each endpoint.
pub const FIRST: f64 = 4.0;

/// The time in which the number of those let go doubles.
pub const DOUBLING: Duration = Duration::from_millis(500);

/// When a refused client may try again while it is not known how long an endpoint takes to start.
const RETRY: Duration = Duration::from_secs(10);

/// When it may try again at the earliest.
const SOONEST: Duration = Duration::from_secs(1);

/// What may be held. Bounds the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest wait.
    pub max_wait: Duration,
    /// Requests at a time.
    pub max_requests: u32,
    /// Bytes of their bodies.
    pub max_bytes: u64,
}

/// Holds requests and counts them; shared by all exchanges.
#[derive(Debug, Default)]
pub struct Flow {
    queue: Mutex<Queue>,
    /// The length of the queue, for who wants to know no more.
    held: AtomicU32,
    lacked: AtomicU64,
    refused: AtomicU64,
    /// Told of requests without an endpoint.
    lacking: Notify,
    /// Told of requests that are held.
    filled: Notify,
}

/// Requests that no endpoint has, or had when they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Held until there is one.
    pub held: u32,
    /// That ever found none, those that are held included.
    pub lacked: u64,
    /// That were ever refused for that.
    pub refused: u64,
}

/// Why a request is not held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unheld {
    /// As many are held as may be, or as many bytes.
    Full,
    /// No endpoint is expected in the time that it may wait.
    TooLong,
}

/// A place in the queue; it is given up when dropped.
#[derive(Debug)]
pub struct Ticket {
    flow: Arc<Flow>,
    place: Place,
    released: oneshot::Receiver<()>,
}

/// Where in the queue a request is, or was.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    number: u64,
    /// When it came.
    pub since: Instant,
}

impl Flow {
    /// How many there are and were.
    pub fn counts(&self) -> Counts {
        Counts {
            held: self.held(),
            lacked: self.lacked.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// Requests that are held.
    pub fn held(&self) -> u32 {
        self.held.load(Ordering::Relaxed)
    }

    /// A request found no endpoint and is refused.
    pub fn refused(&self) {
        self.expired();
        self.lack();
    }

    /// One that was held is refused.
    pub fn expired(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    fn lack(&self) {
        self.lacked.fetch_add(1, Ordering::Relaxed);
        self.lacking.notify_one();
    }

    /// Holds a request with so many bytes of its body, behind the others.
    ///
    /// # Errors
    /// When it may not be held.
    pub fn hold(
        self: &Arc<Self>,
        limits: &Limits,
        bytes: u64,
        now: Instant,
    ) -> Result<Ticket, Unheld> {
        let mut queue = self.queue.lock();
        queue.admit(limits, bytes, now)?;
        let place = Place { number: queue.next(), since: now };
        self.lack();
        Ok(self.join(&mut queue, place, bytes))
    }

    /// Holds a request again that was let go and found no endpoint: where it was, whatever is held besides.
    pub fn hold_again(self: &Arc<Self>, place: Place, bytes: u64) -> Ticket {
        self.join(&mut self.queue.lock(), place, bytes)
    }

    fn join(self: &Arc<Self>, queue: &mut Queue, place: Place, bytes: u64) -> Ticket {
        let (release, released) = oneshot::channel();
        queue.join(place.number, Held { bytes, release }, place.since);
        self.show(queue);
        self.filled.notify_one();
        Ticket { flow: Arc::clone(self), place, released }
    }

    /// Lets go as many as the ramp allows, the first first; `ready` endpoints are there. Returns how many are left.
    pub fn release(&self, ready: u32, now: Instant) -> u32 {
        let mut queue = self.queue.lock();
        let_go(queue.leave(ready, now));
        self.show(&queue)
    }

    /// Holds nobody any more, as this process is about to end: all are let go, and find an endpoint or are refused.
    pub fn close(&self) {
        let mut queue = self.queue.lock();
        let_go(queue.close());
        self.show(&queue);
    }

    /// Whether nobody is held any more.
    pub fn closed(&self) -> bool {
        self.queue.lock().closed()
    }

    /// The time after which a refused client may try again: when an endpoint is expected, if that is known.
    pub fn retry_after(&self, now: Instant) -> Duration {
        self.queue.lock().expected(now).unwrap_or(RETRY).max(SOONEST)
    }

    /// Waits until a request finds no endpoint; one since the last call counts. For one listener.
    pub async fn lacking(&self) {
        self.lacking.notified().await;
    }

    /// Waits until requests are held. For one listener.
    pub async fn filled(&self) {
        while self.held() == 0 {
            self.filled.notified().await;
        }
    }

    fn show(&self, queue: &Queue) -> u32 {
        let held = queue.len();
        self.held.store(held, Ordering::Relaxed);
        held
    }
}

fn let_go(requests: Vec<oneshot::Sender<()>>) {
    for release in requests {
        // fails for one that goes away at this moment
        release.send(()).unwrap_or_default();
    }
}

impl Ticket {
    /// Where it is in the queue.
    pub fn place(&self) -> Place {
        self.place
    }

    /// More of the body has come; false where that is too much.
    pub fn grow(&self, limits: &Limits, bytes: u64) -> bool {
        self.flow.queue.lock().grow(self.place.number, limits, bytes)
    }

    /// Ready when the request is let go; else `cx` is woken then.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.released).poll(cx).map(|_| ())
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut queue = self.flow.queue.lock();
        queue.forget(self.place.number);
        self.flow.show(&queue);
    }
}
