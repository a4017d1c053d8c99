//! InferencePool.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The spec of an InferencePool v1.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PoolSpec {
    /// Which pods are its members.
    pub selector: Selector,
    /// One endpoint of a pod for each, 1 to 8.
    pub target_ports: Vec<Port>,
    /// `http` or `kubernetes.io/h2c`; absent means `http`.
    pub app_protocol: Option<String>,
    /// The picker; absent means that the pool has none.
    pub endpoint_picker_ref: Option<PickerRef>,
}

/// Labels that a member has.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Selector {
    /// All of them, each with this value. The API server does not check the keys.
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
}

/// A port.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Port {
    /// 1 to 65535.
    pub number: i32,
}

/// Where the pool's picker is.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PickerRef {
    /// The name of its Service.
    pub name: String,
    /// `FailOpen` or `FailClose`; absent means `FailClose`.
    pub failure_mode: Option<String>,
}

/// The spec of an InferencePool v1alpha2.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LegacyPoolSpec {
    /// Labels that a member has, each with this value.
    #[serde(default)]
    pub selector: BTreeMap<String, String>,
    /// The only port.
    pub target_port_number: i32,
    /// Where the pool's picker is.
    pub extension_ref: Option<PickerRef>,
}
