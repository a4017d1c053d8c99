//! The `plugins` of a configuration file, by name.

use std::cell::Cell;
use std::collections::HashMap;

use serde_json::Value;

use crate::config::file::PluginSpec;
use crate::config::problem::{MOST_SEARCHES, Problem};
use crate::config::reader::Readable;
use crate::config::resolve::FileDiscovery;
use crate::config::resolve::deprecated::{aliased, instead_of, renew};
use crate::config::resolve::reference::NOT_YET;
use crate::config::resolve::role::Role;
use crate::config::sources::{Source, TYPES};
use crate::schedule::registry::{BadParameters, Build, Parameters, Plugin, find, parameters};
use crate::schedule::{Producer, Product};

/// The source of endpoints that is no plugin of the scheduling table.
pub(super) const FILE_DISCOVERY: &str = "file-discovery";

/// So many mistakes in the parameters of one instance are told at once: each is searched by leaving parameters out.
const MOST_MISTAKES: usize = 32;

/// All instances of a file, in its order.
#[derive(Debug)]
pub(super) struct Instances<'a> {
    list: Vec<Instance<'a>>,
    /// Where each name is in the list.
    places: HashMap<&'a str, usize>,
    /// References for which a near name was searched.
    searches: Cell<usize>,
}

/// One instance.
#[derive(Debug)]
pub(super) struct Instance<'a> {
    /// Where it stands in `plugins`.
    pub(super) at: usize,
    /// Its name.
    pub(super) name: &'a str,
    /// What it is.
    pub(super) kind: Kind,
    /// What it takes, in today's spelling.
    pub(super) parameters: Parameters,
    /// The file, where it is a file discovery.
    pub(super) discovery: Option<FileDiscovery>,
    /// What it reads of endpoints, where it is a source of signals or reads one.
    pub(super) source: Option<Source>,
    /// What it produces, where it is a producer.
    pub(super) product: Option<Product>,
    type_name: &'a str,
}

/// What an instance is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A row of the tables.
    Known(&'static Plugin),
    /// A file discovery.
    Discovery,
    /// A source of signals, or what reads one.
    Source,
    /// A type of the reference that this build has not; already a problem.
    Later,
    /// None that is known; already a problem.
    Unknown,
}

impl<'a> Instances<'a> {
    /// Reads `plugins`; an instance with a problem is kept, so that references to it are no further problems.
    pub(super) fn of(
        specs: &'a Readable<PluginSpec>,
        tables: &[&'static [Plugin]],
        problems: &mut Vec<Problem>,
    ) -> Self {
        let list = Vec::with_capacity(specs.len());
        let mut instances = Self { list, places: HashMap::new(), searches: Cell::default() };
        for (at, spec) in specs.iter() {
            let Some(type_name) = given(spec.kind.as_deref()) else {
                let problem = Problem::error(format!("plugins[{at}].type"), "is missing");
                problems.push(problem.hint("docs/plugins.md lists the types"));
                continue;
            };
            let name = given(spec.name.as_deref()).unwrap_or(type_name);
            if instances.named(name).is_some() {
                let message = format!("another plugin is named `{name}`");
                let problem = Problem::error(format!("plugins[{at}].name"), message);
                problems.push(problem.hint("give one of them another name"));
                continue;
            }
            let kind = kind(at, type_name, tables, problems);
            let mut instance = Instance {
                at,
                name,
                kind,
                parameters: spec.parameters.clone(),
                discovery: None,
                source: None,
                product: None,
                type_name: aliased(type_name),
            };
            instance.check(problems);
            instances.places.insert(name, instances.list.len());
            instances.list.push(instance);
        }
        instances
    }

    pub(super) fn named(&self, name: &str) -> Option<&Instance<'a>> {
        self.list.get(*self.places.get(name)?)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.list.iter().map(|instance| instance.name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Instance<'a>> {
        self.list.iter()
    }

    /// The instance that is named at `path`, if it can play `role` there; else a problem.
    pub(super) fn referenced(
        &self,
        name: Option<&str>,
        path: &str,
        role: Role,
        problems: &mut Vec<Problem>,
    ) -> Option<&Instance<'a>> {
        let Some(name) = given(name) else {
            problems.push(missing(path, "name a plugin"));
            return None;
        };
        let Some(instance) = self.named(name) else {
            problems.push(self.undefined(path, name));
            return None;
        };
        if !instance.plays(role) {
            let problem = Problem::error(path, format!("`{name}` is no {}", role.noun()));
            problems.push(problem.hint(format!("name a {}", role.noun())));
            return None;
        }
        Some(instance)
    }

