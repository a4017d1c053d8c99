//! From the names of a configuration file to what they name: defaults, references, parts.
//!
//! Pure, and complete: one pass over the whole file collects every problem.

use std::path::PathBuf;

use serde::Deserialize;

use crate::config::file::{File, Reference};
use crate::config::limits::LimitSettings;
use crate::config::problem::{Problem, Severity};
use crate::config::reader::Readable;
use crate::config::sources::Sources;
use crate::director::FailureMode;
use crate::prefix::Settings;
use crate::request::Parsers;
use crate::schedule::Profile;
use crate::schedule::registry::{Build, Plugin, find};

use self::instances::{Instances, Kind};

mod instances;
mod prefix;
mod profile;
mod reference;
mod signals;

/// The parsers of a configuration that names none, as in the reference.
const DEFAULT_PARSERS: [&str; 4] =
    ["openai-parser", "anthropic-parser", "vllmhttp-parser", "passthrough-parser"];

/// Feature gates that exist; the second value says whether the gate can be on.
const GATES: [(&str, bool); 2] = [("flowControl", false), ("haPopulateNonLeaderDatastore", true)];

/// A configuration as parts.
#[derive(Debug)]
pub struct Resolved {
    /// How an endpoint is chosen.
    pub profile: Profile,
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
    /// How many destinations are told to the gateway.
    pub destinations: Destinations,
    /// What a request may cost, as far as it is set.
    pub limits: LimitSettings,
    /// What has no effect, though it was written.
    pub warnings: Vec<Problem>,
}

/// How many destinations are told to the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
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
    unsupported(file, &mut problems);
    gates(&file.feature_gates, &mut problems);
    let instances = Instances::of(&file.plugins, tables, &mut problems);
    let profile = profile::resolve(file, &instances, tables, &mut problems);
    let prefix = profile
        .as_ref()
        .and_then(|profile| prefix::resolve(profile, &instances, tables, &mut problems));
    let parsers = parsers(file, &instances, tables, &mut problems);
    let sources = signals::resolve(&file.data_layer, &instances, &mut problems);
    let discovery = discovery(file.data_layer.discovery.as_ref(), &instances, &mut problems);
    match profile {
        Some(profile) if problems.iter().all(|problem| problem.severity == Severity::Warning) => {
            Ok(Resolved {
                profile,
                prefix,
                parsers,
                discovery,
                sources,
                failure_mode: file.lodesman.failure_mode,
                destinations: file.lodesman.destination_list,
                limits: file.lodesman.limits,
                warnings: problems,
            })
        }
        _ => Err(problems),
    }
}

/// Sections that the reference has and nothing here reads: an error, since ignoring them would change the policy.
fn unsupported(file: &File, problems: &mut Vec<Problem>) {
    let data = &file.data_layer;
    let sections = [
        ("flowControl", file.flow_control.is_some()),
        ("saturationDetector", file.saturation_detector.is_some()),
        ("dataLayer.peerDiscovery", data.peer_discovery.is_some()),
        ("dataLayer.crossReplicaSyncerPluginRef", data.cross_replica_syncer_plugin_ref.is_some()),
        ("dataLayer.crossReplicaSyncInterval", data.cross_replica_sync_interval.is_some()),
    ];
    let given = sections.into_iter().filter(|(_, given)| *given);
    problems.extend(given.map(|(path, _)| Problem::error(path, "is not supported yet")));
}

fn gates(gates: &Readable<String>, problems: &mut Vec<Problem>) {
    for (at, gate) in gates.iter() {
        let path = format!("featureGates[{at}]");
        let (name, value) = gate.split_once('=').unwrap_or((gate, "true"));
        let value = value.trim().to_ascii_lowercase();
        match (GATES.iter().find(|(known, _)| *known == name.trim()), value.as_str()) {
            (None, _) => {
                let problem =
                    Problem::error(path, format!("unknown feature gate `{}`", name.trim()));
                problems.push(problem.nearest(name, GATES.iter().map(|(known, _)| *known)));
            }
            (Some((_, false)), "true" | "t" | "1") => {
                problems.push(Problem::error(
                    path,
                    format!("feature gate `{name}` is not supported yet"),
                ));
            }
            (Some(_), "true" | "t" | "1" | "false" | "f" | "0") => (),
            (Some(_), value) => {
                problems.push(Problem::error(path, format!("`{value}` is neither true nor false")));
            }
        }
    }
}

/// The configured parsers; each reference is an instance's name or a type.
fn parsers(
    file: &File,
    instances: &Instances<'_>,
    tables: &[&'static [Plugin]],
    problems: &mut Vec<Problem>,
) -> Parsers {
    let new = &file.request_handler.parsers;
    if let (Some(_), false) = (&file.parser, new.is_empty()) {
        problems.push(Problem::warning("parser", "has no effect beside requestHandler.parsers"));
    } else if file.parser.is_some() {
        let problem = Problem::warning("parser", "is deprecated");
        problems.push(problem.hint("write requestHandler.parsers"));
    }
    let path = |at| format!("requestHandler.parsers[{at}].pluginRef");
    let mut references: Vec<_> = new.iter().map(|(at, parser)| (path(at), parser)).collect();
    if references.is_empty() {
        references.extend(file.parser.iter().map(|parser| ("parser.pluginRef".to_owned(), parser)));
    }
    let mut names: Vec<_> = references
        .into_iter()
        .filter_map(|(path, reference)| parser(path, reference, instances, tables, problems))
        .collect();
    if names.is_empty() {
        names.extend(DEFAULT_PARSERS);
    }
    names.into_iter().filter_map(Parsers::named).reduce(|all, one| all | one).unwrap_or_default()
}

/// The type of the parser that `reference` means.
fn parser<'a>(
    path: String,
    reference: &'a Reference,
    instances: &Instances<'a>,
    tables: &[&'static [Plugin]],
    problems: &mut Vec<Problem>,
) -> Option<&'a str> {
    let Some(name) = reference.plugin_ref.as_deref() else {
        problems.push(Problem::error(path, "is missing"));
        return None;
    };
    let instance = instances.named(name).map(|instance| (instance.type_name(), instance.kind));
    let by_type = || find(tables, name).map(|plugin| (plugin.name, Kind::Known(plugin)));
    match instance.or_else(by_type) {
        Some((type_name, Kind::Known(Plugin { build: Build::Parser, .. }))) => Some(type_name),
        Some(_) => {
            problems.push(Problem::error(path, format!("`{name}` is no parser")));
            None
        }
        None => {
            let mut known: Vec<&str> = instances.names().collect();
            instances::names(tables).for_each(|name| known.push(name));
            problems.push(
                Problem::error(path, format!("unknown parser `{name}`")).nearest(name, known),
            );
            None
        }
    }
}

fn discovery(
    reference: Option<&Reference>,
    instances: &Instances<'_>,
    problems: &mut Vec<Problem>,
) -> Option<FileDiscovery> {
    let path = "dataLayer.discovery.pluginRef";
    let Some(name) = reference?.plugin_ref.as_deref() else {
        problems.push(Problem::error(path, "is missing"));
        return None;
    };
    let Some(instance) = instances.named(name) else {
        problems.push(instances.undefined(path, name));
        return None;
    };
    if !matches!(instance.kind, Kind::Discovery | Kind::Unknown) {
        problems.push(Problem::error(path, format!("`{name}` is no source of endpoints")));
    }
    instance.discovery.clone()
}
