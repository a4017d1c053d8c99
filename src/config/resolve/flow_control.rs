//! The `flowControl` of a configuration file, checked: nothing here queues requests yet.
//!
//! While the gate is off the reference does not look at the section, so that its mistakes are warnings then.

use std::collections::HashSet;

use crate::config::file::{Band, File, FlowControl};
use crate::config::problem::{Problem, Severity};
use crate::config::resolve::instances::Instances;
use crate::config::resolve::role::Role;

/// Policies that need no instance.
const DEFAULT_POLICIES: [&str; 3] =
    ["fcfs-ordering-policy", "global-strict-fairness-policy", "static-usage-limit-policy"];

/// The detector that needs no instance.
const DEFAULT_DETECTOR: &str = "utilization-detector";

/// Reports what is wrong with the section; `on` is its feature gate.
pub(super) fn check(file: &File, on: bool, instances: &Instances<'_>, problems: &mut Vec<Problem>) {
    detector(file, instances, problems);
    let Some(flow) = &file.flow_control else { return };
    if !on && queues(flow) {
        let problem = Problem::warning("flowControl", "has no effect: its feature gate is off");
        problems.push(problem.hint("featureGates: [flowControl]"));
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

/// The detector, which sheds sheddable requests even where nothing queues.
fn detector(file: &File, instances: &Instances<'_>, problems: &mut Vec<Problem>) {
    let new = file.flow_control.as_ref().and_then(|flow| flow.saturation_detector.as_ref());
    let old = file.saturation_detector.as_ref();
    if old.is_some() {
        let problem = Problem::warning("saturationDetector", "is deprecated");
        problems.push(problem.hint(if new.is_some() {
            "flowControl.saturationDetector stands over it, leave it out"
        } else {
            "write flowControl.saturationDetector"
        }));
    }
    let (path, reference) = match (new, old) {
        (Some(new), _) => ("flowControl.saturationDetector.pluginRef", new),
        (None, Some(old)) => ("saturationDetector.pluginRef", old),
        (None, None) => return,
    };
    let name = reference.plugin_ref.as_deref();
    if name == Some(DEFAULT_DETECTOR) && instances.named(DEFAULT_DETECTOR).is_none() {
        let message = format!("plugin type `{DEFAULT_DETECTOR}` is not supported yet");
        problems.push(Problem::error(path, message));
    } else {
        instances.referenced(name, path, Role::Detector, problems);
    }
}

fn bands(flow: &FlowControl, instances: &Instances<'_>, problems: &mut Vec<Problem>) {
    let mut seen = HashSet::new();
    for (at, band) in flow.priority_bands.iter() {
        let path = format!("flowControl.priorityBands[{at}]");
        match band.priority {
            None => problems.push(Problem::error(format!("{path}.priority"), "is missing")),
            Some(priority) if !seen.insert(priority) => {
                let message = format!("another band has priority {priority}");
                problems.push(Problem::error(format!("{path}.priority"), message));
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
        problems.push(Problem::error(path, format!("`{name}` is no {}", role.noun())));
    }
}
