//! What comes out of a decision.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::director::Prediction;
use crate::pool::{Endpoint, InFlight};
use crate::schedule::{Fault, Relay};

/// Where a request goes.
#[derive(Debug)]
pub struct Decision {
    /// The chosen endpoints, best first; never empty.
    pub endpoints: SmallVec<[Arc<Endpoint>; 1]>,
    /// The charge on the first of them.
    pub in_flight: InFlight,
    /// What was foretold of the request, to be handed back with [`Director::reported`](crate::director::Director::reported).
    pub prediction: Prediction,
    /// How the choice was made.
    pub rung: Rung,
    /// What was left out on the way.
    pub faults: SmallVec<[Fault; 1]>,
    /// What stands between the gateway and the endpoints; none mostly.
    pub relay: Option<Relay>,
    /// The sum of the scores of every candidate; empty unless asked for, and when no scorer ran.
    pub scores: Vec<(Arc<Endpoint>, f32)>,
}

/// How much knowledge a choice rests on, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// The configured policy with fresh signals; what endpoints have in their caches is an estimate.
    Policy,
    /// Only what this process has in flight: signals are lost, or the deadline was missed.
    LoadOnly,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The source of endpoints has not answered yet.
    NotSynced,
    /// No endpoint is ready, or none that can serve the request.
    NoEndpoints,
    /// None of those that are ready is one that the gateway allows.
    NoneAllowed,
    /// Endpoints could serve the request but have no room.
    Saturated,
    /// The same, of a request that is shed for others before its policy is asked.
    Shed,
    /// It asks for a profile that is not there.
    NoProfile,
    /// A filter failed and the pool fails closed.
    Internal(Fault),
}

impl Rejection {
    /// The plugin that is at fault, if one is.
    pub fn fault(&self) -> Option<&Fault> {
        if let Self::Internal(fault) = self { Some(fault) } else { None }
    }

    /// Why, as its client reads it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotSynced => "the endpoints are not known yet",
            Self::NoEndpoints => "no endpoint can serve the request",
            Self::NoneAllowed => "no endpoint that the gateway allows is in the pool",
            Self::Saturated => "all endpoints are busy",
            Self::NoProfile => "there is no such scheduling profile",
            Self::Shed => "all endpoints are busy and the request is of low priority",
            Self::Internal(_) => "the request could not be placed safely",
        }
    }
}

impl Rung {
    /// A word for logs and metric labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::LoadOnly => "load_only",
        }
    }

    /// The rung of this depth, as the gauge of the newest decision tells it; none before the first one.
    pub fn of_depth(depth: i64) -> Option<Self> {
        [Self::Policy, Self::LoadOnly].into_iter().find(|rung| rung.depth() == depth)
    }

    /// 0 for the best, exact knowledge of caches; more for less knowledge.
    pub(super) fn depth(self) -> i64 {
        match self {
            Self::Policy => 1,
            Self::LoadOnly => 2,
        }
    }
}
