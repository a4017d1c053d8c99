//! The configuration: read, and told to each part in its own terms.

use std::path::Path;
use std::sync::Arc;

use crate::app::StartError;
use crate::config::{Destinations, Flags, Limits, Problem, Resolved, Severity};
use crate::director::{self, Clock, Policy};
use crate::extproc::{self, Budget};
use crate::flow::Flow;
use crate::schedule::registry::Plugin;
use crate::server;

/// Bytes of a configuration file.
const LONGEST_DOCUMENT: u64 = 1 << 20;

/// Problems that are logged of one version of a file; their number is logged in any case.
const LOGGED_PROBLEMS: usize = 50;

/// Reads the configuration that the flags name, and logs its warnings; with its text, where it has one.
pub(super) fn read(
    flags: &Flags,
    tables: &[&'static [Plugin]],
) -> Result<(Resolved, Option<String>), StartError> {
    let text = match (&flags.pool.config_file, &flags.pool.config_text) {
        (Some(path), _) => Some(document(path).map_err(|error| {
            StartError::Setup(format!("--config-file {}: {error}", path.display()))
        })?),
        (None, text) => text.clone(),
    };
    let name = flags.pool.config_file.as_ref().map(|path| path.display().to_string());
    let name = name.unwrap_or_else(|| "--config-text".to_owned());
    let resolved = crate::config::load(text.as_deref(), tables);
    let resolved = resolved.map_err(|problems| StartError::Configuration(name, problems))?;
    for warning in flags.warnings() {
        tracing::warn!("{warning}");
    }
    log(&resolved.warnings);
    Ok((resolved, text))
}

/// Logs problems, errors as such: somebody must mend them.
pub(super) fn log(problems: &[Problem]) {
    for Problem { severity, path, line, message, hint } in problems.iter().take(LOGGED_PROBLEMS) {
        match severity {
            Severity::Error => tracing::error!(path, line, hint, "{message}"),
            Severity::Warning => tracing::warn!(path, line, hint, "{message}"),
        }
    }
    if problems.len() > LOGGED_PROBLEMS {
        let problems = problems.len();
        tracing::warn!(problems, "there are more: `lodesman check` tells all");
    }
}

/// The text of a configuration file.
fn document(path: &Path) -> std::io::Result<String> {
    let metadata = std::fs::metadata(path)?;
    match metadata.len() {
        _ if !metadata.is_file() => Err(std::io::Error::other("it is no regular file")),
        LONGEST_DOCUMENT.. => Err(std::io::Error::other("it is longer than 1 MiB")),
        _ => std::fs::read_to_string(path),
    }
}

/// The flags' limits over the file's over the defaults.
pub(super) fn limits(flags: &Flags, resolved: &Resolved) -> Limits {
    let groups = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let memory = groups.iter().find_map(|path| std::fs::read_to_string(path).ok());
    let memory = memory.and_then(|text| crate::config::memory_limit(&text));
    flags.limits.over(resolved.limits).limits(memory)
}

/// How endpoints are chosen.
pub(super) fn policy(resolved: Resolved) -> Policy {
    Policy::new(resolved.profiles, Some(resolved.detector))
        .with_admitters(resolved.admitters)
        .with_facts(resolved.facts)
}

/// How decisions are made besides.
pub(super) fn deciding(flags: &Flags, resolved: &Resolved, limits: &Limits) -> director::Settings {
    director::Settings {
        forced_failure_mode: flags.pool.failure_mode,
        failure_mode: resolved.failure_mode.unwrap_or_default(),
        deadline: limits.decision_deadline,
        scores: flags.pool.emit_endpoint_scores,
        clock: Clock::new(server::clock::now),
    }
}

/// How streams are served.
pub(super) fn streaming(
    flags: &Flags,
    resolved: &Resolved,
    limits: &Limits,
    budget: &Arc<Budget>,
    flow: &Arc<Flow>,
) -> extproc::Settings {
    extproc::Settings {
        parsers: resolved.parsers,
        body_limit: size(limits.max_request_body),
        budget: Arc::clone(budget),
        flow: Arc::clone(flow),
        hold: resolved.hold,
        chunk_limit: limits.max_chunk_bytes.bytes(),
        header_limit: size(limits.max_header_bytes),
        body_read_timeout: limits.body_read_timeout,
        idle_timeout: limits.stream_idle_timeout,
        destinations: match resolved.destinations {
            Destinations::Single => 1,
            Destinations::Multi => usize::MAX,
        },
        ignore_subset: flags.pool.disable_endpoint_subset_filter,
        report_served: resolved.report_served,
        report_decision: flags.decisions.decision_header.then_some(extproc::DECISION),
        summary_namespace: flags.decisions.response_metadata_namespace().map(str::to_owned),
    }
}

/// A number of bytes as one of this machine.
pub(super) fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
