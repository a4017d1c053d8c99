//! Admitters, one file each: which requests below priority 0 are refused though the pool is not full.
//!
//! All that are listed are asked, after the saturation detector; one that refuses sheds the request: 429. One that fails
//! refuses nobody.

use std::fmt::Debug;

use crate::pool::Slot;
use crate::schedule::PickContext;

pub(in crate::schedule) mod probabilistic;

/// Refuses requests that may be refused.
pub trait Admitter: Debug + Send + Sync {
    /// Whether a request below priority 0 is refused that could go to these candidates.
    fn refuses(&self, cx: PickContext<'_>, candidates: &[Slot]) -> bool;

    /// The headers that it reads, in lower case.
    fn headers(&self) -> Vec<&str> {
        Vec::new()
    }
}

/// An admitter under its name in the configuration.
#[derive(Debug)]
pub struct AdmitterStep {
    /// Its name.
    pub name: Box<str>,
    /// The admitter.
    pub admitter: Box<dyn Admitter>,
}
