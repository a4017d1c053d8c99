//! The configuration file as it is written: the reference's `EndpointPickerConfig`, and our own settings under
//! `lodesman`.
//!
//! Only serde; every field may be absent, and what it then means is decided in [`resolve`](crate::config::resolve).

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::config::limits::LimitSettings;
use crate::config::problem::Problem;
use crate::config::reader::{Readable, or_default};
use crate::config::resolve::Destinations;
use crate::director::FailureMode;

const GROUP_VERSION: &str = "llm-d.ai/v1alpha1";
const OLD_GROUP_VERSION: &str = "inference.networking.x-k8s.io/v1alpha1";
const KIND: &str = "EndpointPickerConfig";

/// The document.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct File {
    /// `llm-d.ai/v1alpha1`.
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
    pub flow_control: Option<IgnoredAny>,
    /// Deprecated form of `flowControl.saturationDetector`.
    pub saturation_detector: Option<IgnoredAny>,
    /// Our own settings.
    #[serde(deserialize_with = "or_default")]
    pub lodesman: Own,
}

/// An instance of a plugin.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PluginSpec {
    /// Unique; the type when absent.
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
    pub weight: Option<f64>,
}

/// Where endpoints and their signals come from.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DataLayer {
    /// Whether the default sources are added.
    pub inject_defaults: Option<bool>,
    /// Where signals come from.
    pub sources: Readable<SourceSpec>,
    /// The source of endpoints that stands in for Kubernetes.
    pub discovery: Option<Reference>,
    /// The source of sibling replicas.
    pub peer_discovery: Option<IgnoredAny>,
    /// What is told to sibling replicas.
    pub cross_replica_syncer_plugin_ref: Option<IgnoredAny>,
    /// How often.
    pub cross_replica_sync_interval: Option<IgnoredAny>,
}

/// A source of signals, with what reads it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SourceSpec {
    /// Name of an instance; required.
    pub plugin_ref: Option<String>,
    /// Instances that read it.
    pub extractors: Readable<Reference>,
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
}

impl File {
    /// What is wrong with the document's version and kind.
    pub fn header_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        match self.api_version.as_deref() {
            Some(GROUP_VERSION) => (),
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

fn wrong(path: &str, given: Option<&str>, want: &str) -> Problem {
    let message =
        given.map_or_else(|| "is missing".to_owned(), |given| format!("`{given}` is unknown"));
    Problem::error(path, message).hint(format!("write {want}"))
}
