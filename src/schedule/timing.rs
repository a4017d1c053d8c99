//! How long the plugins of one decision took, noted when it is asked for.
//!
//! A [`Timing`] in the [`Scratch`](crate::schedule::Scratch) of a decision is filled as the profile runs. Without one the
//! clock is not read.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a plugin is called for, in the reference's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// To remove candidates.
    Filter,
    /// To rate them.
    Scorer,
    /// To choose.
    Picker,
}

/// One call of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What for.
    pub point: Point,
    /// Its type.
    pub type_name: &'static str,
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// When it began.
    pub began: Instant,
    /// How long it took.
    pub took: Duration,
}

/// The calls of one decision. Bounded by the plugins of a profile.
pub struct Timing {
    now: Box<dyn Fn() -> Instant + Send>,
    /// In the order in which they ended.
    pub calls: Vec<Call>,
}

impl Point {
    /// The value of the label `extension_point`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Filter => "Filter",
            Self::Scorer => "Scorer",
            Self::Picker => "Picker",
        }
    }
}

impl Timing {
    /// No calls yet; `now` tells the time.
    pub fn new(now: impl Fn() -> Instant + Send + 'static) -> Self {
        Self { now: Box::new(now), calls: Vec::new() }
    }
}

/// Runs `call` of a plugin, and notes how long that took where somebody asks.
pub(in crate::schedule) fn timed<T>(
    timing: &mut Option<Box<Timing>>,
    (point, type_name, name): (Point, &'static str, &Arc<str>),
    call: impl FnOnce() -> T,
) -> T {
    let Some(timing) = timing else { return call() };
    let began = (timing.now)();
    let returned = call();
    let took = (timing.now)().saturating_duration_since(began);
    timing.calls.push(Call { point, type_name, name: Arc::clone(name), began, took });
    returned
}

impl fmt::Debug for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timing").field("calls", &self.calls).finish_non_exhaustive()
    }
}
