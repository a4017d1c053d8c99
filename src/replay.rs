//! `lodesman replay`: a trace through the production director, in virtual time.
//!
//! A [`Workload`] is what arrives when; a [`Fleet`] is what it arrives at: engines of the model of [`crate::sim`] that are
//! scraped as pods are. One [`run`](fn@run) of a workload on a fleet under one [`Contender`] with one seed gives an
//! [`Outcome`]. Nothing in a run depends on a clock or on a random number that is not from its seed: the same run gives
//! the same outcome.

pub use self::contender::{Contender, Failure};
pub use self::fleet::{Fleet, Outage};
pub use self::outcome::{Outcome, Served};
pub use self::run::run;
pub use self::workload::{Arrival, Workload};

mod agenda;
mod baseline;
mod clock;
mod contender;
mod director;
mod fleet;
mod oracle;
mod outcome;
mod pod;
mod reference;
mod run;
mod tally;
mod workload;

#[cfg(test)]
mod tests;