    /// The problem of a reference at `path` to no instance.
    pub(super) fn undefined(&self, path: impl Into<String>, name: &str) -> Problem {
        let problem = Problem::error(path, format!("no plugin is named `{name}`"));
        let searched = self.searches.replace(self.searches.get() + 1);
        let near =
            if searched < MOST_SEARCHES { problem.nearest(name, self.names()) } else { problem };
        near.or_hint("list it under plugins")
    }
}

impl<'a> Instance<'a> {
    /// Its type, by the name that is not deprecated.
    pub(super) fn type_name(&self) -> &'a str {
        self.type_name
    }

    /// Whether it can play a role; an unknown type may play any.
    pub(super) fn plays(&self, role: Role) -> bool {
        let built: &[Role] = match self.kind {
            Kind::Unknown => return true,
            Kind::Discovery => &[Role::Discovery],
            Kind::Source | Kind::Later => &[],
            Kind::Known(plugin) => match plugin.build {
                Build::Filter(..) => &[Role::Filter],
                Build::Scorer(_) => &[Role::Scorer],
                Build::Both(..) => &[Role::Filter, Role::Scorer],
                Build::Picker(_) => &[Role::Picker],
                Build::Detector(..) => &[Role::Detector],
                Build::Admitter(_) | Build::Producer(_) | Build::ServedVerifier => &[],
                Build::Handler(_) => &[Role::Handler],
                Build::Parser => &[Role::Parser],
            },
        };
        built.contains(&role) || role.has(self.type_name)
    }

    /// Builds the instance, to see whether its parameters are good wherever it is used.
    fn check(&mut self, problems: &mut Vec<Problem>) {
        let path = format!("plugins[{}].parameters", self.at);
        if let Some(given) = self.no_map() {
            return problems.push(Problem::no_map(path, &given));
        }
        renew(self.type_name, &path, &mut self.parameters, problems);
        if let Some(count @ ..=0) = self.parameters.get("maxNumOfEndpoints").and_then(Value::as_i64)
            && self.plays(Role::Picker)
        {
            let message = format!("{count} is taken for 1");
            let problem = Problem::warning(format!("{path}.maxNumOfEndpoints"), message);
            problems.push(problem.hint("give 1 or more"));
        }
        let before = problems.len();
        self.mistakes(&path, problems);
        if problems.len() == before {
            self.keep(problems);
        }
    }

    /// What stands in the place of its parameters, where that is no map and is read.
    fn no_map(&self) -> Option<String> {
        let unread = matches!(
            self.kind,
            Kind::Known(Plugin { build: Build::ServedVerifier | Build::Parser, .. })
                | Kind::Later
                | Kind::Unknown
        );
        match &self.parameters {
            _ if unread => None,
            Value::Null | Value::Object(_) => None,
            Value::Array(_) => Some("a list".to_owned()),
            Value::Bool(_) | Value::Number(_) => Some(format!("`{}`", self.parameters)),
            Value::String(text) => Some(format!("{text:?}")),
        }
    }

    /// Keeps what good parameters say, where the instance is no part of a profile.
    fn keep(&mut self, problems: &mut Vec<Problem>) {
        let raw = self.parameters.clone();
        match self.kind {
            Kind::Discovery => self.discovery = parameters(raw).ok(),
            Kind::Source => self.source = Source::read(self.type_name, raw).and_then(Result::ok),
            Kind::Known(Plugin { build: Build::Producer(build), .. }) => {
                let Ok(Producer { product, warnings }) = build(raw) else { return };
                let path = format!("plugins[{}]", self.at);
                problems.extend(warnings.into_iter().map(|text| Problem::warning(&path, text)));
                self.product = Some(product);
            }
            Kind::Known(_) | Kind::Later | Kind::Unknown => (),
        }
    }

    /// Reports what the plugin refuses, each with the parameter that it is about.
    fn mistakes(&self, path: &str, problems: &mut Vec<Problem>) {
        let mut raw = self.parameters.clone();
        for _ in 0..MOST_MISTAKES {
            let Err(BadParameters(message)) = self.built(raw.clone()) else { return };
            match self.culprit(&raw, &message) {
                Some(culprit) => {
                    problems.push(told(format!("{path}.{culprit}"), &message));
                    raw = without(&raw, &culprit);
                }
                None if raw == self.parameters => {
                    return problems.push(told(path, &message));
                }
                // What was taken out may be missed now.
                None => return,
            }
        }
    }

    /// The parameter without which the plugin does not say `message`.
    fn culprit(&self, raw: &Parameters, message: &str) -> Option<String> {
        let silent = |name: &&String| {
            let rest = self.built(without(raw, name));
            !matches!(rest, Err(BadParameters(same)) if same == message)
        };
        raw.as_object()?.keys().find(silent).cloned()
    }

    fn built(&self, raw: Parameters) -> Result<(), BadParameters> {
        match self.kind {
            Kind::Known(plugin) => match plugin.build {
                Build::Filter(build, _) => build(raw).map(drop),
                Build::Scorer(build) => build(raw).map(drop),
                Build::Both(build, _) => build(raw).map(drop),
                Build::Picker(build) => build(raw).map(drop),
                Build::Detector(build, _) => build(raw).map(drop),
                Build::Admitter(build) => build(raw).map(drop),
                Build::Producer(build) => build(raw).map(drop),
                Build::Handler(build) => build(raw).map(drop),
                // The reference lets these ignore their parameters.
                Build::ServedVerifier | Build::Parser => Ok(()),
            },
            Kind::Discovery => parameters::<FileDiscovery>(raw).map(drop),
            Kind::Source => Source::read(self.type_name, raw).map_or(Ok(()), |read| read.map(drop)),
            Kind::Later | Kind::Unknown => Ok(()),
        }
    }
}

