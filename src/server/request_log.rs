//! The request log: a line for each request that has ended, or for some of them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::extproc::Summary;
use crate::metrics::{RequestLogMetrics, Source};
use crate::units::{BadSampling, Sampling};

/// Lines of one second; further requests of it are counted alone.
const MOST: u32 = 100;

/// Whose lines they are.
const TARGET: &str = "lodesman::requests";

/// For how long that many lines may be written.
const SECOND: Duration = Duration::from_secs(1);

/// Writes a line for each request that it is to tell of, never a word of its prompt or answer; 100 a second at most.
#[derive(Debug)]
pub struct RequestLog {
    /// As [`Sampling::bits`].
    sampling: AtomicU32,
    second: Mutex<Second>,
    metrics: RequestLogMetrics,
}

/// What was written lately.
#[derive(Debug, Default)]
struct Second {
    began: Option<Instant>,
    written: u32,
    /// Requests left out since the last line.
    dropped: u64,
}

impl RequestLog {
    /// A log of these requests.
    pub fn new(sampling: Sampling, metrics: RequestLogMetrics) -> Self {
        Self { sampling: AtomicU32::new(sampling.bits()), second: Mutex::default(), metrics }
    }

    /// Of which requests it tells.
    pub fn sampling(&self) -> Sampling {
        Sampling::of_bits(self.sampling.load(Ordering::Relaxed))
    }

    /// Changes that from now on, to what a text says.
    ///
    /// # Errors
    /// When it says nothing of the kind.
    pub fn tell_of(&self, text: &str) -> Result<(), BadSampling> {
        self.sampling.store(text.parse::<Sampling>()?.bits(), Ordering::Relaxed);
        Ok(())
    }

    /// Whether a request is to be told of.
    pub fn wants(&self, failed: bool) -> bool {
        tracing::enabled!(target: TARGET, tracing::Level::INFO)
            && self.sampling().includes(failed, fastrand::f32)
    }

    /// Writes the line of a request, unless the second has had its lines.
    pub fn write(&self, summary: &Summary) {
        let Some(dropped) = self.second.lock().turn(summary.ended) else {
            return self.metrics.dropped.inc();
        };
        if dropped > 0 {
            tracing::warn!(dropped, "requests left out of the request log: more than 100 a second");
        }
        self.metrics.written.inc();
        line(summary);
    }
}

impl Second {
    /// Whether a line may be written, and how many were not since the last one.
    fn turn(&mut self, now: Instant) -> Option<u64> {
        let goes_on = |began: Instant| now.saturating_duration_since(began) < SECOND;
        if !self.began.is_some_and(goes_on) {
            (self.began, self.written) = (Some(now), 0);
        }
        if self.written == MOST {
            self.dropped += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.dropped))
    }
}

fn line(summary: &Summary) {
    let Summary { request_id, api, model, served_model, priority, outcome, error, .. } = summary;
    let spent = &summary.spent;
    let reported = spent.prompt.1 == Source::Reported;
    tracing::info!(
        target: TARGET,
        request_id,
        api,
        model,
        served_model,
        priority,
        endpoint = summary.endpoint.as_ref().map(|endpoint| endpoint.spec.name.as_str()),
        outcome,
        error,
        status = summary.status,
        prompt_tokens = spent.prompt.0,
        cached_tokens = spent.cached.0,
        generated_tokens = spent.generated.0,
        tokens = if reported { "reported" } else { "estimated" },
        first_token_ms = summary.ttft().map(milliseconds),
        elapsed_ms = milliseconds(summary.lasted()),
        "request ended"
    );
}

/// To a tenth.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e4).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::clock;

    #[test]
    fn a_second_has_so_many_lines_and_the_next_says_how_many_were_left_out() {
        let (mut second, now) = (Second::default(), clock::now());
        let lines = (0..MOST + 7).filter(|_| second.turn(now).is_some()).count();
        assert_eq!(lines, MOST as usize);
        assert_eq!(second.turn(now + SECOND), Some(7));
        assert_eq!(second.turn(now + SECOND), Some(0));
    }
}
