//! From the names of a configuration file to what they name: defaults, references, parts.
//!
//! Pure, and complete: one pass over the whole file collects every problem.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::document::Document;
use crate::config::file::{File, Reference};
use crate::config::hold::HoldSettings;
use crate::config::limits::LimitSettings;
use crate::config::problem::{Problem, Severity};
use crate::config::sources::Sources;
use crate::flow;
use crate::pool::FailureMode;
use crate::prefix::Settings;
use crate::request::Parsers;
use crate::scale::Aims;
use crate::schedule::facts::Facts;
use crate::schedule::registry::{Build, Plugin};
use crate::schedule::{AdmitterStep, DetectorStep, Profiles};

use self::gates::Gates;
use self::instances::{Instance, Instances, Kind};
use self::role::Role;
use self::written::Parts;

#[cfg(test)]
pub(in crate::config) use self::deprecated::{ALIASES, instead_of};
#[cfg(test)]
pub(in crate::config) use self::reference::NOT_YET;

mod attributes;
mod data_layer;
mod deprecated;
mod facts;
mod flow_control;
mod gates;
mod handler;
mod in_flight;
mod instances;
mod parsers;
mod prefix;
mod profile;
mod reference;
mod role;
mod session;
mod signals;
mod written;

/// A configuration as parts.
#[derive(Debug)]
pub struct Resolved {
    /// How an endpoint is chosen.
    pub profiles: Profiles,
    /// How full the pool is, by which requests below priority 0 are refused.
    pub detector: DetectorStep,
    /// Which requests below priority 0 are refused as well.
    pub admitters: Vec<AdmitterStep>,
    /// What is found out about requests.
    pub facts: Facts,
    /// The prefix index that the profile asks for; none when it asks for none.
    pub prefix: Option<Settings>,
    /// Which requests are read.
    pub parsers: Parsers,
    /// The file that endpoints come from instead of Kubernetes.
    pub discovery: Option<FileDiscovery>,
    /// Where signals come from.
    pub sources: Sources,
    /// What a fault of ours means; none leaves it to the pool.
    pub failure_mode: Option<FailureMode>,
    /// Whether answers tell which endpoint has served them.
    pub report_served: bool,
    /// How many destinations are told to the gateway.
    pub destinations: Destinations,
    /// What a request may cost, as far as it is set.
    pub limits: LimitSettings,
    /// What is held of requests while the pool has no endpoint; none for nothing.
    pub hold: Option<flow::Limits>,
    /// What autoscalers are told by.
    pub autoscaling: Aims,
    /// The configuration written out, with all that it left to defaults.
    pub document: Document,
    /// What has no effect, though it was written.
    pub warnings: Vec<Problem>,
}

/// How many destinations are told to the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Destinations {
    /// The best one.
    #[default]
    Single,
    /// All that the picker chose, best first.
    Multi,
}

/// A file that endpoints come from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct FileDiscovery {
    /// Where it is.
    pub path: PathBuf,
    /// Whether changes are followed; false when absent.
    #[serde(default, rename = "watchFile")]
    pub watch: bool,
}

/// Resolves `file` with the plugins of `tables`.
///
/// # Errors
/// When there is an error among the problems: all of them, without lines.
pub fn resolve(file: &File, tables: &[&'static [Plugin]]) -> Result<Resolved, Vec<Problem>> {
    let mut problems = Vec::new();
    let gates = Gates::of(&file.feature_gates, &mut problems);
    let instances = Instances::of(&file.plugins, tables, &mut problems);
    let profiles = profile::resolve(file, &instances, tables, &mut problems);
    let prefix = profiles
        .as_ref()
        .and_then(|profiles| prefix::resolve(profiles, &instances, tables, &mut problems));
    let parsers = parsers::resolve(file, &instances, tables, &mut problems);
    let data = data_layer::resolve(&file.data_layer, &instances, &mut problems);
    let detector = flow_control::resolve(file, &instances, tables, &mut problems);
    in_flight::check(&instances, &mut problems);
    attributes::check(&instances, &data.sources.engines, &mut problems);
    let facts = facts::resolve(&instances, &mut problems);
    signals::check_staleness(&instances, &data.sources, &mut problems);
    session::check(file, &instances, &mut problems);
    flow_control::check(file, gates.flow_control, &instances, &mut problems);
    unused(file, &instances, &parsers, &mut problems);
    match (profiles, detector) {
        (Some(profiles), Some(detector))
            if problems.iter().all(|problem| problem.severity == Severity::Warning) =>
        {
            Ok(Resolved {
                parsers: parsers::set(&parsers),
                document: Parts {
                    profiles: &profiles,
                    detector: &detector.name,
                    prefix: prefix.as_ref(),
                    parsers: &parsers,
                }
                .written(file, &instances),
                report_served: instances.iter().any(verifies),
                profiles,
                detector,
                admitters: facts::admitters(&instances),
                facts,
                prefix,
                discovery: data.discovery,
                sources: data.sources,
                failure_mode: file.lodesman.failure_mode,
                destinations: file.lodesman.destination_list,
                limits: file.lodesman.limits,
                hold: file.lodesman.hold.map(HoldSettings::resolved),
                autoscaling: file.lodesman.autoscaling.resolved(),
                warnings: problems,
            })
        }
        _ => Err(problems),
    }
}

/// Whether an instance has answers tell who has served them.
fn verifies(instance: &Instance<'_>) -> bool {
    matches!(instance.kind, Kind::Known(Plugin { build: Build::ServedVerifier, .. }))
}

/// Instances outside profiles that nothing refers to.
fn unused(file: &File, instances: &Instances<'_>, parsers: &[&str], problems: &mut Vec<Problem>) {
    let discovery = file.data_layer.discovery.as_ref();
    for instance in instances.iter() {
        let section = if instance.plays(Role::Parser) && !parsers.contains(&instance.type_name()) {
            "requestHandler.parsers"
        } else if instance.plays(Role::Discovery) && !names(discovery, instance.name) {
            "dataLayer.discovery"
        } else {
            continue;
        };
        if matches!(instance.kind, Kind::Known(_) | Kind::Discovery) {
            let message = format!("`{}` has no effect: it is not in {section}", instance.name);
            let problem = Problem::warning(format!("plugins[{}]", instance.at), message);
            problems.push(problem.hint("name it there, or leave it out"));
        }
    }
}

fn names(reference: Option<&Reference>, name: &str) -> bool {
    reference.and_then(|reference| reference.plugin_ref.as_deref()) == Some(name)
}
