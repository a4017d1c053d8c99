//! Scraped values as scorers use them: what is missing is replaced by what is known.

use std::time::Instant;

use smallvec::SmallVec;

use crate::pool::{Reading, Slot};
use crate::schedule::PickContext;

/// Candidates whose values are sorted on the stack.
const USUAL_POOL: usize = 64;

/// Writes a value for each candidate: the fresh one; `stale` where it is too old; the median of the fresh ones where
/// nothing was ever read (0.0 when none is fresh).
pub(in crate::schedule) fn fill(
    cx: PickContext<'_>,
    candidates: &[Slot],
    values: &mut [f32],
    read: impl Fn(Slot, Instant) -> Reading,
    stale: impl Fn(Slot) -> Option<f32>,
) {
    let mut unknown = false;
    for (value, &slot) in values.iter_mut().zip(candidates) {
        let known = match read(slot, cx.now) {
            Reading::Fresh(value) => Some(value),
            Reading::Stale => stale(slot),
            Reading::Unknown => None,
        };
        unknown |= known.is_none();
        *value = known.unwrap_or(f32::NAN);
    }
    if unknown {
        let median = median(values);
        values.iter_mut().filter(|value| value.is_nan()).for_each(|value| *value = median);
    }
}

/// As many values as there are candidates, on the stack for a usual pool.
pub(in crate::schedule) type Values = SmallVec<[f32; USUAL_POOL]>;

/// Writes the length of each candidate's queue: a stale one is taken to be what this process has in flight there.
pub fn queues(cx: PickContext<'_>, candidates: &[Slot], values: &mut [f32]) {
    let waiting = |slot, now| cx.snapshot.waiting(slot, now);
    fill(cx, candidates, values, waiting, |slot| Some(cx.snapshot.in_flight(slot) as f32));
}

/// Tokens that this process has in flight on an endpoint: of prompts still to be computed, and of output still to be
/// generated where that counts.
pub(in crate::schedule) fn tokens_in_flight(cx: PickContext<'_>, slot: Slot) -> u64 {
    let Some(endpoint) = cx.snapshot.endpoint(slot) else { return 0 };
    let output = cx.signals.output_tokens.map_or(0, |_| endpoint.live.decode_tokens());
    endpoint.live.prompt_tokens().saturating_add(output)
}

/// Maps values to scores so that the least is 1.0 and the greatest 0.0; all equal are 1.0.
pub(in crate::schedule) fn lower_is_better(values: &mut [f32]) {
    let (min, max) = values
        .iter()
        .fold((f32::INFINITY, f32::NEG_INFINITY), |(min, max), &v| (min.min(v), max.max(v)));
    for value in values {
        *value = if min < max { (max - *value) / (max - min) } else { 1.0 };
    }
}

/// The lower median of the known values; 0.0 when none is known.
fn median(values: &[f32]) -> f32 {
    let known = values.iter().copied().filter(|value| !value.is_nan());
    let mut known: Values = known.collect();
    let middle = known.len().saturating_sub(1) / 2;
    if known.is_empty() {
        return 0.0;
    }
    *known.select_nth_unstable_by(middle, f32::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_of_the_known_values() {
        assert!((median(&[f32::NAN, 5.0, 1.0, 3.0]) - 3.0).abs() < f32::EPSILON);
        assert!((median(&[4.0, 2.0]) - 2.0).abs() < f32::EPSILON);
        assert!(median(&[f32::NAN]).abs() < f32::EPSILON);
    }

    #[test]
    fn equal_values_all_score_one() {
        let mut values = [3.0, 3.0];
        lower_is_better(&mut values);
        assert_eq!(values.map(f32::to_bits), [1.0_f32.to_bits(); 2]);
    }
}
