//! The `requestHandler.parsers` of a configuration file, and the older `parser`.

use crate::config::file::{File, Reference};
use crate::config::problem::Problem;
use crate::config::resolve::instances::{Instance, Instances, names};
use crate::config::resolve::role::Role;
use crate::request::Parsers;
use crate::schedule::registry::{Build, Plugin, find};

/// The parsers of a configuration that names none, as in the reference.
const DEFAULT: [&str; 4] =
    ["openai-parser", "anthropic-parser", "vllmhttp-parser", "passthrough-parser"];

/// The parser that takes everything: in the reference none after it is asked.
const FALLBACK: &str = "passthrough-parser";

/// The types of the configured parsers in their order, without those that have no effect.
pub(super) fn resolve<'a>(
    file: &'a File,
    instances: &Instances<'a>,
    tables: &[&'static [Plugin]],
    problems: &mut Vec<Problem>,
) -> Vec<&'a str> {
    let new = &file.request_handler.parsers;
    if let (Some(_), false) = (&file.parser, new.is_empty()) {
        let problem = Problem::warning("parser", "has no effect beside requestHandler.parsers");
        problems.push(problem.hint("leave it out"));
    } else if file.parser.is_some() {
        let problem = Problem::warning("parser", "is deprecated");
        problems.push(problem.hint("write requestHandler.parsers"));
    }
    let path = |at| format!("requestHandler.parsers[{at}].pluginRef");
    let mut references: Vec<_> = new.iter().map(|(at, parser)| (path(at), parser)).collect();
    if references.is_empty() {
        references.extend(file.parser.iter().map(|parser| ("parser.pluginRef".to_owned(), parser)));
    }
    let mut found: Vec<&str> = Vec::new();
    for (path, reference) in references {
        let Some(parser) = parser(&path, reference, instances, tables, problems) else { continue };
        if found.contains(&parser) {
            let message = format!("has no effect: `{parser}` is listed before");
            problems.push(Problem::warning(path, message).hint("leave it out"));
        } else if found.contains(&FALLBACK) {
            let message = format!("has no effect: `{FALLBACK}` before it takes every request");
            problems.push(Problem::warning(path, message).hint("list it last"));
        } else {
            found.push(parser);
        }
    }
    if found.is_empty() {
        found.extend(DEFAULT);
    }
    found
}

/// The parsers of these types.
pub(super) fn set(types: &[&str]) -> Parsers {
    types
        .iter()
        .filter_map(|name| Parsers::named(name))
        .reduce(|all, one| all | one)
        .unwrap_or_default()
}

/// The type of the parser that `reference` means: an instance's name, or a type.
fn parser<'a>(
    path: &str,
    reference: &'a Reference,
    instances: &Instances<'a>,
    tables: &[&'static [Plugin]],
    problems: &mut Vec<Problem>,
) -> Option<&'a str> {
    let name = reference.plugin_ref.as_deref();
    let by_type = name.filter(|name| instances.named(name).is_none());
    match by_type.and_then(|name| find(tables, name)) {
        Some(Plugin { name, build: Build::Parser, .. }) => Some(name),
        Some(Plugin { name, .. }) => {
            let problem = Problem::error(path, format!("`{name}` is no parser"));
            problems.push(problem.hint("name a parser"));
            None
        }
        None if by_type.is_some_and(|name| !name.is_empty()) => {
            let name = by_type.unwrap_or_default();
            let mut known: Vec<&str> = instances.names().collect();
            names(tables).for_each(|name| known.push(name));
            let problem = Problem::error(path, format!("unknown parser `{name}`"));
            problems
                .push(problem.nearest(name, known).or_hint("docs/plugins.md lists the parsers"));
            None
        }
        None => instances.referenced(name, path, Role::Parser, problems).map(Instance::type_name),
    }
}
