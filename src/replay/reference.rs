//! The default policy of the reference, as it behaves.
//!
//! For each endpoint `2 * (maxQ - Q) / (maxQ - minQ) + 2 * (1 - KV) + 3 * matched / total`, the first part 2 where all
//! queues are equal; the highest sum, at random among equals. It counts nothing of what it has decided itself, takes an
//! endpoint that it never scraped for idle, and finds prefixes by an index of its own ([`PrefixIndex`]).

use std::time::Duration;

use crate::replay::contender::{Asked, Chooser, least};
use crate::replay::pod::Pod;
use crate::replay::reference::index::PrefixIndex;
use crate::sim::engine::{Engine, Gauges};

mod index;

/// Weight of the queue.
const QUEUE: f64 = 2.0;
/// Weight of the free share of the cache.
const KV: f64 = 2.0;
/// Weight of the prefix.
const PREFIX: f64 = 3.0;

/// The reference's default policy.
#[derive(Debug)]
pub(super) struct Reference {
    knowledge: Knowledge,
    dice: fastrand::Rng,
}

/// What it goes by.
#[derive(Debug)]
enum Knowledge {
    /// The last page of each pod, all zero before the first, and what it sent there.
    Scraped { pages: Vec<Gauges>, index: PrefixIndex },
    /// The engines as they are.
    True,
}

impl Reference {
    /// With what it knows.
    pub(super) fn new(pods: usize, dice: fastrand::Rng) -> Self {
        let pages = vec![Gauges::default(); pods];
        Self { knowledge: Knowledge::Scraped { pages, index: PrefixIndex::new(pods) }, dice }
    }

    /// With true caches and gauges.
    pub(super) fn ideal(dice: fastrand::Rng) -> Self {
        Self { knowledge: Knowledge::True, dice }
    }
}

impl Chooser for Reference {
    fn choose(&mut self, asked: Asked<'_>) -> Option<usize> {
        let mut views: Vec<View> = match &self.knowledge {
            Knowledge::Scraped { pages, index } => {
                let matches = index.matches(asked);
                let views = asked.up().filter_map(|(at, _)| Some((at, *pages.get(at)?)));
                views.map(|(at, gauges)| View::new(at, gauges, matches.share(at))).collect()
            }
            Knowledge::True => asked.up().map(|(at, pod)| View::of(asked, at, pod)).collect(),
        };
        score(&mut views);
        let chosen = least(views.iter().map(|view| (view.pod, -view.score)), &mut self.dice)?;
        if let Knowledge::Scraped { index, .. } = &mut self.knowledge {
            index.record(asked, chosen);
        }
        Some(chosen)
    }

    fn scraped(&mut self, pod: usize, engine: &Engine, _now: Duration) {
        if let Knowledge::Scraped { pages, index } = &mut self.knowledge
            && let Some(page) = pages.get_mut(pod)
        {
            *page = engine.gauges();
            index.scraped(pod, engine.spec().kv_blocks());
        }
    }

    fn changed(&mut self, pod: usize, _pods: &[Pod], _now: Duration) {
        if let Knowledge::Scraped { pages, index } = &mut self.knowledge
            && let Some(page) = pages.get_mut(pod)
        {
            *page = Gauges::default();
            index.forget(pod);
        }
    }
}

/// What is known of a candidate.
#[derive(Clone, Copy, Debug)]
struct View {
    pod: usize,
    waiting: f64,
    kv_used: f64,
    /// Share of the prompt that it has, 0.0 ..= 1.0.
    matched: f64,
    score: f64,
}

impl View {
    fn new(pod: usize, gauges: Gauges, matched: f64) -> Self {
        let Gauges { waiting, kv_used, .. } = gauges;
        Self { pod, waiting: waiting as f64, kv_used, matched, score: 0.0 }
    }

    fn of(asked: Asked<'_>, at: usize, pod: &Pod) -> Self {
        let prompt = asked.arrival.prompt_tokens;
        let cached = pod.engine.cached_tokens(prompt, &asked.arrival.blocks);
        Self::new(at, pod.engine.gauges(), cached as f64 / prompt.max(1) as f64)
    }
}

fn score(views: &mut [View]) {
    let waiting = views.iter().map(|view| view.waiting);
    let (least, most) = waiting.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), it| {
        (least.min(it), most.max(it))
    });
    for view in views {
        let queue = if most > least { (most - view.waiting) / (most - least) } else { 1.0 };
        view.score = QUEUE * queue + KV * (1.0 - view.kv_used) + PREFIX * view.matched;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(of: &[(usize, f64, f64)]) -> Vec<f64> {
        let view = |&(waiting, kv_used, matched): &_| {
            View::new(0, Gauges { waiting, running: 0, kv_used }, matched)
        };
        let mut views: Vec<_> = of.iter().map(view).collect();
        score(&mut views);
        views.iter().map(|view| view.score).collect()
    }

    #[test]
    fn queue_cache_and_prefix_are_weighed_2_2_3() {
        let expected = [2.0 + 1.0, 2.0 * 0.75 + 2.0 + 3.0 * 0.5, 2.0];
        assert_eq!(scores(&[(0, 0.5, 0.0), (1, 0.0, 0.5), (4, 0.0, 0.0)]), expected);
    }

    #[test]
    fn equal_queues_are_all_the_best() {
        assert_eq!(scores(&[(3, 1.0, 0.0), (3, 1.0, 0.0)]), [2.0, 2.0]);
    }
}
