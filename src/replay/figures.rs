//! What a run comes to in figures, and what several runs do.

use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::replay::{Outcome, Served};

/// Figures of one run, or of several: the mean of each, or how far apart they lie.
///
/// Not a number where there is nothing to count, which JSON shows as null.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Arrival to the first token, in milliseconds.
    pub ttft_ms: Percentiles,
    /// Time for each output token after the first, in milliseconds, over requests that have more than one.
    pub tpot_ms: Percentiles,
    /// Arrival to the last token, in milliseconds.
    pub end_to_end_ms: Percentiles,
    /// Prompt tokens that were hits, of all prompt tokens.
    #[serde(serialize_with = "rounded")]
    pub hit_ratio: f64,
    /// Requests that were hits, as [`RequestHit`] says.
    #[serde(serialize_with = "rounded")]
    pub request_hit_ratio: f64,
    /// Requests placed on the pod that got most, over the mean of all pods.
    #[serde(serialize_with = "rounded")]
    pub max_over_mean: f64,
    /// Times an adapter was loaded.
    #[serde(serialize_with = "rounded")]
    pub adapter_loads: f64,
    /// Prompt tokens computed that some pod had computed before.
    #[serde(serialize_with = "rounded")]
    pub recomputed_tokens: f64,
    /// Requests that were answered and count.
    #[serde(serialize_with = "rounded")]
    pub requests: f64,
    /// Requests too large for any cache.
    #[serde(serialize_with = "rounded")]
    pub left_out: f64,
    /// Requests that the policy refused.
    #[serde(serialize_with = "rounded")]
    pub refused: f64,
    /// The most replicas that autoscalers would have been told; no number for a policy that is not Lodesman's own code.
    #[serde(serialize_with = "rounded")]
    pub recommended_replicas: f64,
}

/// Percentiles by nearest rank: the least value that so many of a hundred do not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentiles {
    /// The median.
    #[serde(serialize_with = "rounded")]
    pub p50: f64,
    /// Exceeded by one of ten.
    #[serde(serialize_with = "rounded")]
    pub p90: f64,
    /// Exceeded by one of a hundred.
    #[serde(serialize_with = "rounded")]
    pub p99: f64,
}

/// Which requests count as hits, and of which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestHit {
    /// Those that found anything, of all: where a workload does not say what is shared.
    Any,
    /// Those that found all they share with others, of all.
    Whole,
    /// Those that found all they share with others, of those that share anything.
    WholeOfShared,
}

impl Figures {
    /// The figures of one run.
    pub fn of(outcome: &Outcome, hit: RequestHit) -> Self {
        let served = &outcome.served;
        let milliseconds = |time: Duration| time.as_secs_f64() * 1_000.0;
        let sum = |of: fn(&Served) -> usize| served.iter().map(of).sum::<usize>() as f64;
        let rest = |one: &Served| one.output_tokens.checked_sub(1).filter(|rest| *rest > 0);
        let pace = |one: &Served| {
            rest(one)
                .map(|rest| milliseconds(one.end_to_end.saturating_sub(one.ttft)) / rest as f64)
        };
        let recommended = outcome.needed.iter().map(|(_, needed)| *needed).max();
        let most = outcome.placed.iter().max().copied().unwrap_or_default() as f64;
        let mean = outcome.placed.iter().sum::<u64>() as f64 / outcome.placed.len() as f64;
        Self {
            ttft_ms: Percentiles::of(served.iter().map(|one| milliseconds(one.ttft))),
            tpot_ms: Percentiles::of(served.iter().filter_map(pace)),
            end_to_end_ms: Percentiles::of(served.iter().map(|one| milliseconds(one.end_to_end))),
            hit_ratio: sum(|one| one.cached_tokens) / sum(|one| one.prompt_tokens),
            request_hit_ratio: hit.ratio(served),
            max_over_mean: most / mean,
            adapter_loads: outcome.adapter_loads as f64,
            recomputed_tokens: outcome.recomputed_tokens as f64,
            requests: served.len() as f64,
            left_out: outcome.left_out as f64,
            refused: outcome.refused as f64,
            recommended_replicas: recommended.map_or(f64::NAN, f64::from),
        }
    }

