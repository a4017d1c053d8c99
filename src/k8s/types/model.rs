//! InferenceModel, which came before objectives and rewrites.

use serde::{Deserialize, Serialize};

use super::PoolRef;

/// The spec of an InferenceModel v1alpha2.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ModelSpec {
    /// The model that clients name.
    pub model_name: String,
    /// `Critical`, `Standard` or `Sheddable`; absent means `Standard`.
    pub criticality: Option<String>,
    /// Models to ask for; none means the model that the client names.
    #[serde(default)]
    pub target_models: Vec<TargetModel>,
    /// The pool that it is for.
    pub pool_ref: PoolRef,
}

/// A model to ask for.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TargetModel {
    /// Its name.
    pub name: String,
    /// Its share, 1 to 1,000,000; on all targets or on none.
    pub weight: Option<i32>,
}
