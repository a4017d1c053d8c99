//! The `schedulingProfiles` of a configuration file.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::config::file::{File, ProfileSpec, Step};
use crate::config::problem::Problem;
use crate::config::reader::Readable;
use crate::config::resolve::flow_control::detector;
use crate::config::resolve::handler;
use crate::config::resolve::instances::{Instance, Instances, Kind, missing};
use crate::schedule::profile::{FilterStep, PickerStep, ScorerStep};
use crate::schedule::registry::{Both, Build, Parameters, Plugin, find};
use crate::schedule::{Filter, Picker, Profile, Profiles, Scorer, profiles};

/// The scorers of a configuration that says nothing, with their weights.
const DEFAULT_SCORERS: [(&str, f64); 1] = [("expected-ttft-scorer", 1.0)];

/// The picker that needs no scorer.
const RANDOM: &str = "random-picker";

/// The picker of a profile that names none.
const DEFAULT_PICKER: &str = "max-score-picker";

/// The name of a profile that is not written.
const UNWRITTEN: &str = "default";

/// A profile while it is put together.
#[derive(Default)]
struct Draft {
    filters: Vec<FilterStep>,
    scorers: Vec<ScorerStep>,
    picker: Option<PickerStep>,
}

/// What the profiles share: an instance that several of them name is one.
struct Shared<'f, 'a> {
    instances: &'f Instances<'a>,
    tables: &'f [&'static [Plugin]],
    used: HashSet<&'a str>,
    built: HashMap<Box<str>, profiles::Instance>,
}

