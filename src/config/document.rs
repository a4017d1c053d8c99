//! A configuration written out: what `lodesman check` prints, and a configuration file itself.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::config::file;
use crate::config::limits::Limits;
use crate::config::resolve::Destinations;
use crate::flow;
use crate::pool::FailureMode;
use crate::scale::Aims;
use crate::units::{GoDuration, Quantity};

/// The document, with everything that a file may leave to defaults.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    pub(in crate::config) api_version: &'static str,
    pub(in crate::config) kind: &'static str,
    /// Instances: the listed ones in their order, then those that come by default.
    pub plugins: Vec<Instance>,
    /// Profiles, in their order.
    pub scheduling_profiles: Vec<Profile>,
    /// Admission.
    pub flow_control: FlowControl,
    /// Where endpoints and their signals come from.
    pub data_layer: DataLayer,
    /// How requests are read.
    pub request_handler: RequestHandler,
    /// Our own settings.
    pub lodesman: Own,
}

/// An instance of a plugin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Instance {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// All that it takes.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub parameters: Map<String, Value>,
}

/// A scheduling profile.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// In the order in which they run.
    pub plugins: Vec<Step>,
}

/// An instance in a profile.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Its name.
    pub plugin_ref: String,
    /// Of a scorer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f32>,
}

/// Points to an instance, or to a parser by its type.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reference {
    /// Its name.
    pub plugin_ref: String,
}

/// Admission.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowControl {
    /// What says how full the pool is.
    pub saturation_detector: Reference,
}

/// Where endpoints and their signals come from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DataLayer {
    /// Whether metrics pages are read though no source says so.
    pub inject_defaults: bool,
    /// The listed sources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
    /// The source of endpoints that stands in for Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discovery: Option<Reference>,
}

/// A source of signals with what reads it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// Name of an instance.
    pub plugin_ref: String,
    /// What reads it.
    pub extractors: Vec<Reference>,
}

/// How requests are read.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestHandler {
    /// In order.
    pub parsers: Vec<Reference>,
}

/// Our own settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Own {
    /// As it is spelled in the file.
    failure_mode: String,
    destination_list: Destinations,
    limits: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<Map<String, Value>>,
    autoscaling: Map<String, Value>,
}

impl Own {
    /// The limits are those of a process without a memory limit.
    pub(in crate::config) fn of(own: &file::Own) -> Self {
        let mode: FailureMode = own.failure_mode.unwrap_or_default();
        let limits = own.limits.limits(None);
        Self {
            failure_mode: format!("{mode:?}"),
            destination_list: own.destination_list,
            limits: written(&limits),
            hold: own.hold.map(|hold| holding(hold.resolved())),
            autoscaling: scaling(own.autoscaling.resolved()),
        }
    }
}

impl Reference {
    /// To `name`.
    pub fn to(name: impl Into<String>) -> Self {
        Self { plugin_ref: name.into() }
    }
}

fn holding(limits: flow::Limits) -> Map<String, Value> {
    let flow::Limits { max_wait, max_requests, max_bytes } = limits;
    let fields = [
        ("maxWait", Value::from(GoDuration(max_wait).to_string())),
        ("maxRequests", max_requests.into()),
        ("maxBytes", Quantity(max_bytes).to_string().into()),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn scaling(Aims { goal, lead }: Aims) -> Map<String, Value> {
    let time = |time| Value::from(GoDuration(time).to_string());
    let fields = [
        ("targetTtft", time(std::time::Duration::from_secs_f64(goal.ttft))),
        ("targetUtilization", goal.utilization.into()),
        ("lead", time(lead)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn written(limits: &Limits) -> Map<String, Value> {
    let Limits {
        max_request_body,
        body_budget,
        body_read_timeout,
        stream_idle_timeout,
        max_header_bytes,
        max_chunk_bytes,
        decision_deadline,
    } = limits;
    let size = |bytes: u64| Quantity(bytes).to_string();
    let time = |time| GoDuration(time).to_string();
    let texts = [
        ("maxRequestBody", size(*max_request_body)),
        ("bodyBudget", size(*body_budget)),
        ("bodyReadTimeout", time(*body_read_timeout)),
        ("streamIdleTimeout", time(stream_idle_timeout.unwrap_or_default())),
        ("maxHeaderBytes", size(*max_header_bytes)),
        ("maxChunkBytes", size(max_chunk_bytes.bytes() as u64)),
        ("decisionDeadline", time(*decision_deadline)),
    ];
    texts.into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect()
}
