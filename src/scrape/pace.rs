//! How often an endpoint is read.

use std::time::Duration;

use crate::pool::{Endpoint, Sample};

/// The interval while requests of ours are in flight: the reference's only one.
pub(in crate::scrape) const FAST: Duration = Duration::from_millis(50);

/// The interval while only others have requests there: they change what a first request of ours would meet.
pub(in crate::scrape) const STEADY: Duration = Duration::from_millis(250);

/// The interval while none are: half of the age at which a sample is stale.
pub(in crate::scrape) const SLOW: Duration = Duration::from_secs(1);

/// The longest rest after failures: an endpoint that recovers is seen again within it.
pub(in crate::scrape) const LONGEST_REST: Duration = Duration::from_secs(5);

/// How often an endpoint is scraped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At this interval.
    Fixed(Duration),
    /// Every 50 ms while requests of ours are in flight there, every 250 ms while it is busy with others, else every
    /// second.
    Adaptive,
}

impl Pace {
    /// The given interval, else adaptive.
    pub fn new(interval: Option<Duration>) -> Self {
        interval.map_or(Self::Adaptive, Self::Fixed)
    }

    /// The time between two scrapes of `endpoint` as things are; `busy` says whether its last page showed requests.
    pub(in crate::scrape) fn interval(self, endpoint: &Endpoint, busy: bool) -> Duration {
        match (self, endpoint.live.requests() > 0, busy) {
            (Self::Fixed(interval), ..) => interval,
            (Self::Adaptive, true, _) => FAST,
            (Self::Adaptive, false, true) => STEADY,
            (Self::Adaptive, false, false) => SLOW,
        }
    }
}

/// Whether a page shows requests.
pub(in crate::scrape) fn busy(sample: &Sample) -> bool {
    [sample.waiting, sample.running].into_iter().flatten().any(|count| count > 0.0)
}

/// The rest after `failures` in a row: the interval, doubled with each but at most `longest`, of which `dice`
/// (0.0 .. 1.0) takes up to a half, so that endpoints that failed together do not return together.
pub(in crate::scrape) fn back_off(
    interval: Duration,
    failures: u32,
    longest: Duration,
    dice: f32,
) -> Duration {
    let doubled = interval.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX));
    doubled.min(longest.max(interval)).mul_f32(1.0 - dice / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_double_up_to_five_seconds_and_are_spread() {
        let rest = |failures, dice| back_off(FAST, failures, LONGEST_REST, dice).as_millis();
        let rests = [1, 2, 3, 4, 5, 6, 7, 8, 40].map(|failures| rest(failures, 0.0));
        assert_eq!(rests, [100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000]);
        assert_eq!(rest(7, 0.5), 3750);
        let minute = Duration::from_mins(1);
        let rest = back_off(minute, 1, LONGEST_REST, 0.0);
        assert_eq!(rest, minute, "never less than the interval");
    }
}
