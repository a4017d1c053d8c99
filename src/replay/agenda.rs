//! What is due when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// What happens at an instant, in the order in which it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// The step of a pod ends, unless the pod has begun another life since.
    StepEnds {
        /// Position of the pod.
        pod: usize,
        /// The life in which the step began.
        life: u32,
    },
    /// A pod is back.
    OutageEnds {
        /// Position of the pod.
        pod: usize,
    },
    /// A pod is gone.
    OutageBegins {
        /// Position of the pod.
        pod: usize,
    },
    /// The page of a pod is read.
    Scrape {
        /// Position of the pod.
        pod: usize,
    },
}

/// Everything that is due, soonest first: a step and a scrape for each pod, and the outages.
#[derive(Debug, Default)]
pub(super) struct Agenda(BinaryHeap<Reverse<(Duration, Due)>>);

impl Agenda {
    /// Adds what is due at `at`.
    pub(super) fn add(&mut self, at: Duration, due: Due) {
        self.0.push(Reverse((at, due)));
    }

    /// When something is due next; none when nothing is.
    pub(super) fn next(&self) -> Option<Duration> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the next of what is due at `now`.
    pub(super) fn take(&mut self, now: Duration) -> Option<Due> {
        self.next().filter(|at| *at <= now)?;
        self.0.pop().map(|Reverse((_, due))| due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_at_one_instant_comes_in_a_fixed_order() {
        let (mut agenda, now) = (Agenda::default(), Duration::from_secs(1));
        let order = [
            Due::StepEnds { pod: 0, life: 0 },
            Due::StepEnds { pod: 1, life: 0 },
            Due::OutageEnds { pod: 1 },
            Due::OutageBegins { pod: 0 },
            Due::Scrape { pod: 0 },
        ];
        order.iter().rev().for_each(|due| agenda.add(now, *due));
        agenda.add(2 * now, order[0]);
        assert_eq!(std::iter::from_fn(|| agenda.take(now)).collect::<Vec<_>>(), order);
        assert_eq!(agenda.next(), Some(2 * now));
    }
}
