//! InferenceModelRewrite.

use serde::{Deserialize, Serialize};

use super::PoolRef;

/// The spec of an InferenceModelRewrite.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RewriteSpec {
    /// The pool that it is for.
    pub pool_ref: PoolRef,
    /// In the order in which they count.
    #[serde(default)]
    pub rules: Vec<Rule>,
}

/// What to do with some requests.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Rule {
    /// Any of them; none means every request.
    #[serde(default)]
    pub matches: Vec<Match>,
    /// Models to ask for instead; the field was `split` before it was `targets`.
    #[serde(default, alias = "split")]
    pub targets: Vec<Target>,
}

/// A condition on a request.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Match {
    /// On its model; absent matches every model.
    pub model: Option<ModelMatch>,
}

/// A condition on a model's name.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ModelMatch {
    /// `Exact`; absent means that.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The name.
    pub value: String,
}

/// A model to ask for.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Its name.
    #[serde(default)]
    pub model_rewrite: String,
    /// Its share, 1 to 1,000,000; absent means 1.
    pub weight: Option<i32>,
}
