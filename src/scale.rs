//! How many replicas a pool needs: what autoscalers are told.
//!
//! Once a second somebody lets the [`History`] look at the pool. From two minutes of that come the [`Signals`] of all
//! endpoints or some of them: what waits and runs, by what the engines say, so that the traffic of others counts too; what
//! passed, by what this process sent; and how many replicas that needs (`estimate.rs`, with the formula). A [`Query`] is what
//! a trigger of KEDA asks for.
//!
//! CPU and GPU utilization are no signals: an engine that computes one sequence keeps a GPU as busy as one that computes a
//! hundred.

pub use self::board::{Aims, Board};
pub use self::estimate::{Goal, Load, MOST, Replica, Request};
pub use self::history::{History, LONGEST_WINDOW, Unplaced};
pub use self::query::{BadTrigger, Metric, Query, WINDOW};
pub use self::signals::{Signals, Wanted};

mod board;
mod estimate;
mod history;
mod query;
mod signals;
#[cfg(test)]
mod tests;
mod trend;
