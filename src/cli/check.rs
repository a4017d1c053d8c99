//! `lodesman check`: what is wrong with a configuration file, and what it means.

use std::io::{Read, Write, stderr, stdin};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::cli::{FAULT, USAGE, fail, say};
use crate::config::check::{Report, check};
use crate::config::{Problem, Severity};
use crate::discovery;
use crate::schedule::registry::PLUGINS;

const BAD: u8 = 1;

/// The longest file that is served with: that of a `ConfigMap`.
const LONGEST: u64 = 1 << 20;

const AFTER_HELP: &str = "\
Examples:
  lodesman check config.yaml
  lodesman check --json - < config.yaml

Exit codes: 0 it can be served with, 1 it cannot, 64 wrong usage or no such file.";

/// Checks a configuration file: problems go to standard error, what it means with all defaults to standard output.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct CheckArgs {
    /// The file (EndpointPickerConfig); - is standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON object with the problems and what the file means.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &CheckArgs) -> ExitCode {
    let name = args.file.display().to_string();
    let text = match read(&args.file) {
        Ok(text) => text,
        Err(error) => return fail(USAGE, &format!("{name}: {error}")),
    };
    let mut report = check(&text, &[PLUGINS]);
    if let Some(file) = report.discovery.clone() {
        report.add(&text, listed(&file.path));
    }
    match print(&report, &name, args.json) {
        Ok(()) if report.good() => ExitCode::SUCCESS,
        Ok(()) => ExitCode::from(BAD),
        Err(error) => fail(FAULT, &format!("{error:#}")),
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        stdin().lock().take(LONGEST + 1).read_to_string(&mut text)?
    } else {
        std::fs::File::open(path)?.take(LONGEST + 1).read_to_string(&mut text)?
    };
    if read as u64 > LONGEST {
        return Err(std::io::Error::other("the file is longer than 1 MiB"));
    }
    Ok(text)
}

/// What is wrong with the file of endpoints, if it is here: it may be where the picker is to run.
fn listed(path: &Path) -> Vec<Problem> {
    let here = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let Some(text) = here.then(|| read(path).ok()).flatten() else { return Vec::new() };
    let (found, severity, hint) = match discovery::parse(&text) {
        Ok(listing) => (listing.problems, Severity::Warning, "mend it, it is left out"),
        Err(problems) => (problems, Severity::Error, "mend it, no endpoint is read"),
    };
    let file = path.display();
    let told = |problem: Problem| {
        let line = problem.line.map(|line| format!(":{line}")).unwrap_or_default();
        let message = format!("{file}{line}: {}: {}", problem.path, problem.message);
        let hint = problem.hint.unwrap_or_else(|| hint.to_owned());
        let problem = Problem::told("dataLayer.discovery", &message).or_hint(hint);
        Problem { severity, ..problem }
    };
    found.into_iter().map(told).collect()
}

fn print(report: &Report, name: &str, json: bool) -> anyhow::Result<()> {
    if json {
        return Ok(say((serde_json::to_string_pretty(report)? + "\n").as_bytes())?);
    }
    stderr().write_all(report.problems_in(name).as_bytes())?;
    Ok(say(report.yaml()?.as_bytes())?)
}
