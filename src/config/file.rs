//! The configuration file as it is written: the reference's `EndpointPickerConfig`, and our own settings under
//! `lodesman`.
//!
//! Only serde; every field may be absent, and what it then means is decided in [`resolve`](crate::config::resolve).

use serde::Deserialize;
use serde_json::Value;

use crate::config::autoscaling::AutoscalingSettings;
use crate::config::hold::HoldSettings;
use crate::config::limits::LimitSettings;
use crate::config::problem::Problem;
use crate::config::reader::{Readable, or_default};
use crate::config::resolve::Destinations;
use crate::config::tree::{self, Node};
use crate::pool::FailureMode;
use crate::units::{GoDuration, Quantity};

/// The version that is written, and read.
pub(in crate::config) const GROUP_VERSION: &str = "llm-d.ai/v1alpha1";
/// Another name of the same format.
const NEW_GROUP_VERSION: &str = "llm-d.ai/v1";
const OLD_GROUP_VERSION: &str = "inference.networking.x-k8s.io/v1alpha1";
/// The kind of the document.
pub(in crate::config) const KIND: &str = "EndpointPickerConfig";

/// The document.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct File {
    /// `llm-d.ai/v1alpha1` or `llm-d.ai/v1`, which are one format.
    #[serde(deserialize_with = "or_default")]
    pub api_version: Option<String>,
    /// `EndpointPickerConfig`.
    #[serde(deserialize_with = "or_default")]
    pub kind: Option<String>,
    /// `name`, `name=true` or `name=false`.
    pub feature_gates: Readable<String>,
    /// Instances.
    pub plugins: Readable<PluginSpec>,
    /// Which instances decide.
    pub scheduling_profiles: Readable<ProfileSpec>,
    /// Where endpoints and their signals come from.
    #[serde(deserialize_with = "or_default")]
    pub data_layer: DataLayer,
    /// How requests are read.
    #[serde(deserialize_with = "or_default")]
    pub request_handler: RequestHandler,
    /// Deprecated form of `requestHandler.parsers`.
    #[serde(deserialize_with = "or_default")]
    pub parser: Option<Reference>,
    /// Admission.
    #[serde(deserialize_with = "or_default")]
    pub flow_control: Option<FlowControl>,
    /// Deprecated form of `flowControl.saturationDetector`.
    #[serde(deserialize_with = "or_default")]
    pub saturation_detector: Option<Reference>,
    /// Our own settings.
    #[serde(deserialize_with = "or_default")]
    pub lodesman: Own,
}

/// An instance of a plugin.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PluginSpec {
    /// Unique; the type when absent.
    #[serde(deserialize_with = "or_default")]
    pub name: Option<String>,
    /// Which plugin; required.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// What the plugin takes.
    pub parameters: Value,
}

/// A scheduling profile.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ProfileSpec {
    /// Unique; required.
    pub name: Option<String>,
    /// In the order in which they run.
    pub plugins: Readable<Step>,
}

/// An instance in a profile.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Step {
    /// Name of an instance; required.
    pub plugin_ref: Option<String>,
    /// Of a scorer; 1.0 when absent.
    #[serde(deserialize_with = "or_default")]
    pub weight: Option<f64>,
}

/// Where endpoints and their signals come from.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DataLayer {
    /// Whether metrics pages are read though no source says so; true when absent.
    #[serde(deserialize_with = "or_default")]
    pub inject_defaults: Option<bool>,
    /// Where signals come from.
    pub sources: Readable<SourceSpec>,
    /// The source of endpoints that stands in for Kubernetes.
    #[serde(deserialize_with = "or_default")]
    pub discovery: Option<Reference>,
    /// The source of sibling replicas.
    #[serde(deserialize_with = "or_default")]
    pub peer_discovery: Option<Reference>,
    /// Name of the instance that tells sibling replicas.
    #[serde(deserialize_with = "or_default")]
    pub cross_replica_syncer_plugin_ref: Option<String>,
    /// How often it does; 200 ms when absent.
    #[serde(deserialize_with = "or_default")]
    pub cross_replica_sync_interval: Option<GoDuration>,
}

/// A source of signals with what reads it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SourceSpec {
    /// Name of an instance; required.
    pub plugin_ref: Option<String>,
    /// What reads it.
    pub extractors: Readable<Reference>,
}

