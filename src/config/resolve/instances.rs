//! The `plugins` of a configuration file, by name.

use crate::config::file::PluginSpec;
use crate::config::problem::Problem;
use crate::config::reader::Readable;
use crate::config::resolve::FileDiscovery;
use crate::config::resolve::reference::NOT_YET;
use crate::config::sources::{Source, TYPES};
use crate::schedule::registry::{BadParameters, Build, Parameters, Plugin, find, parameters};
use crate::schedule::{Producer, Product};

/// The source of endpoints that is no plugin of the scheduling table.
const FILE_DISCOVERY: &str = "file-discovery";

/// All instances of a file, in its order.
#[derive(Debug)]
pub(super) struct Instances<'a> {
    list: Vec<Instance<'a>>,
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
    /// What it takes.
    pub(super) parameters: &'a Parameters,
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
        let mut instances = Self { list: Vec::with_capacity(specs.len()) };
        for (at, spec) in specs.iter() {
            let Some(type_name) = spec.kind.as_deref() else {
                problems.push(Problem::error(format!("plugins[{at}].type"), "is missing"));
                continue;
            };
            let name = spec.name.as_deref().unwrap_or(type_name);
            if instances.named(name).is_some() {
                let message = format!("another plugin is named `{name}`");
                problems.push(Problem::error(format!("plugins[{at}].name"), message));
                continue;
            }
            let kind = kind(at, type_name, tables, problems);
            let mut instance = Instance {
                at,
                name,
                kind,
                parameters: &spec.parameters,
                discovery: None,
                source: None,
                product: None,
                type_name,
            };
            instance.check(problems);
            instances.list.push(instance);
        }
        instances
    }

    pub(super) fn named(&self, name: &str) -> Option<&Instance<'a>> {
        self.list.iter().find(|instance| instance.name == name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.list.iter().map(|instance| instance.name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Instance<'a>> {
        self.list.iter()
    }

    /// The problem of a reference at `path` to no instance.
    pub(super) fn undefined(&self, path: impl Into<String>, name: &str) -> Problem {
        Problem::error(path, format!("no plugin is named `{name}`")).nearest(name, self.names())
    }
}

impl<'a> Instance<'a> {
    pub(super) fn type_name(&self) -> &'a str {
        self.type_name
    }

    /// Builds the instance once, to see whether its parameters are good wherever it is used.
    fn check(&mut self, problems: &mut Vec<Problem>) {
        let raw = self.parameters.clone();
        let built = match self.kind {
            Kind::Known(plugin) => match plugin.build {
                Build::Filter(build, _) => build(raw).map(drop),
                Build::Scorer(build) => build(raw).map(drop),
                Build::Picker(build) => build(raw).map(drop),
                Build::Producer(build) => build(raw).map(|made| self.produces(made, problems)),
                // The reference lets these ignore their parameters.
                Build::SingleProfileHandler | Build::Parser => Ok(()),
            },
            Kind::Discovery => parameters(raw).map(|discovery| self.discovery = Some(discovery)),
            Kind::Source => match Source::read(self.type_name, raw) {
                Some(read) => read.map(|source| self.source = Some(source)),
                None => Ok(()),
            },
            Kind::Unknown => Ok(()),
        };
        if let Err(BadParameters(message)) = built {
            problems.push(Problem::error(format!("plugins[{}].parameters", self.at), message));
        }
    }

    fn produces(&mut self, made: Producer, problems: &mut Vec<Problem>) {
        let path = || format!("plugins[{}]", self.at);
        problems.extend(made.warnings.into_iter().map(|text| Problem::warning(path(), text)));
        self.product = Some(made.product);
    }
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
    if let Some(plugin) = find(tables, type_name) {
        return Kind::Known(plugin);
    }
    let path = format!("plugins[{at}].type");
    problems.push(if NOT_YET.contains(&type_name) {
        Problem::error(path, format!("plugin type `{type_name}` is not supported yet"))
    } else {
        let sources = TYPES.iter().map(|(name, _)| *name);
        let known = names(tables).chain([FILE_DISCOVERY]).chain(sources);
        Problem::error(path, format!("unknown plugin type `{type_name}`")).nearest(type_name, known)
    });
    Kind::Unknown
}