/// The file's profiles with their handler, or what their absence means; none when they have a problem.
pub(super) fn resolve(
    file: &File,
    instances: &Instances<'_>,
    tables: &[&'static [Plugin]],
    problems: &mut Vec<Problem>,
) -> Option<Profiles> {
    let handler = handler::resolve(file, instances, tables, problems);
    names(&file.scheduling_profiles, problems);
    let mut shared = Shared::new(instances, tables);
    let mut profiles = Vec::new();
    if file.scheduling_profiles.is_empty() {
        let draft = shared.unwritten(problems);
        profiles.push((UNWRITTEN, draft));
    }
    for (at, spec) in file.scheduling_profiles.iter() {
        let draft = shared.written(at, spec, problems);
        profiles.push((spec.name.as_deref().unwrap_or_default(), draft));
    }
    if readable(&file.scheduling_profiles) {
        if !file.scheduling_profiles.is_empty() {
            let pickerless = profiles.iter().any(|(_, draft)| draft.picker.is_none());
            shared.unused(pickerless, problems);
        }
        shared.idle(detector(file), problems);
    }
    let profiles = profiles.into_iter().map(|(name, draft)| {
        let profile = draft.finish(instances, tables, problems)?;
        Some((name.into(), profile))
    });
    let profiles: Vec<_> = profiles.collect::<Option<_>>()?;
    Some(Profiles::new(profiles, handler?).of(shared.built))
}

impl<'f, 'a> Shared<'f, 'a> {
    fn new(instances: &'f Instances<'a>, tables: &'f [&'static [Plugin]]) -> Self {
        Self { instances, tables, used: HashSet::new(), built: HashMap::new() }
    }

    /// All that is listed, but for detectors, which are seldom meant to be filters; the default policy when nothing is.
    fn unwritten(&mut self, problems: &mut Vec<Problem>) -> Draft {
        let mut draft = Draft::default();
        for instance in self.instances.iter().filter(|instance| decides(instance)) {
            self.add(&mut draft, &format!("plugins[{}]", instance.at), (instance, None), problems);
        }
        if !self.used.is_empty() {
            return draft;
        }
        for (name, weight) in DEFAULT_SCORERS {
            match find(self.tables, name) {
                Some(plugin) => {
                    let parameters = &Parameters::Null;
                    self.build(&mut draft, name, (plugin, parameters), Some(weight));
                }
                None => problems.push(Problem::error("", format!("this build has no `{name}`"))),
            }
        }
        draft
    }

    fn written(&mut self, at: usize, spec: &ProfileSpec, problems: &mut Vec<Problem>) -> Draft {
        let mut draft = Draft::default();
        let (before, mut later) = (problems.len(), false);
        for (step_at, step) in spec.plugins.iter() {
            let path = format!("schedulingProfiles[{at}].plugins[{step_at}]");
            let Step { plugin_ref, weight } = step;
            let Some(name) = plugin_ref.as_deref().filter(|name| !name.is_empty()) else {
                problems.push(missing(format!("{path}.pluginRef"), "name a plugin"));
                continue;
            };
            let Some(instance) = self.instances.named(name) else {
                problems.push(self.instances.undefined(format!("{path}.pluginRef"), name));
                continue;
            };
            later |= matches!(instance.kind, Kind::Later | Kind::Unknown);
            self.add(&mut draft, &path, (instance, *weight), problems);
        }
        let random = |step: &Step| {
            let instance = step.plugin_ref.as_deref().and_then(|name| self.instances.named(name));
            instance.is_some_and(|instance| instance.type_name() == RANDOM)
        };
        let meant = spec.plugins.iter().any(|(_, step)| random(step));
        let known = spec.plugins.whole() && !later && problems.len() == before;
        if known && !meant && draft.scorers.is_empty() {
            let message = "has no scorer: all endpoints are equal to its picker";
            let problem = Problem::warning(format!("schedulingProfiles[{at}]"), message);
            problems.push(problem.hint("name a scorer, or random-picker to say that it is meant"));
        }
        draft
    }

    /// Tells of what is in no profile; `pickerless` says that a profile takes the picker that is listed first.
    fn unused(&self, pickerless: bool, problems: &mut Vec<Problem>) {
        let first = self.instances.iter().find(|instance| is_picker(instance));
        let default = first.filter(|_| pickerless).map(|picker| picker.name);
        for instance in self.instances.iter() {
            let picker_by_default = default == Some(instance.name);
            if decides(instance) && !picker_by_default && !self.used.contains(instance.name) {
                let path = format!("plugins[{}]", instance.at);
                let message = format!("`{}` is in no profile", instance.name);
                problems
                    .push(Problem::warning(path, message).hint("name it in one, or leave it out"));
            }
        }
    }

    /// Tells of detectors that neither the pool nor a profile asks.
    fn idle(&self, detector: &str, problems: &mut Vec<Problem>) {
        for instance in self.instances.iter().filter(|instance| is_detector(instance)) {
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
        draft: &mut Draft,
        path: &str,
        (instance, weight): (&Instance<'a>, Option<f64>),
        problems: &mut Vec<Problem>,
    ) {
        self.used.insert(instance.name);
        weigh(path, instance.kind, weight, problems);
        if draft.picker.is_some() && is_picker(instance) {
            let problem = Problem::error(path, "a profile has one picker, this is a second");
            problems.push(problem.hint("leave one of them out"));
        }
        if matches!(
            instance.kind,
            Kind::Discovery
                | Kind::Source
                | Kind::Known(Plugin {
                    build: Build::Admitter(_)
                        | Build::Producer(_)
                        | Build::Handler(_)
                        | Build::ServedVerifier
                        | Build::Parser,
                    ..
                })
        ) {
            let message = format!("`{}` has no effect in a profile", instance.name);
            problems.push(Problem::warning(path, message).hint("leave it out of the profile"));
        }
        if let Kind::Known(plugin) = instance.kind {
            self.build(draft, instance.name, (plugin, &instance.parameters), weight);
        }
    }

    /// Appends what `name` builds; parameters that do not build are already a problem.
    fn build(
        &mut self,
        draft: &mut Draft,
        name: &str,
        (plugin, parameters): (&'static Plugin, &Parameters),
        weight: Option<f64>,
    ) {
        if let Some(picker) = picker_of(plugin, parameters.clone()) {
            draft.picker = Some(PickerStep { name: name.into(), type_name: plugin.name, picker });
        }
        let Some(instance) = self.once(name, plugin, parameters) else { return };
        if let Some(filter) = &instance.filter
            && let Build::Filter(_, empty) | Build::Detector(_, empty) | Build::Both(_, empty) =
                plugin.build
        {
            let filter = Arc::clone(filter);
            draft.filters.push(FilterStep {
                name: name.into(),
                type_name: plugin.name,
                empty,
                filter,
            });
        }
        if let Some(scorer) = &instance.scorer {
            #[expect(clippy::cast_possible_truncation, reason = "a weight needs no more digits")]
            let weight = weight.unwrap_or(1.0) as f32;
            let scorer = Arc::clone(scorer);
            let (name, type_name) = (name.into(), plugin.name);
            draft.scorers.push(ScorerStep { name, type_name, weight, scorer });
        }
    }

    /// The filter and the scorer of an instance, built unless another profile has had it done; none when they cannot be.
    fn once(
        &mut self,
        name: &str,
        plugin: &'static Plugin,
        parameters: &Parameters,
    ) -> Option<&profiles::Instance> {
        if !self.built.contains_key(name) {
            let (filter, scorer) = roles(plugin, parameters.clone())?;
            let (type_name, parameters) = (plugin.name, parameters.clone());
            let instance = profiles::Instance { type_name, parameters, filter, scorer };
            self.built.insert(name.into(), instance);
        }
        self.built.get(name)
    }
}

impl Draft {
    /// The profile, with the picker that it may lack: a listed one, else the default.
    fn finish(
        self,
        instances: &Instances<'_>,
        tables: &[&'static [Plugin]],
        problems: &mut Vec<Problem>,
    ) -> Option<Profile> {
        let Self { filters, scorers, picker } = self;
        let listed = || instances.iter().find_map(built_picker);
        let default = || {
            let picker =
                find(tables, DEFAULT_PICKER).and_then(|plugin| picker_of(plugin, Parameters::Null));
            picker.map(|picker| PickerStep {
                name: DEFAULT_PICKER.into(),
                type_name: DEFAULT_PICKER,
                picker,
            })
        };
        let Some(picker) = picker.or_else(listed).or_else(default) else {
            problems.push(Problem::error("", format!("this build has no `{DEFAULT_PICKER}`")));
            return None;
        };
        Some(Profile { filters, scorers, picker })
    }
}

/// Whether all of the profiles could be read: what could not may name any instance.
fn readable(profiles: &Readable<ProfileSpec>) -> bool {
    profiles.whole() && profiles.iter().all(|(_, profile)| profile.plugins.whole())
}

/// Each profile has a name of its own.
fn names(profiles: &Readable<ProfileSpec>, problems: &mut Vec<Problem>) {
    let mut seen = HashSet::new();
    for (at, profile) in profiles.iter() {
        let path = format!("schedulingProfiles[{at}].name");
        match profile.name.as_deref() {
            None | Some("") => problems.push(missing(path, "give the profile a name")),
            Some(name) if !seen.insert(name) => {
                let problem = Problem::error(path, format!("another profile is named `{name}`"));
                problems.push(problem.hint("give one of them another name"));
            }
            Some(_) => (),
        }
    }
}

fn weigh(path: &str, kind: Kind, weight: Option<f64>, problems: &mut Vec<Problem>) {
    let Some(weight) = weight else { return };
    let path = format!("{path}.weight");
    if weight.abs() > f64::from(f32::MAX) {
        return problems.push(Problem::error(path, "is too large").hint("give 1 or so"));
    }
    let scorer = matches!(
        kind,
        Kind::Known(Plugin { build: Build::Scorer(_) | Build::Both(..), .. })
            | Kind::Later
            | Kind::Unknown
    );
    let (message, hint) = if !scorer {
        ("has no effect: only scorers are weighted", "leave the weight out")
    } else if weight == 0.0 {
        ("has no effect: a scorer of weight 0 changes nothing", "leave the scorer out")
    } else if weight < 0.0 {
        ("is negative: the scorer's worst endpoint becomes its best", "give more than 0")
    } else {
        return;
    };
    problems.push(Problem::warning(path, message).hint(hint));
}

/// Whether an instance belongs in a profile and nowhere else.
fn decides(instance: &Instance<'_>) -> bool {
    matches!(
        instance.kind,
        Kind::Known(Plugin {
            build: Build::Filter(..) | Build::Scorer(_) | Build::Both(..) | Build::Picker(_),
            ..
        })
    )
}

/// What an instance does in a profile besides picking.
type Roles = (Option<Arc<dyn Filter>>, Option<Arc<dyn Scorer>>);

/// None when it cannot be built, or does nothing of the kind.
fn roles(plugin: &Plugin, raw: Parameters) -> Option<Roles> {
    match plugin.build {
        Build::Filter(build, _) => Some((Some(build(raw).ok()?.into()), None)),
        Build::Detector(build, _) => {
            let filter: Box<dyn Filter> = build(raw).ok()?;
            Some((Some(filter.into()), None))
        }
        Build::Scorer(build) => Some((None, Some(build(raw).ok()?.into()))),
        Build::Both(build, _) => {
            let Both { filter, scorer } = build(raw).ok()?;
            Some((filter.map(Arc::from), Some(scorer.into())))
        }
        Build::Picker(_)
        | Build::Admitter(_)
        | Build::Producer(_)
        | Build::Handler(_)
        | Build::ServedVerifier
        | Build::Parser => None,
    }
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
    Some(PickerStep { name: instance.name.into(), type_name: plugin.name, picker })
}

fn picker_of(plugin: &Plugin, raw: Parameters) -> Option<Box<dyn Picker>> {
    let Build::Picker(build) = plugin.build else { return None };
    build(raw).ok()
}
