//! Who decides in a run.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{self, Problem};
use crate::replay::baseline::{LeastRequest, Random, RoundRobin};
use crate::replay::director::Directed;
use crate::replay::oracle::Oracle;
use crate::replay::pod::Pod;
use crate::replay::reference::Reference;
use crate::replay::{Arrival, Fleet, Workload};
use crate::schedule::registry::PLUGINS;
use crate::sim::engine::{Engine, Event, JobId};

/// A policy that requests are placed by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contender {
    /// The production director under this configuration document; under the default policy without one.
    Configured(Option<Arc<str>>),
    /// One pod after the other.
    RoundRobin,
    /// Any pod.
    Random,
    /// The pod with the fewest requests that were placed on it and have not ended, at random among equals.
    LeastRequest,
    /// The default policy of the reference with what it knows, as it behaves.
    Reference,
    /// The same with true caches and true gauges at the moment of decision.
    ReferenceIdeal,
    /// The pod that gives this request its first token soonest, found by running each true engine forward.
    Oracle,
}

/// Why a run cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The configuration document has errors.
    #[error("the configuration has {} problem(s)", .0.len())]
    Configuration(Vec<Problem>),
    /// The director's metrics cannot be set up.
    #[error("cannot set up metrics")]
    Metrics(#[from] prometheus::Error),
}

impl Contender {
    /// The names of those that need no file.
    pub const NAMES: [&str; 7] = [
        "default",
        "round-robin",
        "random",
        "least-request",
        "reference",
        "reference-ideal",
        "oracle",
    ];

    /// The one of this name; none when it is none of [`NAMES`](Self::NAMES).
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "default" => Self::Configured(None),
            "round-robin" => Self::RoundRobin,
            "random" => Self::Random,
            "least-request" => Self::LeastRequest,
            "reference" => Self::Reference,
            "reference-ideal" => Self::ReferenceIdeal,
            "oracle" => Self::Oracle,
            _ => return None,
        })
    }

    /// The director under a configuration document.
    ///
    /// # Errors
    /// When the document has an error: all its problems.
    pub fn configured(text: &str) -> Result<Self, Vec<Problem>> {
        config::load(Some(text), &[PLUGINS])?;
        Ok(Self::Configured(Some(text.into())))
    }

    pub(super) fn chooser(
        &self,
        workload: &Workload,
        fleet: &Fleet,
        dice: fastrand::Rng,
    ) -> Result<Box<dyn Chooser>, Failure> {
        let pods = fleet.engines.len();
        Ok(match self {
            Self::Configured(text) => {
                Box::new(Directed::new(text.as_deref(), workload, fleet, dice)?)
            }
            Self::RoundRobin => Box::new(RoundRobin::default()),
            Self::Random => Box::new(Random(dice)),
            Self::LeastRequest => Box::new(LeastRequest::new(pods, dice)),
            Self::Reference => Box::new(Reference::new(pods, dice)),
            Self::ReferenceIdeal => Box::new(Reference::ideal(dice)),
            Self::Oracle => Box::new(Oracle(dice)),
        })
    }
}

/// What places requests, and hears of what comes of it.
pub(super) trait Chooser: Debug {
    /// The pod for a request; none refuses it. Only those that are up may be chosen.
    fn choose(&mut self, asked: Asked<'_>) -> Option<usize>;

    /// The page of a pod is read.
    fn scraped(&mut self, _pod: usize, _engine: &Engine, _now: Duration) {}

    /// Something happens to a request on a pod.
    fn happened(&mut self, _event: &Event, _pod: usize, _now: Duration) {}

    /// A request is lost with its pod, and is asked for again.
    fn lost(&mut self, _job: JobId, _pod: usize) {}

    /// Replicas that the load needed, from when on; nothing where nobody knows.
    fn needed(&mut self) -> Vec<(Duration, u32)> {
        Vec::new()
    }

    /// A pod has gone, or is back; tells which are up.
    fn changed(&mut self, _pod: usize, _pods: &[Pod], _now: Duration) {}
}

/// A request to be placed, and where it may go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    /// Names the request: its position in the workload.
    pub(super) job: JobId,
    /// The request. Nobody but the oracle may look at its output.
    pub(super) arrival: &'a Arrival,
    /// The pods as they truly are: for those that are above what can be known.
    pub(super) pods: &'a [Pod],
    /// Since the start of the run.
    pub(super) now: Duration,
}

impl Asked<'_> {
    /// The pods that may be chosen.
    pub(super) fn up(&self) -> impl Iterator<Item = (usize, &Pod)> {
        self.pods.iter().enumerate().filter(|(_, pod)| pod.up())
    }
}

/// The one with the least value, at random among equals; none of none.
pub(super) fn least<T: PartialOrd>(
    values: impl Iterator<Item = (usize, T)>,
    dice: &mut fastrand::Rng,
) -> Option<usize> {
    let (mut best, mut equals) = (None, 0);
    for (at, value) in values {
        match &best {
            Some((_, least)) if value > *least => continue,
            Some((_, least)) if value == *least => equals += 1,
            _ => equals = 1,
        }
        if dice.usize(..equals) == 0 {
            best = Some((at, value));
        }
    }
    best.map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_known_and_no_other() {
        assert!(Contender::NAMES.iter().all(|name| Contender::named(name).is_some()));
        assert_eq!(Contender::named("best"), None);
    }

    #[test]
    fn equals_are_drawn_alike_and_the_rest_never() {
        let (mut dice, mut drawn) = (fastrand::Rng::with_seed(1), [0; 4]);
        for _ in 0..3_000 {
            drawn[least([2, 1, 1, 1].into_iter().enumerate(), &mut dice).unwrap()] += 1;
        }
        assert!(
            drawn[0] == 0 && drawn[1..].iter().all(|&n| (900..1_100).contains(&n)),
            "{drawn:?}"
        );
        assert_eq!(least(std::iter::empty::<(usize, u8)>(), &mut dice), None);
    }
}
