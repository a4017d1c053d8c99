//! Producers, one file each: where signals come from.
//!
//! In the reference they are plugins with code of their own. Here signals are computed by the director, so a producer is
//! no more than its settings; one that a plugin needs and nobody lists has the default ones.

use std::sync::Arc;

use crate::prefix;
use crate::schedule::facts::{OutputEstimate, SessionSource};
use crate::schedule::registry::BadParameters;

pub(in crate::schedule) mod agent_identity;
pub(in crate::schedule) mod approx_prefix_cache;
pub(in crate::schedule) mod inflight_load;
pub(in crate::schedule) mod mm_embeddings_cache;
pub(in crate::schedule) mod session_id;
pub(in crate::schedule) mod token;

/// What a producer's parameters say.
#[derive(Clone, Debug, PartialEq)]
pub struct Producer {
    /// What it produces.
    pub product: Product,
    /// What was written and has no effect: a sentence each.
    pub warnings: Vec<String>,
}

/// What a producer produces.
#[derive(Clone, Debug, PartialEq)]
pub enum Product {
    /// How much of a prompt each endpoint has in its cache.
    Prefix(prefix::Settings),
    /// The tokens of a prompt, by estimate. Always there.
    Tokens,
    /// What this process has in flight on each endpoint. Always there; output counts where there is an estimate of it.
    InFlight(Option<OutputEstimate>),
    /// What names the session of a request.
    Session(SessionSource),
    /// Whose request it is, by the first of these headers that is there.
    Agent(Vec<Arc<str>>),
    /// How many images, clips and videos an endpoint's encoder is taken to keep.
    Media(usize),
}

/// A count; the reference takes negative ones as an error too.
fn at_least(name: &str, value: i64, least: i64) -> Result<u64, BadParameters> {
    let good = u64::try_from(value).ok().filter(|_| value >= least);
    good.ok_or_else(|| BadParameters(format!("{name} is {value}, give {least} or more")))
}
