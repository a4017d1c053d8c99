//! Refuses a share of the requests below priority 0 that grows with the load.
//!
//! `p = min(1, k * s^power)`, where `s` is the mean over the candidates of the greater of `waiting / queueDepthThreshold`
//! and `kv usage / kvCacheUtilThreshold`, each endpoint counted for 1 at most, so that one long queue does not refuse for
//! an idle pool. A stale queue is taken to be what this process has in flight there, a stale usage and what is unknown to
//! be the median of the known; nothing known is no load.

use serde::Deserialize;
use smallvec::SmallVec;

use crate::pool::Slot;
use crate::schedule::admitter::Admitter;
use crate::schedule::readings::{fill, queues};
use crate::schedule::registry::{BadParameters, Build, Plugin, parameters};
use crate::schedule::{Needs, PickContext};

/// Tells its draw from those of other plugins.
const SALT: u64 = 0x0070_726f_6261_626c;

/// Candidates whose values are kept on the stack.
const USUAL_POOL: usize = 64;

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "probabilistic-admitter",
    summary: "Refuses requests below priority 0 with a probability that grows with queues and used KV cache: \
              `k * s^power`, with the mean load `s` of the endpoints from 0 to 1.",
    needs: Needs::NONE,
    build: Build::Admitter(|raw| Ok(Box::new(parameters::<Probabilistic>(raw)?.checked()?))),
};

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Probabilistic {
    /// Waiting requests of an endpoint whose load is 1, more than 0; default 5.
    queue_depth_threshold: f32,
    /// Used share of the KV cache of an endpoint whose load is 1, more than 0; default 0.8.
    kv_cache_util_threshold: f32,
    /// How steeply the probability grows, more than 0; default 5.
    power: f32,
    /// The probability at a load of 1 if it could exceed 1, more than 0; default 300.
    k: f32,
}

impl Default for Probabilistic {
    fn default() -> Self {
        Self { queue_depth_threshold: 5.0, kv_cache_util_threshold: 0.8, power: 5.0, k: 300.0 }
    }
}

impl Probabilistic {
    fn checked(self) -> Result<Self, BadParameters> {
        for (name, value) in [
            ("queueDepthThreshold", self.queue_depth_threshold),
            ("kvCacheUtilThreshold", self.kv_cache_util_threshold),
            ("power", self.power),
            ("k", self.k),
        ] {
            if !(value.is_finite() && value > 0.0) {
                return Err(BadParameters(format!("{name} is {value}, give more than 0")));
            }
        }
        Ok(self)
    }

    /// The probability of a refusal, 0.0 ..= 1.0.
    fn probability(&self, cx: PickContext<'_>, candidates: &[Slot]) -> f32 {
        if candidates.is_empty() {
            return 0.0;
        }
        let zeros = || SmallVec::<[f32; USUAL_POOL]>::from_elem(0.0, candidates.len());
        let (mut waiting, mut used) = (zeros(), zeros());
        queues(cx, candidates, &mut waiting);
        fill(cx, candidates, &mut used, |slot, now| cx.snapshot.kv_usage(slot, now), |_| None);
        let load = |(waiting, used): (&f32, &f32)| {
            let queue = waiting / self.queue_depth_threshold;
            queue.max(used / self.kv_cache_util_threshold).min(1.0)
        };
        let mean = waiting.iter().zip(&used).map(load).sum::<f32>() / candidates.len() as f32;
        (mean.powf(self.power) * self.k).min(1.0)
    }
}

impl Admitter for Probabilistic {
    fn refuses(&self, cx: PickContext<'_>, candidates: &[Slot]) -> bool {
        cx.chance(f64::from(self.probability(cx, candidates)), SALT)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pool::{InFlight, Sample};
    use crate::schedule::fixture;
    use crate::server::clock;

    /// With a probability that is the load.
    fn linear() -> Probabilistic {
        Probabilistic { power: 1.0, k: 1.0, ..Probabilistic::default() }
    }

    fn sample(waiting: f32, kv_usage: f32) -> Sample {
        Sample { waiting: Some(waiting), kv_usage: Some(kv_usage), ..Sample::default() }
    }

    fn probability(admitter: &Probabilistic, samples: &[Option<Sample>], age: Duration) -> f32 {
        let read = clock::now();
        let snapshot = fixture::sampled(samples, read);
        let asked = fixture::Asked::of(&snapshot);
        admitter.probability(asked.cx(read + age), snapshot.ready())
    }

    #[track_caller]
    fn near(value: f32, expected: f32) {
        assert!((value - expected).abs() < 1e-6, "{value} is not {expected}");
    }

    #[test]
    fn it_grows_steeply_with_the_mean_load() {
        let of =
            |kv| probability(&Probabilistic::default(), &[Some(sample(0.0, kv))], Duration::ZERO);
        near(of(0.0), 0.0);
        near(of(0.08), 0.003);
        near(of(0.16), 0.096);
        near(of(0.8), 1.0);
    }

    #[test]
    fn the_greater_share_counts_and_an_endpoint_for_one_at_most() {
        let of = |samples: &[Option<Sample>]| probability(&linear(), samples, Duration::ZERO);
        near(of(&[Some(sample(1.0, 0.4)), Some(sample(2.0, 0.2))]), 0.45);
        let mut samples = vec![Some(sample(0.0, 0.0)); 10];
        samples[3] = Some(sample(60.0, 1.0));
        near(of(&samples), 0.1);
        near(of(&vec![Some(sample(5.0, 0.0)); 1000]), 1.0);
    }

    #[test]
    fn what_is_not_known_is_the_median_and_a_stale_queue_ours() {
        near(probability(&linear(), &[Some(sample(2.0, 0.0)), None], Duration::ZERO), 0.4);
        near(probability(&linear(), &[None, None], Duration::ZERO), 0.0);
        near(probability(&linear(), &[], Duration::ZERO), 0.0);
        let read = clock::now();
        let snapshot = fixture::sampled(&[Some(sample(9.0, 0.9)), Some(sample(9.0, 0.9))], read);
        let first = snapshot.endpoints().next().unwrap();
        let _ours: Vec<_> = (0..4).map(|_| InFlight::begin(&first.live, 0)).collect();
        let asked = fixture::Asked::of(&snapshot);
        let cx = asked.cx(read + Duration::from_mins(1));
        near(linear().probability(cx, snapshot.ready()), 0.4);
    }

    #[test]
    fn that_share_of_requests_is_refused() {
        let now = clock::now();
        let snapshot = fixture::sampled(&[Some(sample(1.0, 0.0))], now);
        let asked = fixture::Asked::of(&snapshot);
        let refused = (0..10_000_u64).filter(|&dice| {
            linear().refuses(PickContext { dice, ..asked.cx(now) }, snapshot.ready())
        });
        let refused = refused.count();
        assert!((1_800..2_200).contains(&refused), "{refused} of 10,000");
    }

    #[test]
    fn figures_out_of_range_are_refused_by_name() {
        for name in ["queueDepthThreshold", "kvCacheUtilThreshold", "power", "k"] {
            let raw = serde_json::json!({name: 0});
            let error = parameters::<Probabilistic>(raw).unwrap().checked().unwrap_err();
            assert_eq!(error.0, format!("{name} is 0, give more than 0"));
        }
    }
}
