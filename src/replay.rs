//! `lodesman replay`: a trace through the production director, in virtual time.
//!
//! A [`Workload`] is what arrives when; a [`Fleet`] is what it arrives at: engines of the model of [`crate::sim`] that are
//! scraped as pods are. One run of a workload on a fleet under one policy with one seed gives an [`Outcome`]. Nothing in a
//! run reads a clock or a random number that is not from its seed: the same run gives the same outcome.
//!
//! A workload is [`read`] from a trace, or made up ([`Kind`]); a [`Grid`] compares policies on it, with several loads and
//! seeds, and gives a [`Report`].

pub use self::figures::{Figures, Percentiles, RequestHit};
pub use self::fleet::{Fleet, Outage};
pub use self::generated::{Kind, Shape};
pub use self::grid::{Grid, Source};
pub use self::outcome::{Outcome, Served};
pub use self::plot::PlotError;
pub use self::report::{Report, Row};
pub use self::trace::{TraceError, read};
pub use self::workload::{Arrival, Workload};

mod azure;
mod figures;
mod fleet;
mod generated;
mod grid;
mod mooncake;
mod outcome;
mod plot;
mod prompt;
mod report;
mod table;
mod timing;
mod trace;
mod workload;