/// The problem of parameters that were refused.
fn told(path: impl Into<String>, message: &str) -> Problem {
    Problem::told(path, message).or_hint("docs/plugins.md tells what it takes")
}

/// The problem of something that has to be there.
pub(super) fn missing(path: impl Into<String>, hint: &str) -> Problem {
    Problem::error(path, "is missing").hint(hint)
}

/// A name that is there and not empty.
fn given(name: Option<&str>) -> Option<&str> {
    name.filter(|name| !name.is_empty())
}

fn without(raw: &Parameters, name: &str) -> Parameters {
    let mut raw = raw.clone();
    raw.as_object_mut().map(|map| map.remove(name));
    raw
}

/// The types of all tables.
pub(super) fn names(tables: &[&'static [Plugin]]) -> impl Iterator<Item = &'static str> {
    tables.iter().flat_map(|table| table.iter()).map(|plugin| plugin.name)
}

fn kind(
    at: usize,
    type_name: &str,
    tables: &[&'static [Plugin]],
    problems: &mut Vec<Problem>,
) -> Kind {
    if type_name == FILE_DISCOVERY {
        return Kind::Discovery;
    }
    if TYPES.iter().any(|(name, _)| *name == type_name) {
        return Kind::Source;
    }
    let path = format!("plugins[{at}].type");
    // A hint to what this build lacks would lead in a circle.
    let instead =
        instead_of(type_name).filter(|hint| !NOT_YET.iter().any(|name| hint.contains(name)));
    let hinted = |problem: Problem| match instead {
        Some(hint) => problem.hint(hint),
        None => problem,
    };
    if let Some(plugin) = find(tables, type_name).or_else(|| find(tables, aliased(type_name))) {
        if instead_of(type_name).is_some() {
            let message = format!("plugin type `{type_name}` is deprecated");
            problems.push(hinted(Problem::warning(path, message)));
        }
        return Kind::Known(plugin);
    }
    if NOT_YET.contains(&type_name) {
        let message = format!("plugin type `{type_name}` is not supported yet");
        problems.push(hinted(Problem::error(path, message)).or_hint("leave it out"));
        return Kind::Later;
    }
    let sources = TYPES.iter().map(|(name, _)| *name);
    let known = names(tables).chain([FILE_DISCOVERY]).chain(sources);
    let problem = Problem::error(path, format!("unknown plugin type `{type_name}`"));
    let search = problems.len() < MOST_SEARCHES;
    let near = if search { problem.nearest(type_name, known) } else { problem };
    problems.push(near.or_hint("docs/plugins.md lists the types"));
    Kind::Unknown
}
