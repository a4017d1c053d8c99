//! `lodesman check`: what is wrong with a configuration file, and what it means.

use std::io::{Read, Write, stderr, stdin};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::cli::{FAULT, USAGE, fail, say};
use crate::config::check::{Report, check};
use crate::schedule::registry::PLUGINS;

const BAD: u8 = 1;

/// Configurations are short: the file of a `ConfigMap` is at most 1 MiB.
const LONGEST: u64 = 4 << 20;

/// Checks a configuration file: problems go to standard error, what it means with all defaults to standard output.
#[derive(Args, Debug)]
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
    let report = check(&text, &[PLUGINS]);
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
        return Err(std::io::Error::other("the file is longer than 4 MiB"));
    }
    Ok(text)
}

fn print(report: &Report, name: &str, json: bool) -> anyhow::Result<()> {
    if json {
        return Ok(say((serde_json::to_string_pretty(report)? + "\n").as_bytes())?);
    }
    stderr().write_all(report.problems_in(name).as_bytes())?;
    Ok(say(report.yaml()?.as_bytes())?)
}
