//! The `schedulingProfiles` of a configuration file.

use std::collections::HashSet;
use std::sync::Arc;

use crate::config::file::{File, ProfileSpec, Step};
use crate::config::problem::Problem;
use crate::config::reader::Readable;
use crate::config::resolve::flow_control::detector;
use crate::config::resolve::instances::{Instance, Instances, Kind};
use crate::config::resolve::role::Role;
use crate::schedule::profile::{FilterStep, PickerStep, ScorerStep};
use crate::schedule::registry::{Build, Parameters, Plugin, find};
use crate::schedule::{Picker, Profile};

/// The scorers of a configuration that says nothing, with their weights.
const DEFAULT_SCORERS: [(&str, f64); 1] = [("expected-ttft-scorer", 1.0)];

/// The picker of a profile that names none.
const DEFAULT_PICKER: &str = "max-score-picker";

/// The handler of one profile.
pub(super) const SINGLE: &str = "single-profile-handler";

/// A profile while it is put together.
#[derive(Default)]
struct Draft<'a> {
    filters: Vec<FilterStep>,
    scorers: Vec<ScorerStep>,
    picker: Option<PickerStep>,
    used: HashSet<&'a str>,
}

/// The file's profile, or the one that its absence means; none when it has a problem.
pub(super) fn resolve(
    file: &File,
    instances: &Instances<'_>,
    tables: &[&'static [Plugin]],
    problems: &mut Vec<Problem>,
) -> Option<Profile> {
    handlers(file, instances, problems);
    let mut draft = Draft::default();
    names(&file.scheduling_profiles, problems);
    if file.scheduling_profiles.is_empty() {
        draft.without_profiles(instances, tables, problems);
    }
    for (at, profile) in file.scheduling_profiles.iter() {
        // Several are checked, though only one can run.
        draft.picker = None;
        draft.profile(at, profile, instances, problems);
    }
    if !file.scheduling_profiles.is_empty() {
        draft.unused(instances, problems);
    }
    draft.idle(detector(file), instances, problems);
    draft.finish(instances, tables, problems)
}

impl<'a> Draft<'a> {
    /// All that is listed, but for detectors, which are seldom meant to be filters; the default policy when nothing is.
    fn without_profiles(
        &mut self,
        instances: &Instances<'a>,
        tables: &[&'static [Plugin]],
        problems: &mut Vec<Problem>,
    ) {
        for instance in instances.iter().filter(|instance| decides(instance)) {
            self.add(&format!("plugins[{}]", instance.at), instance, None, problems);
        }
        if !self.used.is_empty() {
            return;
        }
        for (name, weight) in DEFAULT_SCORERS {
            match find(tables, name) {
                Some(plugin) => {
                    self.build(name, Kind::Known(plugin), &Parameters::Null, Some(weight));
                }
                None => problems.push(Problem::error("", format!("this build has no `{name}`"))),
            }
        }
    }

    fn profile(
        &mut self,
        at: usize,
        profile: &'a ProfileSpec,
        instances: &Instances<'a>,
        problems: &mut Vec<Problem>,
    ) {
        let (scorers, before, mut later) = (self.scorers.len(), problems.len(), false);
        for (step_at, step) in profile.plugins.iter() {
            let path = format!("schedulingProfiles[{at}].plugins[{step_at}]");
            let Step { plugin_ref: Some(name), weight } = step else {
                problems.push(Problem::error(format!("{path}.pluginRef"), "is missing"));
                continue;
            };
            match instances.named(name) {
                Some(instance) => {
                    later |= matches!(instance.kind, Kind::Later | Kind::Unknown);
                    self.add(&path, instance, *weight, problems);
                }
                None if name.is_empty() => {
                    problems.push(Problem::error(format!("{path}.pluginRef"), "is missing"));
                }
                None => problems.push(instances.undefined(format!("{path}.pluginRef"), name)),
            }
        }
        if !later && (self.scorers.len(), problems.len()) == (scorers, before) {
            let message = "has no scorer: all endpoints are equal to its picker";
            problems.push(Problem::warning(format!("schedulingProfiles[{at}]"), message));
        }
    }

    fn unused(&self, instances: &Instances<'_>, problems: &mut Vec<Problem>) {
        let first = instances.iter().find(|instance| is_picker(instance));
        let default = first.filter(|_| self.picker.is_none()).map(|picker| picker.name);
        for instance in instances.iter() {
            let picker_by_default = default == Some(instance.name);
            if decides(instance) && !picker_by_default && !self.used.contains(instance.name) {
                let path = format!("plugins[{}]", instance.at);
                let message = format!("`{}` is in no profile", instance.name);
                problems.push(Problem::warning(path, message));
            }
        }
    }

    /// Tells of detectors that neither the pool nor a profile asks.
    fn idle(&self, detector: &str, instances: &Instances<'_>, problems: &mut Vec<Problem>) {
        for instance in instances.iter().filter(|instance| is_detector(instance)) {
            if instance.name != detector && !self.used.contains(instance.name) {
                let message = format!("`{}` has no effect: nothing asks it", instance.name);
                let problem = Problem::warning(format!("plugins[{}]", instance.at), message);
                problems
                    .push(problem.hint("name it in flowControl.saturationDetector or a profile"));
            }
        }
    }

    fn add(
        &mut self,
        path: &str,
        instance: &Instance<'a>,
        weight: Option<f64>,
        problems: &mut Vec<Problem>,
    ) {
        self.used.insert(instance.name);
        weigh(path, instance.kind, weight, problems);
        if self.picker.is_some() && is_picker(instance) {
            problems.push(Problem::error(path, "a profile has one picker, this is a second"));
        }
        if matches!(
            instance.kind,
            Kind::Discovery
                | Kind::Source
                | Kind::Known(Plugin {
                    build: Build::Producer(_)
                        | Build::SingleProfileHandler
                        | Build::ServedVerifier
                        | Build::Parser,
                    ..
                })
        ) {
            let message = format!("`{}` has no effect in a profile", instance.name);
            problems.push(Problem::warning(path, message));
        }
        self.build(instance.name, instance.kind, &instance.parameters, weight);
    }

    /// Appends what `name` builds; parameters that do not build are already a problem.
    fn build(&mut self, name: &str, kind: Kind, parameters: &Parameters, weight: Option<f64>) {
        let Kind::Known(plugin) = kind else { return };
        let (name, raw) = (Arc::from(name), parameters.clone());
        let step = |name, empty, filter| FilterStep { name, empty, filter };
        match plugin.build {
            Build::Filter(build, empty) => {
                self.filters.extend(build(raw).ok().map(|filter| step(name, empty, filter)));
            }
            Build::Detector(build, empty) => {
                self.filters.extend(build(raw).ok().map(|filter| step(name, empty, filter)));
            }
            Build::Scorer(build) => {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "a weight needs no more digits"
                )]
                let weight = weight.unwrap_or(1.0) as f32;
                self.scorers.extend(build(raw).ok().map(|scorer| ScorerStep {
                    name,
                    weight,
                    scorer,
                }));
            }
            Build::Picker(build) => {
                self.picker = build(raw).ok().map(|picker| PickerStep { name, picker });
            }
            Build::Producer(_)
            | Build::SingleProfileHandler
            | Build::ServedVerifier
            | Build::Parser => (),
        }
    }

    /// The profile, with the picker that it may lack: a listed one, else the default.
    fn finish(
        self,
        instances: &Instances<'_>,
        tables: &[&'static [Plugin]],
        problems: &mut Vec<Problem>,
    ) -> Option<Profile> {
        let Self { filters, scorers, picker, .. } = self;
        let listed = || instances.iter().find_map(built_picker);
        let default = || {
            let picker =
                find(tables, DEFAULT_PICKER).and_then(|plugin| picker_of(plugin, Parameters::Null));
            picker.map(|picker| PickerStep { name: DEFAULT_PICKER.into(), picker })
        };
        let Some(picker) = picker.or_else(listed).or_else(default) else {
            problems.push(Problem::error("", format!("this build has no `{DEFAULT_PICKER}`")));
            return None;
        };
        Some(Profile { filters, scorers, picker })
    }
}

/// How many handlers and profiles there are, against what there may be.
fn handlers(file: &File, instances: &Instances<'_>, problems: &mut Vec<Problem>) {
    let unknown = |instance: &Instance<'_>| matches!(instance.kind, Kind::Unknown);
    let handlers: Vec<_> = instances
        .iter()
        .filter(|instance| instance.plays(Role::Handler) && !unknown(instance))
        .collect();
    for handler in handlers.iter().skip(1) {
        let path = format!("plugins[{}]", handler.at);
        problems.push(Problem::error(path, "there is one profile handler, this is a second"));
    }
    let profiles = file.scheduling_profiles.len();
    if profiles < 2 {
        return;
    }
    let single = handlers.iter().any(|handler| handler.type_name() == SINGLE);
    if single {
        let message = format!("{SINGLE} runs one profile, there are {profiles}");
        problems.push(Problem::error("schedulingProfiles", message));
    } else if handlers.is_empty() && !instances.iter().any(unknown) {
        // With an unknown type the handler may be that one.
        problems
            .push(Problem::error("schedulingProfiles", "several profiles need a profile handler"));
    }
}

/// Each profile has a name of its own.
fn names(profiles: &Readable<ProfileSpec>, problems: &mut Vec<Problem>) {
    let mut seen = HashSet::new();
    for (at, profile) in profiles.iter() {
        let path = format!("schedulingProfiles[{at}].name");
        match profile.name.as_deref() {
            None | Some("") => problems.push(Problem::error(path, "is missing")),
            Some(name) if !seen.insert(name) => {
                problems.push(Problem::error(path, format!("another profile is named `{name}`")));
            }
            Some(_) => (),
        }
    }
}

fn weigh(path: &str, kind: Kind, weight: Option<f64>, problems: &mut Vec<Problem>) {
    let Some(weight) = weight else { return };
    let path = format!("{path}.weight");
    if weight.abs() > f64::from(f32::MAX) {
        return problems.push(Problem::error(path, "is too large"));
    }
    let scorer = matches!(
        kind,
        Kind::Known(Plugin { build: Build::Scorer(_), .. }) | Kind::Later | Kind::Unknown
    );
    let message = if !scorer {
        "has no effect: only scorers are weighted"
    } else if weight == 0.0 {
        "has no effect: a scorer of weight 0 changes nothing"
    } else if weight < 0.0 {
        "is negative: the scorer's worst endpoint becomes its best"
    } else {
        return;
    };
    problems.push(Problem::warning(path, message));
}

/// Whether an instance belongs in a profile and nowhere else.
fn decides(instance: &Instance<'_>) -> bool {
    matches!(
        instance.kind,
        Kind::Known(Plugin { build: Build::Filter(..) | Build::Scorer(_) | Build::Picker(_), .. })
    )
}

fn is_detector(instance: &Instance<'_>) -> bool {
    matches!(instance.kind, Kind::Known(Plugin { build: Build::Detector(..), .. }))
}

fn is_picker(instance: &Instance<'_>) -> bool {
    matches!(instance.kind, Kind::Known(Plugin { build: Build::Picker(_), .. }))
}

fn built_picker(instance: &Instance<'_>) -> Option<PickerStep> {
    let Kind::Known(plugin) = instance.kind else { return None };
    let picker = picker_of(plugin, instance.parameters.clone())?;
    Some(PickerStep { name: instance.name.into(), picker })
}

fn picker_of(plugin: &Plugin, raw: Parameters) -> Option<Box<dyn Picker>> {
    let Build::Picker(build) = plugin.build else { return None };
    build(raw).ok()
}
