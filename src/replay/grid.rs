//! All runs of a comparison, side by side on the processor's cores.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::replay::{Figures, Fleet, Kind, Outcome, RequestHit, Row, Shape, Workload};
use crate::sim::engine::EngineSpec;

/// What is compared: every policy, with every load, on every fleet, with every seed.
#[derive(Debug)]
pub struct Grid<'a, P> {
    /// Where the requests come from.
    pub source: &'a Source,
    /// Fleets of different size.
    pub fleets: &'a [Fleet],
    /// Shares of the fleet's nominal prefill rate; none is as recorded.
    pub loads: &'a [Option<f64>],
    /// Policies with the names that their rows bear.
    pub policies: &'a [(String, P)],
    /// Seeds are 1 to this.
    pub seeds: u64,
}

/// Where requests come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A trace, its arrivals blurred or not.
    Trace {
        /// As recorded.
        workload: Workload,
        /// Whether each arrival is moved by 0 to 3 s.
        jitter: bool,
    },
    /// Made up for each seed.
    Generated {
        /// What.
        kind: Kind,
        /// How much.
        shape: Shape,
    },
}

/// One run.
struct Case<'a, P> {
    fleet: &'a Fleet,
    load: Option<f64>,
    name: &'a str,
    policy: &'a P,
    seed: u64,
}

impl<P: Sync> Grid<'_, P> {
    /// Runs everything; one row for each fleet, load and policy, in this order.
    ///
    /// `run` is the run of one workload on a fleet under a policy with a seed; `progress` is told whenever one is over.
    ///
    /// # Errors
    /// When a run cannot begin.
    pub fn rows<E: Send>(
        &self,
        run: impl Fn(&Workload, &Fleet, &P, u64) -> Result<Outcome, E> + Sync,
        progress: impl Fn() + Sync,
    ) -> Result<Vec<Row>, E> {
        let cases = self.cases();
        let figures = side_by_side(&cases, |case| {
            let workload = self.source.workload(case.fleet, case.load, case.seed);
            let outcome = run(&workload, case.fleet, case.policy, case.seed)?;
            progress();
            Ok(Figures::of(&outcome, self.source.request_hit()))
        });
        let figures = figures.into_iter().collect::<Result<Vec<_>, E>>()?;
        let mut figures = figures.as_slice();
        let mut rows = Vec::new();
        for runs in cases.chunk_by(|case, next| case.seed < next.seed) {
            let (of_row, rest) = figures.split_at_checked(runs.len()).unwrap_or((figures, &[]));
            rows.extend(runs.first().map(|case| self.row(case, of_row)));
            figures = rest;
        }
        Ok(rows)
    }

    /// How many runs there are.
    pub fn runs(&self) -> usize {
        self.cases().len()
    }

    fn cases(&self) -> Vec<Case<'_, P>> {
        let mut cases = Vec::new();
        let of_fleet = |fleet| self.loads.iter().map(move |&load| (fleet, load));
        for (fleet, load) in self.fleets.iter().flat_map(of_fleet) {
            for (name, policy) in self.policies {
                let case = |seed| Case { fleet, load, name, policy, seed };
                cases.extend((1..=self.seeds).map(case));
            }
        }
        cases
    }

    fn row(&self, case: &Case<'_, P>, runs: &[Figures]) -> Row {
        Row {
            policy: case.name.to_owned(),
            load: case.load.or_else(|| self.source.recorded_load(case.fleet)),
            pods: case.fleet.engines.len(),
            seeds: self.seeds,
            figures: Figures::mean(runs),
            spread: Figures::spread(runs),
        }
    }
}

impl Source {
    /// The requests of a run.
    fn workload(&self, fleet: &Fleet, load: Option<f64>, seed: u64) -> Workload {
        let mut workload = match self {
            Self::Trace { workload, .. } => workload.clone(),
            Self::Generated { kind, shape } => kind.workload(shape, fleet.cache_tokens(), seed),
        };
        if let Self::Trace { jitter: true, .. } = self {
            workload.jitter(seed);
        }
        if let Some(load) = load {
            workload.scale(load, fleet.prefill_rate());
        }
        workload
    }

    fn recorded_load(&self, fleet: &Fleet) -> Option<f64> {
        match self {
            Self::Trace { workload, .. } => workload.load(fleet.prefill_rate()),
            Self::Generated { .. } => None,
        }
    }

    fn request_hit(&self) -> RequestHit {
        match self {
            Self::Generated { kind: Kind::Shareable(_), .. } => RequestHit::Whole,
            Self::Generated { kind: Kind::HotPrefix(_), .. } => RequestHit::WholeOfShared,
            Self::Generated { .. } | Self::Trace { .. } => RequestHit::Any,
        }
    }
}

