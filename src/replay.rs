//! `lodesman replay`: a trace through the production director, in virtual time.
//!
//! A [`Workload`] is what arrives when; a [`Fleet`] is what it arrives at: engines of the model of [`crate::sim`] that are
//! scraped as pods are. One run of a workload on a fleet under one policy with one seed gives an [`Outcome`]. Nothing in a
//! run reads a clock or a random number that is not from its seed: the same run gives the same outcome.

pub use self::fleet::{Fleet, Outage};
pub use self::outcome::{Outcome, Served};
pub use self::workload::{Arrival, Workload};

mod fleet;
mod outcome;
mod workload;
