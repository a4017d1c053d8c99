//! The few fields of a node that matter; the rest of it is skipped while it is read.

use std::borrow::Cow;

use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Serialize};

/// A node.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Node {
    /// Its name.
    pub metadata: ObjectMeta,
    /// What is wanted of it.
    #[serde(default)]
    pub spec: NodeSpec,
}

/// What is wanted of a node.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct NodeSpec {
    /// It is cordoned.
    #[serde(default)]
    pub unschedulable: bool,
    /// What keeps pods away from it.
    #[serde(default)]
    pub taints: Vec<Taint>,
}

/// What keeps pods away from a node.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Taint {
    /// Its name.
    #[serde(default)]
    pub key: String,
}

impl Resource for Node {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Node".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "nodes".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
