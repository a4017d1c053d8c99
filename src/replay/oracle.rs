//! What a policy that knows everything would do for one request.

use std::time::Duration;

use crate::replay::contender::{Asked, Chooser, least};
use crate::replay::pod::Pod;
use crate::replay::run::job;
use crate::sim::engine::Event;

/// More than the lengths of steps, each rounded to a nanosecond, can differ from their sum.
const ROUNDING: Duration = Duration::from_micros(1);

/// Runs each true engine forward until the request has its first token, and takes the least time to it.
#[derive(Debug)]
pub(super) struct Oracle(pub(super) fastrand::Rng);

impl Chooser for Oracle {
    fn choose(&mut self, asked: Asked<'_>) -> Option<usize> {
        let mut order: Vec<_> = asked.up().map(|(at, pod)| (soonest(asked, pod), at)).collect();
        order.sort_unstable();
        let (mut waits, mut limit) = (Vec::new(), Duration::MAX);
        for (bound, at) in order {
            if bound > limit {
                break;
            }
            let pod = asked.pods.get(at)?;
            if let Some(wait) = wait(asked, pod, limit) {
                limit = wait;
                waits.push((at, wait));
            }
        }
        waits.retain(|(_, wait)| *wait == limit);
        waits.sort_unstable();
        least(waits.into_iter(), &mut self.0)
    }
}

/// The pod does not give the first token sooner.
fn soonest(asked: Asked<'_>, pod: &Pod) -> Duration {
    let arrival = asked.arrival;
    let steps = pod.engine.soonest_first_token(arrival.prompt_tokens, &arrival.blocks);
    rest_of_step(asked, pod) + steps.saturating_sub(ROUNDING)
}

/// The true time to the first token on a pod; none when it is more than `limit`.
fn wait(asked: Asked<'_>, pod: &Pod, limit: Duration) -> Option<Duration> {
    let mut engine = pod.engine.clone();
    engine.submit(job(asked.job, asked.arrival)).ok()?;
    let (mut wait, mut events) = (rest_of_step(asked, pod), Vec::new());
    while wait <= limit {
        events.clear();
        wait += engine.step(&mut events)?;
        let first =
            |event: &Event| matches!(event, Event::FirstToken { id, .. } if *id == asked.job);
        if events.iter().any(first) {
            return (wait <= limit).then_some(wait);
        }
    }
    None
}

fn rest_of_step(asked: Asked<'_>, pod: &Pod) -> Duration {
    pod.busy_until.map_or(Duration::ZERO, |end| end.saturating_sub(asked.now))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::replay::Arrival;
    use crate::sim::engine::{Engine, EngineSpec, JobId};

    fn arrival(rng: &mut fastrand::Rng) -> Arrival {
        let (family, tokens) = (rng.u64(0..4), rng.usize(16..5_000));
        Arrival {
            at: Duration::ZERO,
            prompt_tokens: tokens,
            output_tokens: rng.usize(1..60),
            adapter: None,
            chain: Arc::default(),
            blocks: (0..tokens as u64 / 16).map(|block| family << 32 | block).collect(),
            shared_tokens: 0,
            counts: true,
        }
    }

    /// A pod in the midst of its work, and the time of it.
    fn busy(rng: &mut fastrand::Rng) -> Pod {
        let slowdown = 1.0 + rng.f64();
        let spec = EngineSpec { kv_tokens: 16_000, slowdown, ..EngineSpec::default() };
        let (mut pod, mut now) = (Pod::new(Engine::new(spec)), Duration::ZERO);
        for id in 0..rng.u64(0..40) {
            pod.engine.submit(job(JobId(id), &arrival(rng))).unwrap();
            if rng.bool()
                && let Some(end) = pod.begin_step(now)
            {
                now = end;
                pod.end_step();
            }
        }
        pod.begin_step(Duration::from_millis(rng.u64(0..200)));
        pod
    }

    #[test]
    fn no_pod_is_sooner_than_the_chosen_one() {
        let mut rng = fastrand::Rng::with_seed(5);
        for _ in 0..100 {
            let pods: Vec<_> = std::iter::repeat_with(|| busy(&mut rng)).take(6).collect();
            let (arrival, job) = (arrival(&mut rng), JobId(1_000));
            let asked = Asked { job, arrival: &arrival, pods: &pods, now: Duration::ZERO };
            let waits: Vec<_> =
                pods.iter().map(|pod| wait(asked, pod, Duration::MAX).unwrap()).collect();
            let chosen = Oracle(rng.fork()).choose(asked).unwrap();
            assert_eq!(waits[chosen], *waits.iter().min().unwrap(), "{waits:?}");
            for (pod, wait) in pods.iter().zip(waits) {
                let bound = soonest(asked, pod);
                assert!(bound <= wait, "{bound:?} {wait:?}");
            }
        }
    }
}