/// Admission: queues by priority and flow.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FlowControl {
    /// Bytes that wait over all bands; 0 or absent is no limit.
    #[serde(deserialize_with = "or_default")]
    pub max_bytes: Option<Quantity>,
    /// Requests that wait over all bands; 0 or absent is no limit.
    #[serde(deserialize_with = "or_default")]
    pub max_requests: Option<Quantity>,
    /// Longest wait; 60 s when absent, 0 is no limit.
    #[serde(rename = "defaultRequestTTL", deserialize_with = "or_default")]
    pub default_request_ttl: Option<GoDuration>,
    /// Longest wait while there is no endpoint; as the above when absent, 0 is no limit.
    #[serde(rename = "noEndpointRequestTTL", deserialize_with = "or_default")]
    pub no_endpoint_request_ttl: Option<GoDuration>,
    /// What a priority without a band gets.
    #[serde(deserialize_with = "or_default")]
    pub default_priority_band: Option<Band>,
    /// What a negative priority without a band gets.
    #[serde(deserialize_with = "or_default")]
    pub default_negative_priority_band: Option<Band>,
    /// One for each priority.
    pub priority_bands: Readable<Band>,
    /// Name of the policy that says how far each band may fill the pool.
    #[serde(deserialize_with = "or_default")]
    pub usage_limit_policy_plugin_ref: Option<String>,
    /// What says how full the pool is, by which requests below priority 0 are refused; the instance or the type
    /// `utilization-detector` when absent.
    #[serde(deserialize_with = "or_default")]
    pub saturation_detector: Option<Reference>,
    /// Whether running requests may be ended for more important ones.
    #[serde(deserialize_with = "or_default")]
    pub enable_eviction: Option<bool>,
}

/// A priority level.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Band {
    /// Required and unique among the bands.
    #[serde(deserialize_with = "or_default")]
    pub priority: Option<i64>,
    /// Bytes that wait; 1 GB when absent or 0.
    #[serde(deserialize_with = "or_default")]
    pub max_bytes: Option<Quantity>,
    /// Requests that wait; 5000 when absent or 0.
    #[serde(deserialize_with = "or_default")]
    pub max_requests: Option<Quantity>,
    /// Name of the policy between flows.
    #[serde(deserialize_with = "or_default")]
    pub fairness_policy_ref: Option<String>,
    /// Name of the policy within a flow.
    #[serde(deserialize_with = "or_default")]
    pub ordering_policy_ref: Option<String>,
}

/// How requests are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RequestHandler {
    /// Tried in order.
    pub parsers: Readable<Reference>,
}

/// Points to an instance.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Reference {
    /// Name of an instance; required.
    pub plugin_ref: Option<String>,
}

/// Settings that the reference does not have.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Own {
    /// What a fault of ours means; a flag stands over it.
    #[serde(deserialize_with = "or_default")]
    pub failure_mode: Option<FailureMode>,
    /// How many destinations are told to the gateway.
    #[serde(deserialize_with = "or_default")]
    pub destination_list: Destinations,
    /// What a request may cost; flags stand over it.
    #[serde(deserialize_with = "or_default")]
    pub limits: LimitSettings,
    /// What is held of requests while the pool has no endpoint; nothing when absent.
    #[serde(deserialize_with = "or_default")]
    pub hold: Option<HoldSettings>,
    /// What autoscalers are told by.
    #[serde(deserialize_with = "or_default")]
    pub autoscaling: AutoscalingSettings,
}

impl File {
    /// What is wrong with the document's version and kind.
    pub fn header_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        match self.api_version.as_deref() {
            Some(GROUP_VERSION | NEW_GROUP_VERSION) => (),
            Some(OLD_GROUP_VERSION) => {
                let problem =
                    Problem::warning("apiVersion", format!("`{OLD_GROUP_VERSION}` is deprecated"));
                problems.push(problem.hint(format!("write {GROUP_VERSION}")));
            }
            given => problems.push(wrong("apiVersion", given, GROUP_VERSION)),
        }
        if self.kind.as_deref() != Some(KIND) {
            problems.push(wrong("kind", self.kind.as_deref(), KIND));
        }
        problems
    }
}

/// What is wrong with a document that is the manifest around one: its fields are then no mistakes of a configuration.
pub(in crate::config) fn foreign(tree: &Node) -> Option<Problem> {
    let tree::Value::Map(members) = &tree.value else { return None };
    let (_, kind) = members.iter().find(|(name, _)| name == "kind")?;
    if kind.value != tree::Value::Text("ConfigMap".to_owned()) {
        return None;
    }
    let problem = Problem::error("kind", "this is a ConfigMap, not a configuration");
    Some(Problem { line: Some(kind.line), ..problem.hint("give the text under its data") })
}

fn wrong(path: &str, given: Option<&str>, want: &str) -> Problem {
    let message =
        given.map_or_else(|| "is missing".to_owned(), |given| format!("`{given}` is unknown"));
    Problem::error(path, message).hint(format!("write {want}"))
}
