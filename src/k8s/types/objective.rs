//! InferenceObjective.

use serde::{Deserialize, Serialize};

use super::PoolRef;

/// The spec of an InferenceObjective.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectiveSpec {
    /// Higher is more urgent, below 0 is sheddable; absent means 0.
    pub priority: Option<i32>,
    /// The pool that it is for.
    pub pool_ref: PoolRef,
}
