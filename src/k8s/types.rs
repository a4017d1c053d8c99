//! The objects that we read, in every group and version that is served somewhere.
//!
//! They are read leniently: fields that came later are absent, an unknown value of an enum is kept as it is, a field that
//! is not ours is skipped. What a value means is found where they are converted.

use kube::core::Object;
use kube::discovery::ApiResource;
use serde::{Deserialize, Serialize};

pub use self::model::ModelSpec;
pub use self::node::Node;
pub use self::objective::ObjectiveSpec;
pub use self::pod::{Pod, PodStatus};
pub use self::pool::{LegacyPoolSpec, PoolSpec};
pub use self::rewrite::RewriteSpec;

pub mod model;
pub mod node;
pub mod objective;
pub mod pod;
pub mod pool;
pub mod rewrite;

/// The group of the stable InferencePool.
pub const GROUP: &str = "inference.networking.k8s.io";

/// The group of what came before, and of objectives and rewrites up to 2026.
pub const LEGACY_GROUP: &str = "inference.networking.x-k8s.io";

/// The group of objectives and rewrites today.
pub const LLM_D_GROUP: &str = "llm-d.ai";

/// InferencePool v1.
pub type Pool = Object<PoolSpec, Ignored>;

/// InferencePool v1alpha2.
pub type LegacyPool = Object<LegacyPoolSpec, Ignored>;

/// InferenceObjective v1alpha2 of either group.
pub type Objective = Object<ObjectiveSpec, Status>;

/// InferenceModelRewrite v1alpha2 of either group.
pub type Rewrite = Object<RewriteSpec, Status>;

/// InferenceModel v1alpha2.
pub type Model = Object<ModelSpec, Status>;

/// A status that is for others.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Ignored {}

/// The status of an objective, a rewrite or a model.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Status {
    /// By type; other controllers may have their own.
    #[serde(default)]
    pub conditions: Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>,
}

/// The pool that an object is for, in the object's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PoolRef {
    /// Absent where the API server fills in no default: any.
    #[serde(default)]
    pub group: Option<String>,
    /// Absent means `InferencePool`.
    #[serde(default)]
    pub kind: Option<String>,
    /// The pool's name.
    pub name: String,
}

/// How a kind of objects is asked for.
pub fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: format!("{group}/{version}"),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}
