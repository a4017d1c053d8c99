//! `lodesman replay`: what users would have seen under one policy or another.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::failure::{Failure, bad, fault, usage};
use crate::cli::say;
use crate::replay::{
    self, Contender, Fleet, Grid, MOST_MADE_UP, Report, Source, TraceError, Workload,
};
use crate::sim::engine::EngineSpec;

pub(super) use self::args::ReplayArgs;

mod args;

/// Pods that a trace is replayed on unless told.
const TRACE_PODS: usize = 16;

pub(super) fn run(args: &ReplayArgs) -> ExitCode {
    match replayed(args).and_then(|report| print(&report, args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell(),
    }
}

fn print(report: &Report, args: &ReplayArgs) -> Result<(), Failure> {
    if let Some(path) = &args.plot {
        let svg = report.svg().map_err(|error| fault(error.to_string()))?;
        let wrote = std::fs::write(path, svg);
        wrote.map_err(|error| fault(format!("{}: {error}", path.display())))?;
    }
    let text = if args.json {
        let json = serde_json::to_string_pretty(report);
        json.map_err(|error| fault(error.to_string()))? + "\n"
    } else {
        report.to_string()
    };
    say(text.as_bytes()).map_err(|error| fault(error.to_string()))
}

fn replayed(args: &ReplayArgs) -> Result<Report, Failure> {
    let fleets = fleets(args)?;
    let policies = args.policy.iter().map(|name| Ok((name.clone(), contender(name)?)));
    let policies = policies.collect::<Result<Vec<_>, Failure>>()?;
    let source = source(args)?;
    let loads: Vec<_> = match (args.load.as_slice(), args.what.kind()) {
        ([], kind) => vec![kind.and_then(replay::Kind::load)],
        (loads, _) => loads.iter().copied().map(Some).collect(),
    };
    let grid = Grid {
        source: &source,
        fleets: &fleets,
        loads: &loads,
        policies: &policies,
        seeds: args.seeds,
    };
    let progress = progress(grid.runs());
    let runs = grid.rows(replay::run, || progress.inc(1));
    progress.finish_and_clear();
    Ok(Report { runs: runs.map_err(|error| fault(error.to_string()))? })
}

/// A bar on standard error; on a terminal only, which is what it looks for itself.
fn progress(runs: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {eta} left");
    let bar = ProgressBar::new(runs as u64);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn source(args: &ReplayArgs) -> Result<Source, Failure> {
    if let Some(kind) = args.what.kind() {
        return made_up(args, kind);
    }
    let Some(file) = &args.what.trace else { return Err(usage("nothing to replay")) };
    let mut workload = trace(file)?;
    if let Some(limit) = args.limit {
        workload.limit(limit.0);
        if workload.arrivals.is_empty() {
            let name = file.display();
            return Err(bad(format!("{name}: no requests in the first {limit} (--limit)")));
        }
    }
    Ok(Source::Trace { workload, jitter: args.jitter })
}

fn made_up(args: &ReplayArgs, kind: replay::Kind) -> Result<Source, Failure> {
    let shape = args.shape.over(kind.shape());
    let tokens = shape.prompt_tokens();
    if tokens > MOST_MADE_UP {
        return Err(usage(format!(
            "{tokens} prompt tokens in all, {MOST_MADE_UP} at most: ask for fewer requests, or for shorter prompts"
        )));
    }
    Ok(Source::Generated { kind, shape })
}

fn trace(path: &Path) -> Result<Workload, Failure> {
    let name = path.display();
    let file = File::open(path).map_err(|error| usage(format!("{name}: {error}")))?;
    replay::read(BufReader::new(file)).map_err(|error| match error {
        TraceError::Malformed { line, problem } => bad(format!("{name}:{line}: {problem}")),
        TraceError::Unreadable(cause) => usage(format!("{name}: {cause}")),
        TraceError::Empty => bad(format!("{name}: {error}")),
    })
}

fn contender(name: &str) -> Result<Contender, Failure> {
    if let Some(contender) = Contender::named(name) {
        return Ok(contender);
    }
    let text = std::fs::read_to_string(name).map_err(|error| {
        let known = Contender::NAMES.join(", ");
        usage(format!("--policy {name}: no built-in policy ({known}), nor a file: {error}"))
    })?;
    Contender::configured(&text).map_err(|problems| {
        let lines = problems.iter().map(|problem| problem.in_file(name).to_string());
        bad(lines.collect::<Vec<_>>().join("\n"))
    })
}

fn fleets(args: &ReplayArgs) -> Result<Vec<Fleet>, Failure> {
    let kind = args.what.kind();
    let usual = kind.map_or(TRACE_PODS, replay::Kind::pods);
    let sizes = if args.pods.is_empty() { vec![usual] } else { args.pods.clone() };
    sizes.into_iter().map(|pods| fleet(args, pods)).collect()
}

fn fleet(args: &ReplayArgs, pods: usize) -> Result<Fleet, Failure> {
    let usual = EngineSpec::default();
    let adapter_load = args.adapter_load.map(|load| load.0);
    let usual_load = args.what.kind().and_then(replay::Kind::adapter_load);
    let engine = EngineSpec {
        kv_tokens: args.kv_tokens.unwrap_or(usual.kv_tokens),
        adapter_load: adapter_load.or(usual_load).unwrap_or(usual.adapter_load),
        ..usual
    };
    let mut fleet = Fleet::of(vec![engine; pods]);
    let absent = |flag: &str, pod: usize| {
        usage(format!("{flag} names pod {pod}, but {pods} pods are counted from 0"))
    };
    for slow in &args.slow {
        let engine = fleet.engines.get_mut(slow.pod).ok_or_else(|| absent("--slow", slow.pod))?;
        engine.slowdown = 1.0 / slow.speed;
    }
    if let Some(outage) = args.fail.iter().find(|outage| outage.0.pod >= pods) {
        return Err(absent("--fail", outage.0.pod));
    }
    fleet.outages = args.fail.iter().map(|outage| outage.0).collect();
    fleet.scrape_interval = args.scrape_age.0.max(Duration::from_millis(1));
    Ok(fleet)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{CONFIGURATION, USAGE};

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        replay: ReplayArgs,
    }

    /// The exit code, and what is said.
    fn refused(args: &[&str]) -> (String, String) {
        let args = Cli::try_parse_from(["replay"].iter().chain(args)).unwrap().replay;
        let Err(failure) = replayed(&args) else { panic!("it is replayed") };
        let why = failure.message().to_owned();
        (format!("{:?}", failure.tell()), why)
    }

    fn exit(code: u8) -> String {
        format!("{:?}", ExitCode::from(code))
    }

    #[test]
    fn more_prompt_tokens_than_memory_has_room_for_are_refused() {
        let (code, why) = refused(&["--burst", "1000", "--own-tokens", "10000000"]);
        assert_eq!(code, exit(USAGE));
        assert!(why.starts_with("10000000000 prompt tokens in all, 4000000000 at most"), "{why}");
    }

    #[test]
    fn a_limit_that_leaves_no_request_is_told() {
        let line = r#"{"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [1]}"#;
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), line).unwrap();
        let (code, why) = refused(&["--trace", file.path().to_str().unwrap(), "--limit", "0s"]);
        assert_eq!(code, exit(CONFIGURATION));
        assert!(why.ends_with("no requests in the first 0s (--limit)"), "{why}");
    }

    #[test]
    fn a_trace_that_cannot_be_read_is_wrong_usage_and_one_that_is_no_trace_is_bad() {
        let folder = tempfile::tempdir().unwrap();
        let code = |path: &Path| refused(&["--trace", path.to_str().unwrap()]).0;
        assert_eq!(code(folder.path()), exit(USAGE), "a directory");
        let file = folder.path().join("trace");
        assert_eq!(code(&file), exit(USAGE), "absent");
        std::fs::write(&file, b"\xff\n").unwrap();
        assert_eq!(code(&file), exit(CONFIGURATION), "not UTF-8");
        std::fs::write(&file, "").unwrap();
        assert_eq!(code(&file), exit(CONFIGURATION), "empty");
    }
}
