//! The log of recent decisions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use crate::director::explain::Explanation;
use crate::director::record::Record;

/// Memory that the log takes at most: some 10,000 decisions by eight scorers over 100 endpoints.
const MOST_BYTES: usize = 128 << 20;

/// What there is to say of the last decisions, found by their ids.
///
/// Holds as many as it was made for and not more than 128 MiB of them; the oldest goes first.
#[derive(Debug)]
pub struct DecisionLog {
    entries: usize,
    kept: Mutex<Kept>,
}

/// Oldest first.
#[derive(Debug, Default)]
struct Kept {
    records: VecDeque<Arc<Record>>,
    bytes: usize,
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
        Self { entries, kept: Mutex::default() }
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
        let among = if all { *limit } else { self.entries };
        // Every decision takes the lock, so nothing is compared under it.
        let kept: Vec<_> = self.kept.lock().records.iter().rev().take(among).cloned().collect();
        kept.iter().filter(is).take(*limit).map(|record| record.told(now)).collect()
    }

    pub(super) fn keep(&self, record: Record) {
        let (record, mut gone) = (Arc::new(record), None);
        let bytes = record.bytes();
        let mut kept = self.kept.lock();
        kept.bytes += bytes;
        kept.records.push_back(record);
        while kept.records.len() > self.entries || kept.bytes > MOST_BYTES {
            let Some(oldest) = kept.records.pop_front() else { break };
            kept.bytes -= oldest.bytes();
            // All but the last of several are dropped under the lock; there is one mostly.
            gone = Some(oldest);
        }
        drop(kept);
        drop(gone);
    }
}
