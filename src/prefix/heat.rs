//! How often prompts begin alike.
//!
//! Each prompt counts for the last block that it shares with what somebody has in its cache. A table of counters, found by
//! the block's hash, is enough: it is far larger than a window, and two that share a counter make a choice worse, never
//! wrong.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Counters, a power of two: 128 KiB.
const CELLS: usize = 1 << 14;

/// Prompts after which every count is halved.
const WINDOW: u32 = 1024;

/// Counts that halve with each window. Of two at one instant one may be lost.
#[derive(Debug)]
pub(super) struct Heat {
    /// The window of the last change and the count.
    cells: Box<[AtomicU64]>,
    prompts: AtomicU32,
}

impl Default for Heat {
    fn default() -> Self {
        let cells = std::iter::repeat_with(AtomicU64::default).take(CELLS).collect();
        Self { cells, prompts: AtomicU32::new(0) }
    }
}

impl Heat {
    /// A prompt shares its beginning up to this block.
    pub(super) fn note(&self, hash: u64) {
        let window = self.prompts.fetch_add(1, Ordering::Relaxed) / WINDOW;
        let count = u64::from(self.count(hash, window)) + 1;
        if let Some(cell) = self.cell(hash) {
            cell.store(u64::from(window) << 32 | count, Ordering::Relaxed);
        }
    }

    /// Prompts of late that shared their beginning up to this block: the last window and half of the one before, and so
    /// on.
    pub(super) fn of(&self, hash: u64) -> u32 {
        self.count(hash, self.prompts.load(Ordering::Relaxed) / WINDOW)
    }

    fn count(&self, hash: u64, window: u32) -> u32 {
        let cell = self.cell(hash).map_or(0, |cell| cell.load(Ordering::Relaxed));
        let (of, count) = (u32::try_from(cell >> 32).unwrap_or(0), cell & u64::from(u32::MAX));
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        count.checked_shr(window.wrapping_sub(of)).unwrap_or(0)
    }

    fn cell(&self, hash: u64) -> Option<&AtomicU64> {
        let at = usize::try_from(hash % self.cells.len() as u64).ok()?;
        self.cells.get(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_often_is_hot_and_cools_when_it_is_not() {
        let heat = Heat::default();
        (0..WINDOW).for_each(|n| heat.note(if n % 2 == 0 { 7 } else { u64::from(n) << 20 }));
        assert_eq!(heat.of(7), WINDOW / 4, "the window is over");
        assert!(heat.of(8) <= 1);
        (0..WINDOW * 8).for_each(|n| heat.note(u64::from(n) * 2 + 1));
        assert!(heat.of(7) <= 1);
    }

    #[test]
    fn a_count_from_long_ago_is_none() {
        let heat = Heat::default();
        heat.note(7);
        heat.prompts.store(WINDOW * 100, Ordering::Relaxed);
        assert_eq!(heat.of(7), 0);
    }
}
