//! `lodesman replay`: a trace through the production director, in virtual time.
//!
//! A [`Workload`] is what arrives when; a [`Fleet`] is what it arrives at: engines of the model of [`crate::sim`] that are
//! scraped as pods are. One [`run`](fn@run) of a workload on a fleet under one [`Contender`] with one seed gives an
//! [`Outcome`]. Nothing in a run depends on a clock or on a random number that is not from its seed: the same run gives
//! the same outcome.
//!
//! A workload is [`read`] from a trace, or made up ([`Kind`]); a [`Grid`] compares policies on it, with several loads and
//! seeds, and gives a [`Report`].

pub use self::contender::{Contender, Failure};
pub use self::figures::{Figures, Percentiles, RequestHit};
pub use self::fleet::{Fleet, Outage};
pub use self::generated::{Kind, MOST_MADE_UP, Shape};
pub use self::grid::{Grid, Source};
pub use self::outcome::{Outcome, Served};
pub use self::plot::PlotError;
pub use self::report::{Report, Row};
pub use self::run::run;
pub use self::trace::{MOST_TOKENS, TraceError, read};
pub use self::workload::{Arrival, Workload};

mod agenda;
mod azure;
mod baseline;
mod clock;
mod contender;
mod director;
mod figures;
mod fleet;
mod generated;
mod grid;
mod mooncake;
mod oracle;
mod outcome;
mod plot;
mod pod;
mod prompt;
mod recorded;
mod reference;
mod report;
mod run;
mod scaling;
mod table;
mod tally;
mod timing;
mod trace;
mod workload;

#[cfg(test)]
mod tests;
