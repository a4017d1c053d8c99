//! When requests arrive: as recorded, blurred, or at another rate.

use std::time::Duration;

use crate::replay::Workload;

/// How far a time stamp may be moved: those of Mooncake's traces are rounded down to 3 s.
const JITTER: Duration = Duration::from_secs(3);

impl Workload {
    /// The prompt tokens of all requests, before any hit, over the time from the first arrival to the last, as a share of
    /// `rate` (prompt tokens a second); none where all arrive at once.
    pub fn load(&self, rate: f64) -> Option<f64> {
        let span = self.span().as_secs_f64();
        (span > 0.0 && rate > 0.0).then(|| self.prompt_tokens() / span / rate)
    }

    /// Stretches or compresses time so that the load on `rate` becomes `load`; changes nothing where all arrive at once.
    pub fn scale(&mut self, load: f64, rate: f64) {
        let Some(factor) = self.load(rate).map(|present| present / load) else { return };
        for arrival in &mut self.arrivals {
            let scaled = arrival.at.as_secs_f64() * factor;
            arrival.at = Duration::try_from_secs_f64(scaled).unwrap_or(Duration::MAX);
        }
    }

    /// Moves each arrival by 0 to 3 s, uniform and from the seed, and sorts them again.
    pub fn jitter(&mut self, seed: u64) {
        let mut rng = dice(seed);
        for arrival in &mut self.arrivals {
            arrival.at += JITTER.mul_f64(rng.f64());
        }
        self.arrivals.sort_by_key(|arrival| arrival.at);
    }

    /// Leaves out what arrives at `end` or later.
    pub fn limit(&mut self, end: Duration) {
        self.arrivals.retain(|arrival| arrival.at < end);
    }

    fn prompt_tokens(&self) -> f64 {
        self.arrivals.iter().map(|arrival| arrival.prompt_tokens as f64).sum()
    }

    fn span(&self) -> Duration {
        match (self.arrivals.first(), self.arrivals.last()) {
            (Some(first), Some(last)) => last.at.saturating_sub(first.at),
            _ => Duration::ZERO,
        }
    }
}

/// Randomness for what arrives: of the seed, and other than that of who decides.
pub(super) fn dice(seed: u64) -> fastrand::Rng {
    fastrand::Rng::with_seed(seed).fork()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::Arrival;
    use crate::replay::prompt::Segment;

    fn workload(stamps: &[u64]) -> Workload {
        let arrival = |(at, &stamp): (usize, &u64)| {
            let prompt = [Segment { content: at as u64, tokens: 1_000 }];
            Arrival::new(Duration::from_secs(stamp), &prompt, 1)
        };
        Workload { arrivals: stamps.iter().enumerate().map(arrival).collect() }
    }

    fn stamps(workload: &Workload) -> Vec<f64> {
        workload.arrivals.iter().map(|arrival| arrival.at.as_secs_f64()).collect()
    }

    #[test]
    fn load_is_all_prompt_tokens_over_first_to_last_arrival() {
        let workload = workload(&[0, 1, 5]);
        assert_eq!(workload.load(1_200.0), Some(0.5), "3,000 tokens in 5 s");
    }

    #[test]
    fn scaling_gives_the_load_that_is_asked_for() {
        let mut workload = workload(&[0, 1, 5]);
        workload.scale(0.25, 1_200.0);
        assert_eq!(stamps(&workload), [0.0, 2.0, 10.0]);
    }

    #[test]
    fn requests_that_arrive_at_once_have_no_load() {
        let mut burst = workload(&[0, 0]);
        assert_eq!(burst.load(1_200.0), None);
        burst.scale(0.5, 1_200.0);
        assert_eq!(stamps(&burst), [0.0, 0.0]);
    }

    #[test]
    fn jitter_moves_by_less_than_3_s_and_keeps_the_order_of_time() {
        let (mut a, mut b, mut c) = (workload(&[0; 50]), workload(&[0; 50]), workload(&[0; 50]));
        a.jitter(1);
        b.jitter(1);
        c.jitter(2);
        assert_eq!(stamps(&a), stamps(&b), "the seed decides");
        assert_ne!(stamps(&a), stamps(&c));
        assert!(stamps(&a).is_sorted() && stamps(&a).iter().all(|at| *at < 3.0));
        assert!(stamps(&a)[49] > 2.0 && stamps(&a)[0] < 1.0, "they are spread");
    }

    #[test]
    fn a_limit_leaves_out_what_arrives_later() {
        let mut workload = workload(&[0, 1, 5]);
        workload.limit(Duration::from_secs(5));
        assert_eq!(stamps(&workload), [0.0, 1.0]);
    }
}