    /// The mean over runs.
    pub fn mean(runs: &[Self]) -> Self {
        Self::fold(runs, |values| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// The greatest less the least over runs.
    pub fn spread(runs: &[Self]) -> Self {
        let greatest = |values: &[f64]| values.iter().copied().fold(f64::NAN, f64::max);
        let least = |values: &[f64]| values.iter().copied().fold(f64::NAN, f64::min);
        Self::fold(runs, |values| greatest(values) - least(values))
    }

    fn fold(runs: &[Self], fold: impl Fn(&[f64]) -> f64) -> Self {
        let of = |figure: fn(&Self) -> f64| fold(&runs.iter().map(figure).collect::<Vec<_>>());
        let percentiles = |of_run: fn(&Self) -> &Percentiles| {
            let of = |figure: fn(&Percentiles) -> f64| {
                fold(&runs.iter().map(|run| figure(of_run(run))).collect::<Vec<_>>())
            };
            Percentiles { p50: of(|all| all.p50), p90: of(|all| all.p90), p99: of(|all| all.p99) }
        };
        Self {
            ttft_ms: percentiles(|run| &run.ttft_ms),
            tpot_ms: percentiles(|run| &run.tpot_ms),
            end_to_end_ms: percentiles(|run| &run.end_to_end_ms),
            hit_ratio: of(|run| run.hit_ratio),
            request_hit_ratio: of(|run| run.request_hit_ratio),
            max_over_mean: of(|run| run.max_over_mean),
            adapter_loads: of(|run| run.adapter_loads),
            recomputed_tokens: of(|run| run.recomputed_tokens),
            requests: of(|run| run.requests),
            left_out: of(|run| run.left_out),
            refused: of(|run| run.refused),
            recommended_replicas: of(|run| run.recommended_replicas),
        }
    }
}

impl Percentiles {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_by(f64::total_cmp);
        let at = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100);
            rank.checked_sub(1).and_then(|at| sorted.get(at)).copied().unwrap_or(f64::NAN)
        };
        Self { p50: at(50), p90: at(90), p99: at(99) }
    }
}

impl RequestHit {
    fn ratio(self, served: &[Served]) -> f64 {
        let whole = |one: &&Served| one.shared_tokens > 0 && one.cached_tokens >= one.shared_tokens;
        let shared = |one: &&Served| one.shared_tokens > 0;
        let count = match self {
            Self::Any => served.iter().filter(|one| one.cached_tokens > 0).count(),
            Self::Whole | Self::WholeOfShared => served.iter().filter(whole).count(),
        };
        let of = match self {
            Self::Any | Self::Whole => served.len(),
            Self::WholeOfShared => served.iter().filter(shared).count(),
        };
        count as f64 / of as f64
    }
}

/// To four places: what is beyond says nothing.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
pub(super) fn rounded<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((value * 10_000.0).round() / 10_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(ttft: u64, cached_tokens: usize, shared_tokens: usize) -> Served {
        Served {
            ttft: Duration::from_millis(ttft),
            end_to_end: Duration::from_millis(ttft + 200),
            output_tokens: 11,
            prompt_tokens: 100,
            cached_tokens,
            shared_tokens,
        }
    }

    fn figures(served: Vec<Served>, placed: Vec<u64>) -> Figures {
        Figures::of(&Outcome { served, placed, ..Outcome::default() }, RequestHit::Any)
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let of = |count: u32| Percentiles::of((1..=count).rev().map(f64::from));
        assert_eq!(of(100), Percentiles { p50: 50.0, p90: 90.0, p99: 99.0 });
        assert_eq!(of(10), Percentiles { p50: 5.0, p90: 9.0, p99: 10.0 });
        assert_eq!(of(1), Percentiles { p50: 1.0, p90: 1.0, p99: 1.0 });
    }

    #[test]
    fn a_run_is_summed_up() {
        let figures = figures(vec![served(10, 48, 0), served(30, 0, 0)], vec![3, 1]);
        assert_eq!((figures.ttft_ms.p50, figures.ttft_ms.p90), (10.0, 30.0));
        assert!((figures.tpot_ms.p50 - 20.0).abs() < 1e-9, "200 ms for ten tokens");
        assert_eq!((figures.hit_ratio, figures.request_hit_ratio), (0.24, 0.5));
        assert!((figures.max_over_mean - 1.5).abs() < 1e-9);
    }

    #[test]
    fn one_output_token_has_no_pace() {
        let one = Served { output_tokens: 1, ..served(10, 0, 0) };
        assert!(figures(vec![one], vec![1]).tpot_ms.p50.is_nan());
    }

    #[test]
    fn whole_prefixes_count_against_all_or_against_those_that_have_one() {
        let served = [served(1, 64, 64), served(1, 48, 64), served(1, 96, 0), served(1, 0, 0)];
        let of = |hit: RequestHit| hit.ratio(&served);
        let ratios = (of(RequestHit::Any), of(RequestHit::Whole), of(RequestHit::WholeOfShared));
        assert_eq!(ratios, (0.75, 0.25, 0.5));
    }

    #[test]
    fn runs_have_a_mean_and_a_spread() {
        let runs = [10, 20, 60].map(|ttft| figures(vec![served(ttft, 0, 0)], vec![1]));
        let [mean, spread] = [Figures::mean(&runs), Figures::spread(&runs)];
        let one = Figures::spread(&runs[..1]);
        assert_eq!((mean.ttft_ms.p99, spread.ttft_ms.p99, one.ttft_ms.p99), (30.0, 50.0, 0.0));
    }

    #[test]
    fn nothing_to_count_is_null() {
        let json = serde_json::to_value(figures(Vec::new(), vec![0])).unwrap();
        assert!(json["ttft_ms"]["p50"].is_null() && json["hit_ratio"].is_null());
    }
}
