//! Command line and configuration file, resolved into what the application is built from.
//!
//! Three steps: a document becomes a [`tree`] that knows its lines, the [`reader`] turns that into the mirror of
//! [`mod@file`], and [`resolve`] turns the mirror into parts. None of them stops at the first mistake: [`load`] reports
//! all of them, each with its path in the document and its line.

use crate::schedule::registry::Plugin;

pub use self::address::{Address, Name};
pub use self::autoscaling::AutoscalingSettings;
pub use self::engines::Engines;
pub use self::flags::{Flags, Kubernetes, LogFormat, MetricNames, PoolGroup, TlsVersion};
pub use self::hold::HoldSettings;
pub use self::limits::{LimitSettings, Limits, memory_limit};
pub use self::problem::{Problem, Severity};
pub use self::resolve::{Destinations, FileDiscovery, Resolved};
pub use self::selector::LabelSelector;
pub use self::sources::Sources;
pub use self::target::TargetPorts;
pub use self::traces::{BadVariable, Traces};

pub mod address;
pub mod argv;
pub mod autoscaling;
pub mod check;
pub mod document;
pub mod engines;
pub mod file;
pub mod flags;
pub mod hold;
pub mod limits;
pub mod parameters;
pub mod problem;
pub mod reader;
pub mod resolve;
pub mod selector;
pub mod sources;
pub mod target;
pub mod traces;
pub mod tree;

/// Reads a configuration document and resolves it; without one, the default policy.
///
/// `tables` are the plugins to choose from, the first table that has a type counts.
///
/// # Errors
/// When the document has an error: all its problems, warnings too, by line.
pub fn load(text: Option<&str>, tables: &[&'static [Plugin]]) -> Result<Resolved, Vec<Problem>> {
    let Some(text) = text else { return resolve::resolve(&file::File::default(), tables) };
    let tree = tree::parse(text)?;
    if let Some(foreign) = file::foreign(&tree) {
        return Err(vec![foreign]);
    }
    let (file, mut problems) = reader::read::<file::File>(&tree);
    if problems.iter().all(|problem| !problem.path.is_empty()) {
        problems.extend(file.header_problems());
    }
    let resolved = match resolve::resolve(&file, tables) {
        Ok(mut resolved) => {
            problems.append(&mut resolved.warnings);
            Some(resolved)
        }
        Err(more) => {
            problems.extend(more);
            None
        }
    };
    problem::locate(&mut problems, &tree.lines());
    problems.sort_by_key(|problem| problem.line);
    let failed = problems.iter().any(|problem| problem.severity == Severity::Error);
    match resolved.filter(|_| !failed) {
        Some(resolved) => Ok(Resolved { warnings: problems, ..resolved }),
        None => Err(problems),
    }
}

#[cfg(test)]
mod manual;
#[cfg(test)]
mod tests;
