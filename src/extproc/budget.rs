//! A bound on the bytes that all open streams hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a held piece costs beside its message: its slice, and the reply that will carry it.
const PIECE: usize = 256;

/// Bytes of a message around the piece of a body in it, at most.
const AROUND: usize = 64;

/// Bytes that may be held at once, and how many are.
#[derive(Debug)]
pub struct Budget {
    limit: AtomicUsize,
    used: AtomicUsize,
}

/// A part of the budget, given back when dropped.
#[derive(Debug)]
pub(in crate::extproc) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit: AtomicUsize::new(limit), used: AtomicUsize::new(0) })
    }

    /// Another number of bytes from now on; what is held beyond it stays until it is given back.
    pub fn resize(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Bytes held now.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// An empty part.
    pub(in crate::extproc) fn share(self: &Arc<Self>) -> Share {
        Share { budget: Arc::clone(self), bytes: 0 }
    }
}

impl Share {
    /// Takes more bytes; false, and nothing taken, when the budget has not that many left.
    pub(in crate::extproc) fn grow(&mut self, bytes: usize) -> bool {
        let limit = self.budget.limit.load(Ordering::Relaxed);
        let more = |used: usize| used.checked_add(bytes).filter(|&total| total <= limit);
        let taken =
            self.budget.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        self.bytes += if taken { bytes } else { 0 };
        taken
    }

    /// What it takes of the budget.
    pub(in crate::extproc) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives everything back.
    pub(in crate::extproc) fn clear(&mut self) {
        if self.bytes > 0 {
            self.budget.used.fetch_sub(std::mem::take(&mut self.bytes), Ordering::Relaxed);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Bytes of memory that a held piece of a body takes.
///
/// Its message is rounded up to a size that the allocator has, as jemalloc does: four sizes between two powers of two. A
/// piece of 64 KiB takes 80; without this a full budget would take a quarter more than it says. A quarter is added for what no
/// budget sees: messages on their way, and memory that was freed and goes back to the system seconds later. Without it 200
/// bodies of 1 MB took 79 to 82 MiB under a budget of 64.
pub(in crate::extproc) fn cost(piece: usize) -> usize {
    let message = piece + AROUND;
    let taken = message.next_multiple_of(message.next_power_of_two() / 8);
    taken + taken / 4 + PIECE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_costs_what_the_allocator_takes_for_its_message() {
        let cases = [(0, 64), (64, 128), (1000, 1280), (16_000, 16_384), (65_536, 81_920)];
        for (piece, taken) in cases {
            assert_eq!(cost(piece), taken + taken / 4 + PIECE, "{piece}");
        }
    }

    #[test]
    fn shares_never_exceed_the_budget_and_give_back_what_they_took() {
        let budget = Budget::new(10);
        let (mut a, mut b) = (budget.share(), budget.share());
        assert!(a.grow(6) && !b.grow(5) && b.grow(4) && !a.grow(1));
        assert_eq!(budget.used(), 10);
        drop(a);
        b.clear();
        b.clear();
        assert_eq!(budget.used(), 0);
        assert!(!b.grow(usize::MAX) && b.grow(10));
    }

    #[test]
    fn a_smaller_budget_takes_nothing_back_and_gives_nothing_more() {
        let budget = Budget::new(10);
        let (mut a, mut b) = (budget.share(), budget.share());
        assert!(a.grow(8));
        budget.resize(6);
        assert!(!b.grow(1));
        a.clear();
        assert!(b.grow(6) && !b.grow(1));
    }
}
