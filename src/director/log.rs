//! The log of recent decisions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::director::brief::Brief;
use crate::director::explain::Explanation;
use crate::director::record::Record;

/// Memory that the log takes at most: some 10,000 decisions by eight scorers over 100 endpoints.
const MOST_BYTES: usize = 128 << 20;

/// Decisions that are kept while somebody watches, where no more are configured.
const WATCHED: usize = 100;

/// Memory that these take at most: 100 of a pool of some 2,000 endpoints.
const MOST_WATCHED_BYTES: usize = 16 << 20;

/// A watcher who has not looked for so long is gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// What there is to say of the last decisions, found by their ids.
///
/// Holds as many as it was made for and not more than 128 MiB of them; the oldest goes first. One that was made for none
/// holds 100 and not more than 16 MiB while somebody [watches](Self::watch), and costs a decision one read of a flag
/// while nobody does.
#[derive(Debug)]
pub struct DecisionLog {
    entries: usize,
    watched: AtomicBool,
    kept: Mutex<Kept>,
}

/// Oldest first.
#[derive(Debug, Default)]
struct Kept {
    records: VecDeque<Arc<Record>>,
    bytes: usize,
    /// When the last watcher is taken to be gone; none where nobody watches.
    until: Option<Instant>,
}

/// Which decisions are wanted; all that is given must hold.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The decision of this id.
    pub id: Option<u64>,
    /// Those of requests with this id.
    pub request_id: Option<String>,
    /// At most so many.
    pub limit: usize,
}

impl DecisionLog {
    /// A log of at most so many decisions.
    pub fn new(entries: usize) -> Self {
        Self { entries, watched: AtomicBool::default(), kept: Mutex::default() }
    }

    /// Whether decisions are to be kept now.
    #[inline]
    pub fn wanted(&self) -> bool {
        self.entries > 0 || self.watched.load(Ordering::Relaxed)
    }

    /// Somebody looks, and is taken to do so for 10 s.
    pub fn watch(&self, now: Instant) {
        self.kept.lock().until = Some(now + PATIENCE);
        self.watched.store(true, Ordering::Relaxed);
    }

    /// The last decisions in short, newest first, at most so many.
    pub fn recent(&self, most: usize, now: Instant) -> Vec<Brief> {
        let kept: Vec<_> = self.kept.lock().records.iter().rev().take(most).cloned().collect();
        kept.iter().map(|record| record.brief(now)).collect()
    }

    /// How many decisions it holds now.
    pub fn len(&self) -> usize {
        self.kept.lock().records.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Those that are wanted, newest first.
    pub fn find(&self, wanted: &Wanted, now: Instant) -> Vec<Explanation> {
        let Wanted { id, request_id, limit } = wanted;
        let is = |record: &&Arc<Record>| {
            (id.is_none() || record.id == *id)
                && (request_id.is_none() || record.request_id.as_deref() == request_id.as_deref())
        };
        let all = id.is_none() && request_id.is_none();
        let among = if all { *limit } else { usize::MAX };
        // Every decision takes the lock, so nothing is compared under it.
        let kept: Vec<_> = self.kept.lock().records.iter().rev().take(among).cloned().collect();
        kept.iter().filter(is).take(*limit).map(|record| record.told(now)).collect()
    }

    pub(super) fn keep(&self, record: Arc<Record>) {
        let mut gone = None;
        let mut kept = self.kept.lock();
        let Some((entries, bytes)) = self.room(&kept, record.began) else {
            // Nobody watches any more, and what was kept for him goes.
            self.watched.store(false, Ordering::Relaxed);
            let left = std::mem::take(&mut *kept);
            drop(kept);
            return drop(left);
        };
        kept.bytes += record.bytes();
        kept.records.push_back(record);
        while kept.records.len() > entries || kept.bytes > bytes {
            let Some(oldest) = kept.records.pop_front() else { break };
            kept.bytes -= oldest.bytes();
            // All but the last of several are dropped under the lock; there is one mostly.
            gone = Some(oldest);
        }
        drop(kept);
        drop(gone);
    }

    /// How many decisions may be kept, and how many bytes of them; none when nobody wants one of now.
    fn room(&self, kept: &Kept, now: Instant) -> Option<(usize, usize)> {
        let watched = kept.until.is_some_and(|until| now <= until);
        match self.entries {
            0 => watched.then_some((WATCHED, MOST_WATCHED_BYTES)),
            entries => Some((entries, MOST_BYTES)),
        }
    }
}
