//! How long to wait after a fault.

use std::time::Duration;

use crate::k8s::fault::{Fault, State};

/// The first wait.
const FIRST: Duration = Duration::from_millis(200);

/// The longest wait: as long may a change of pods go unseen after an API server has come back.
const LONGEST: Duration = Duration::from_secs(10);

/// The longest time between two looks for a kind that is not there.
const LONGEST_RETRY: Duration = Duration::from_hours(24);

/// A round that lasted so long was a good one: waits begin anew.
const GOOD: Duration = Duration::from_secs(30);

/// Waits that double from fault to fault.
#[derive(Debug)]
pub(super) struct Pace {
    faults: u32,
    last: State,
    /// After a kind was absent, and at most after it was forbidden: that changes by the hand of a person.
    retry: Duration,
}

impl Pace {
    /// No fault yet.
    pub(super) fn new(retry: Duration) -> Self {
        Self { faults: 0, last: State::Starting, retry: retry.clamp(FIRST, LONGEST_RETRY) }
    }

    /// Whether the kind was absent before too. Once may be an API server that starts and does not know all kinds yet.
    pub(super) fn absent_again(&mut self, state: State) -> bool {
        std::mem::replace(&mut self.last, state) == State::Absent && state == State::Absent
    }

    /// The wait after a fault that ended a round of that length; `dice` is random, 0.0 to 1.0.
    pub(super) fn after(&mut self, fault: &Fault, round: Duration, dice: f64) -> Duration {
        if round >= GOOD {
            self.faults = 0;
        }
        self.faults = self.faults.saturating_add(1);
        let doubled = FIRST.saturating_mul(1 << (self.faults - 1).min(16));
        let wait = match fault.state {
            State::Absent => self.retry,
            // An API server that starts forbids all for a moment.
            State::Forbidden => doubled.min(self.retry),
            State::Starting | State::Following | State::Unreachable | State::Failing => {
                doubled.min(LONGEST)
            }
        };
        wait.mul_f64(0.5 + 0.5 * dice).max(fault.wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(state: State) -> Fault {
        Fault { state, ..Fault::malformed("") }
    }

    #[test]
    fn waits_double_up_to_ten_seconds_and_begin_anew_after_a_good_round() {
        let mut pace = Pace::new(Duration::from_mins(1));
        let mut wait = |round| pace.after(&fault(State::Unreachable), round, 1.0).as_millis();
        let waits: Vec<_> = (0..10).map(|_| wait(Duration::ZERO)).collect();
        assert_eq!(waits, [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000, 10_000]);
        assert_eq!(wait(GOOD), 200);
    }

    #[test]
    fn waits_are_spread_and_not_shorter_than_asked_for() {
        let mut pace = Pace::new(Duration::from_secs(30));
        let absent = fault(State::Absent);
        assert_eq!(pace.after(&absent, Duration::ZERO, 0.0), Duration::from_secs(15));
        assert_eq!(pace.after(&absent, Duration::ZERO, 1.0), Duration::from_secs(30));
        let throttled = Fault { wait: Duration::from_secs(7), ..fault(State::Failing) };
        assert_eq!(pace.after(&throttled, Duration::ZERO, 1.0), Duration::from_secs(7));
        let mut eager = Pace::new(Duration::ZERO);
        assert_eq!(eager.after(&absent, Duration::ZERO, 1.0), FIRST, "no storm of requests");
    }

    #[test]
    fn a_kind_that_is_forbidden_is_soon_asked_for_again_and_then_as_rarely_as_configured() {
        let mut pace = Pace::new(Duration::from_secs(1));
        let mut wait = || pace.after(&fault(State::Forbidden), Duration::ZERO, 1.0).as_millis();
        assert_eq!([wait(), wait(), wait(), wait(), wait()], [200, 400, 800, 1000, 1000]);
    }

    #[test]
    fn a_kind_is_gone_when_it_is_absent_twice_in_a_row() {
        let mut pace = Pace::new(Duration::from_secs(30));
        let states = [State::Absent, State::Failing, State::Absent, State::Absent];
        assert_eq!(states.map(|state| pace.absent_again(state)), [false, false, false, true]);
    }
}