impl Fleet {
    /// A fleet of equal engines, read every 50 ms, of which none fails.
    pub fn of(engines: Vec<EngineSpec>) -> Self {
        Self { engines, scrape_interval: Duration::from_millis(50), outages: Vec::new() }
    }

    /// Prompt tokens a second that the engines compute together, if none were slow.
    pub fn prefill_rate(&self) -> f64 {
        self.engines.iter().map(|engine| engine.prefill_tokens_per_second).sum()
    }

    /// Tokens that all caches hold together.
    pub fn cache_tokens(&self) -> usize {
        self.engines.iter().map(|engine| engine.kv_tokens).sum()
    }
}

/// Applies `work` to each item, on as many threads as there are cores; results are in the order of the items.
fn side_by_side<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(items.len());
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return done };
            done.push((at, work(item)));
        }
    };
    let mut results: Vec<(usize, R)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, _>| match worker.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        workers.into_iter().flat_map(join).collect()
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::num::ParseIntError;
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::replay::Served;

    fn two_fleets() -> Vec<Fleet> {
        [2, 4].map(|pods| Fleet::of(vec![EngineSpec::default(); pods])).into()
    }

    /// A run that lasts `policy` times the seed in milliseconds, and was placed as its requests come.
    fn run(
        workload: &Workload,
        _: &Fleet,
        policy: &&str,
        seed: u64,
    ) -> Result<Outcome, ParseIntError> {
        let served = Served {
            ttft: Duration::from_millis(policy.parse::<u64>()? * seed),
            end_to_end: Duration::from_secs(1),
            output_tokens: 1,
            prompt_tokens: workload.arrivals.len(),
            cached_tokens: 0,
            shared_tokens: 0,
        };
        Ok(Outcome { served: vec![served], placed: vec![1], ..Outcome::default() })
    }

    fn grid<'a>(
        source: &'a Source,
        fleets: &'a [Fleet],
        policies: &'a [(String, &'static str)],
    ) -> Grid<'a, &'static str> {
        Grid { source, fleets, loads: &[Some(0.5), Some(0.9)], policies, seeds: 3 }
    }

    #[test]
    fn there_is_a_row_for_each_fleet_load_and_policy() {
        let kind = Kind::Adapters(2);
        let shape = Shape { requests: 5, ..kind.shape() };
        let source = Source::Generated { kind, shape };
        let fleets = two_fleets();
        let policies = [("a".to_owned(), "1"), ("b".to_owned(), "10")];
        let grid = grid(&source, &fleets, &policies);
        let done = AtomicU64::new(0);
        let count = || {
            done.fetch_add(1, Ordering::Relaxed);
        };
        let rows = grid.rows(run, count).unwrap();
        assert_eq!((grid.runs(), done.into_inner()), (24, 24));
        let of = |row: &Row| {
            (
                row.pods,
                row.load,
                row.policy.clone(),
                row.figures.ttft_ms.p50,
                row.spread.ttft_ms.p50,
            )
        };
        let of: Vec<_> = rows.iter().map(of).collect();
        assert_eq!(of.len(), 8);
        assert_eq!(of[1], (2, Some(0.5), "b".to_owned(), 20.0, 20.0), "the mean of seeds 1 to 3");
        assert_eq!(of[6], (4, Some(0.9), "a".to_owned(), 2.0, 2.0));
    }

    #[test]
    fn the_load_is_that_of_the_fleet_at_its_nominal_speed() {
        let kind = Kind::Shareable(0.5);
        let source = Source::Generated { kind, shape: Shape { requests: 50, ..kind.shape() } };
        let mut fleet = Fleet::of(vec![EngineSpec::default(); 2]);
        fleet.engines[0].slowdown = 2.0;
        let workload = source.workload(&fleet, Some(0.7), 1);
        assert!((workload.load(16_000.0).unwrap() - 0.7).abs() < 1e-6);
    }

    #[test]
    fn a_recorded_load_is_told() {
        let text =
            "{\"timestamp\": 0, \"input_length\": 400, \"output_length\": 1, \"hash_ids\": [1]}\n";
        let text = text.to_owned() + &text.replace("\"timestamp\": 0", "\"timestamp\": 1000");
        let workload = crate::replay::read(text.as_bytes()).unwrap();
        let source = Source::Trace { workload, jitter: false };
        assert_eq!(
            source.recorded_load(&two_fleets()[0]),
            Some(0.05),
            "800 tokens in 1 s of 16,000"
        );
    }

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..500).collect();
        assert_eq!(
            side_by_side(&items, |item| item * 2),
            items.iter().map(|n| n * 2).collect::<Vec<_>>()
        );
        assert!(side_by_side(&[0_u32; 0], |item| *item).is_empty());
    }
}
