//! The few fields of a pod that matter; the rest of it is skipped while it is read.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Serialize};

/// A pod.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Pod {
    /// Name, labels, annotations, deletion.
    pub metadata: ObjectMeta,
    /// Where it runs.
    #[serde(default)]
    pub spec: PodSpec,
    /// How it is.
    #[serde(default)]
    pub status: PodStatus,
}

/// What is wanted of a pod.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    /// The node that it runs on; absent until it has one.
    pub node_name: Option<String>,
}

/// The status of a pod.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: Option<String>,
    /// Its primary address.
    #[serde(rename = "podIP")]
    pub pod_ip: Option<String>,
    /// All its addresses, the primary one first.
    #[serde(default, rename = "podIPs")]
    pub pod_ips: Vec<PodIp>,
    /// `Ready` and others.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// An address of a pod.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct PodIp {
    /// IPv4 or IPv6.
    #[serde(default)]
    pub ip: String,
}

/// A condition of a pod.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Condition {
    /// Its name.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
}

impl Pod {
    /// Whether the condition of this name holds.
    pub fn has(&self, kind: &str) -> bool {
        let holds = |condition: &Condition| condition.kind == kind && condition.status == "True";
        self.status.conditions.iter().any(holds)
    }
}

impl Resource for Pod {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Pod".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "pods".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
