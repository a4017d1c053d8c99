//! The way of a request into a recording: a bounded queue, and the key of the file.

use std::time::Instant;

use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::metrics::RecordingMetrics;
use crate::prefix::Chain;
use crate::recording::{Blocks, Line, MOST_BLOCKS};

/// Requests that may wait for the writer, each with 2,048 hashes at most, so 16 MiB of them; further ones are left out.
const QUEUED: usize = 1_024;

/// Takes requests that are to be recorded; whoever gives one never waits.
#[derive(Clone, Debug)]
pub struct Recorder {
    queue: mpsc::Sender<Passed>,
    metrics: RecordingMetrics,
}

/// A request that has passed.
#[derive(Clone, Debug, PartialEq)]
pub struct Passed {
    /// When its headers came.
    pub received: Instant,
    /// As [`Line::prompt_tokens`].
    pub prompt_tokens: u64,
    /// As [`Line::output_tokens`].
    pub output_tokens: u64,
    /// As [`Line::cached_tokens`].
    pub cached_tokens: Option<u64>,
    /// As [`Line::model`].
    pub model: Option<Box<str>>,
    /// As [`Line::adapter`].
    pub adapter: bool,
    /// As [`Line::outcome`].
    pub outcome: &'static str,
    /// How its prompt was cut.
    pub blocks: Blocks,
    /// The blocks of its prompt, with the hashes of the prefix index.
    pub chain: Chain,
}

/// What the hashes of one file are made under.
pub struct Key([u8; 32]);

impl Recorder {
    /// A recorder, and the queue that a writer is to empty. When that is dropped, nothing more is recorded.
    pub fn new(metrics: RecordingMetrics) -> (Self, mpsc::Receiver<Passed>) {
        let (queue, passed) = mpsc::channel(QUEUED);
        (Self { queue, metrics }, passed)
    }

    /// Has a request recorded, if there is room in the queue and somebody writes: the first 2,048 blocks of its prompt.
    pub fn record(&self, passed: Passed) {
        match self.queue.try_send(passed.bounded()) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.metrics.dropped.inc(),
            Err(TrySendError::Closed(_)) => self.metrics.failed.inc(),
        }
    }
}

impl Passed {
    /// With no more of its prompt than is recorded.
    fn bounded(self) -> Self {
        if self.chain.hashes().len() <= MOST_BLOCKS {
            return self;
        }
        let first: Vec<_> = self.chain.hashes().iter().take(MOST_BLOCKS).copied().collect();
        Self { chain: Chain::from(first), ..self }
    }

    /// Whether its hashes may stand in a file of prompts that are cut so.
    pub fn fits(&self, blocks: Blocks) -> bool {
        self.chain.hashes().is_empty() || self.blocks == blocks
    }

    /// The line of a file that was begun at `begun` under `key`.
    pub fn line(self, begun: Instant, key: &Key) -> Line {
        let after = self.received.saturating_duration_since(begun).as_micros() as f64;
        let before = begun.saturating_duration_since(self.received).as_micros() as f64;
        Line {
            at_ms: (after - before) / 1_000.0,
            prompt_tokens: self.prompt_tokens,
            output_tokens: self.output_tokens,
            cached_tokens: self.cached_tokens,
            model: self.model,
            adapter: self.adapter,
            outcome: self.outcome.into(),
            blocks: self.chain.hashes().iter().map(|hash| key.hash(*hash)).collect(),
        }
    }
}

impl Key {
    /// A key of random bytes.
    pub fn new(random: [u8; 32]) -> Self {
        Self(random)
    }

    /// The hash that stands for one of the index, from which that cannot be found without the key: the first 8 bytes of
    /// the SHA-256 of both.
    fn hash(&self, hash: u64) -> u64 {
        let digest = Sha256::new().chain_update(self.0).chain_update(hash.to_le_bytes()).finalize();
        digest.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::metrics::Metrics;
    use crate::server::clock;

    fn passed(received: Instant, hashes: &[u64]) -> Passed {
        Passed {
            received,
            prompt_tokens: 200,
            output_tokens: 3,
            cached_tokens: Some(64),
            model: None,
            adapter: false,
            outcome: "ok",
            blocks: Blocks::new(64, 4_096),
            chain: Chain::from(hashes.to_vec()),
        }
    }

    #[test]
    fn a_line_has_hashes_of_its_own_that_are_equal_where_the_others_are() {
        let begun = clock::now();
        let line = |hashes: &[u64], key| passed(begun, hashes).line(begun, &Key::new([key; 32]));
        let (a, b, other) = (line(&[1, 2], 7), line(&[1, 3], 7), line(&[1, 2], 8));
        assert_eq!(a.blocks[0], b.blocks[0]);
        assert_ne!(a.blocks[1], b.blocks[1]);
        assert!(a.blocks.iter().all(|hash| ![1, 2].contains(hash) && !other.blocks.contains(hash)));
    }

    #[test]
    fn time_counts_from_the_file_and_may_be_before_it() {
        let (begun, key) = (clock::now(), Key::new([0; 32]));
        let later = begun + Duration::from_micros(1_500);
        assert_eq!(format!("{}", passed(later, &[]).line(begun, &key).at_ms), "1.5");
        assert_eq!(format!("{}", passed(begun, &[]).line(later, &key).at_ms), "-1.5");
    }

    #[test]
    fn a_long_prompt_waits_with_the_hashes_that_are_recorded() {
        let metrics = Metrics::new("ns", "pool", false).unwrap().recording.clone();
        let (recorder, mut queue) = Recorder::new(metrics);
        recorder.record(passed(clock::now(), &vec![7; MOST_BLOCKS + 1]));
        let waits = queue.try_recv().unwrap();
        assert_eq!((waits.chain.hashes().len(), waits.blocks.limit), (MOST_BLOCKS, MOST_BLOCKS));
    }

    #[test]
    fn nobody_waits_for_a_writer_that_is_slow_or_gone() {
        let metrics = Metrics::new("ns", "pool", false).unwrap().recording.clone();
        let (recorder, queue) = Recorder::new(metrics.clone());
        for _ in 0..QUEUED + 5 {
            recorder.record(passed(clock::now(), &[]));
        }
        assert_eq!((metrics.dropped.get(), metrics.failed.get()), (5, 0));
        drop(queue);
        recorder.record(passed(clock::now(), &[]));
        assert_eq!((metrics.dropped.get(), metrics.failed.get()), (5, 1));
    }
}
