//! The `flowControl` of a configuration file: its saturation detector, and all else checked, as nothing queues requests
//! yet.
//!
//! While the gate is off the reference does not look at the section, so that its mistakes are warnings then.

use std::collections::HashSet;

use crate::config::file::{Band, File, FlowControl, Reference};
use crate::config::problem::{Problem, Severity};
use crate::config::resolve::instances::{Instance, Instances, Kind, missing};
use crate::config::resolve::role::Role;
use crate::schedule::DetectorStep;
use crate::schedule::registry::{Build, Parameters, Plugin, find};

/// Policies that need no instance.
const DEFAULT_POLICIES: [&str; 3] =
    ["fcfs-ordering-policy", "global-strict-fairness-policy", "static-usage-limit-policy"];

/// The detector that needs no instance.
const DEFAULT_DETECTOR: &str = "utilization-detector";

/// The name of the file's detector, whether there is one of it or not.
pub(super) fn detector(file: &File) -> &str {
    let name = reference(file).and_then(|(_, reference)| reference.plugin_ref.as_deref());
    name.unwrap_or(DEFAULT_DETECTOR)
}

/// The detector, which sheds sheddable requests even where nothing queues; none when it has a problem.
pub(super) fn resolve(
    file: &File,
    instances: &Instances<'_>,
    tables: &[&'static [Plugin]],
    problems: &mut Vec<Problem>,
) -> Option<DetectorStep> {
    let (new, old) = (new(file), file.saturation_detector.as_ref());
    if old.is_some() {
        let problem = Problem::warning("saturationDetector", "is deprecated");
        problems.push(problem.hint(if new.is_some() {
            "flowControl.saturationDetector stands over it, leave it out"
        } else {
            "write flowControl.saturationDetector"
        }));
    }
    let (path, name) = match reference(file) {
        Some((path, reference)) => (path, reference.plugin_ref.as_deref()),
        None => ("flowControl.saturationDetector.pluginRef", Some(DEFAULT_DETECTOR)),
    };
    if name == Some(DEFAULT_DETECTOR) && instances.named(DEFAULT_DETECTOR).is_none() {
        let default = find(tables, DEFAULT_DETECTOR);
        let default = default.and_then(|plugin| built(DEFAULT_DETECTOR, plugin, Parameters::Null));
        if default.is_none() {
            problems.push(Problem::error("", format!("this build has no `{DEFAULT_DETECTOR}`")));
        }
        return default;
    }
    let instance = instances.referenced(name, path, Role::Detector, problems)?;
    let Instance { name, kind: Kind::Known(plugin), parameters, .. } = instance else {
        return None;
    };
    built(name, plugin, parameters.clone())
}

/// Where the file names its detector.
fn reference(file: &File) -> Option<(&'static str, &Reference)> {
    let new = new(file).map(|new| ("flowControl.saturationDetector.pluginRef", new));
    let old = || Some(("saturationDetector.pluginRef", file.saturation_detector.as_ref()?));
    new.or_else(old)
}

fn new(file: &File) -> Option<&Reference> {
    file.flow_control.as_ref()?.saturation_detector.as_ref()
}

fn built(name: &str, plugin: &Plugin, raw: Parameters) -> Option<DetectorStep> {
    let Build::Detector(build, _) = plugin.build else { return None };
    Some(DetectorStep { name: name.into(), detector: build(raw).ok()? })
}

/// Reports what is wrong with the rest of the section; `on` is its feature gate.
pub(super) fn check(file: &File, on: bool, instances: &Instances<'_>, problems: &mut Vec<Problem>) {
    let Some(flow) = &file.flow_control else { return };
    if !on && queues(flow) {
        let problem = Problem::warning("flowControl", "has no effect: its feature gate is off");
        problems.push(problem.hint("leave it out: queues are not supported yet"));
    }
    let mut found = Vec::new();
    bands(flow, instances, &mut found);
    let limit = flow.usage_limit_policy_plugin_ref.as_deref();
    policy("flowControl.usageLimitPolicyPluginRef", limit, Role::UsageLimit, instances, &mut found);
    let severity = if on { Severity::Error } else { Severity::Warning };
    problems.extend(found.into_iter().map(|problem| Problem { severity, ..problem }));
}

/// Whether the section says anything of queues, not of saturation alone.
fn queues(flow: &FlowControl) -> bool {
    let FlowControl {
        max_bytes,
        max_requests,
        default_request_ttl,
        no_endpoint_request_ttl,
        default_priority_band,
        default_negative_priority_band,
        priority_bands,
        usage_limit_policy_plugin_ref,
        saturation_detector: _,
        enable_eviction,
    } = flow;
    max_bytes.is_some()
        || max_requests.is_some()
        || default_request_ttl.is_some()
        || no_endpoint_request_ttl.is_some()
        || default_priority_band.is_some()
        || default_negative_priority_band.is_some()
        || !priority_bands.is_empty()
        || usage_limit_policy_plugin_ref.is_some()
        || enable_eviction.is_some()
}

fn bands(flow: &FlowControl, instances: &Instances<'_>, problems: &mut Vec<Problem>) {
    let mut seen = HashSet::new();
    for (at, band) in flow.priority_bands.iter() {
        let path = format!("flowControl.priorityBands[{at}]");
        match band.priority {
            None => problems.push(missing(format!("{path}.priority"), "give a whole number")),
            Some(priority) if !seen.insert(priority) => {
                let message = format!("another band has priority {priority}");
                let problem = Problem::error(format!("{path}.priority"), message);
                problems.push(problem.hint("give one of them another"));
            }
            Some(_) => (),
        }
        policies(&path, band, instances, problems);
    }
    let defaults = [
        ("flowControl.defaultPriorityBand", &flow.default_priority_band),
        ("flowControl.defaultNegativePriorityBand", &flow.default_negative_priority_band),
    ];
    for (path, band) in defaults {
        if let Some(band) = band {
            policies(path, band, instances, problems);
        }
    }
}

fn policies(path: &str, band: &Band, instances: &Instances<'_>, problems: &mut Vec<Problem>) {
    let (fairness, ordering) =
        (band.fairness_policy_ref.as_deref(), band.ordering_policy_ref.as_deref());
    policy(&format!("{path}.fairnessPolicyRef"), fairness, Role::Fairness, instances, problems);
    policy(&format!("{path}.orderingPolicyRef"), ordering, Role::Ordering, instances, problems);
}

/// A reference that may be absent, or name a default policy that is no instance.
fn policy(
    path: &str,
    name: Option<&str>,
    role: Role,
    instances: &Instances<'_>,
    problems: &mut Vec<Problem>,
) {
    let Some(name) = name else { return };
    if instances.named(name).is_some() || !DEFAULT_POLICIES.contains(&name) {
        instances.referenced(Some(name), path, role, problems);
    } else if !role.has(name) {
        let problem = Problem::error(path, format!("`{name}` is no {}", role.noun()));
        problems.push(problem.hint(format!("name a {}", role.noun())));
    }
}
