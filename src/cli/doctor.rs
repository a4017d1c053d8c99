//! `lodesman doctor`: what is wrong around a picker, what it means, and what to do.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use crate::cli::failure::{Failure, fault, usage};
use crate::cli::{control_runtime, say};
use crate::config::flags::{Kubernetes, Pool, Tls};

use self::facts::{Facts, Reason};
use self::finding::{CHECKS, Finding, Severity};

mod checks;
mod facts;
mod finding;
mod gather;

/// Something is wrong.
const WRONG: u8 = 1;

const AFTER_HELP: &str = "\
Examples:
  lodesman doctor --pool-name llm
  kubectl exec deploy/lodesman -- lodesman doctor --pool-name llm
  lodesman doctor --pool-name llm --pool-namespace prod --service-account lodesman
  lodesman doctor --config-file config.yaml --endpoints 10.0.0.1:8000 --json

It takes the flags of the picker that name its pool, its configuration and its certificate, and \
changes nothing. Run it in the picker's pod, with its account and from its place in the network; \
from elsewhere pods are read through the API server.
Exit codes: 0 nothing is wrong, 1 something is, 64 wrong usage, 70 our fault, or the machine's.";

/// Looks for what is wrong around a picker: pool, ports, rights, metrics, gateway, certificate, clocks.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    kubernetes: Kubernetes,
    #[command(flatten)]
    pool: Pool,
    #[command(flatten)]
    tls: Tls,
    /// Ask for the rights of this service account of the pool's namespace, not for our own.
    #[arg(long, value_name = "NAME")]
    service_account: Option<String>,
    /// Leave out a check, by its name; may be repeated.
    #[arg(long, value_name = "CHECK", value_parser = check_name)]
    skip: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Report {
    findings: Vec<Finding>,
    /// Checks that found nothing.
    good: Vec<&'static str>,
    /// Checks that had nothing to look at.
    not_checked: Vec<NotChecked>,
}

/// A check that says nothing.
#[derive(Debug, Serialize)]
struct NotChecked {
    check: &'static str,
    reason: Reason,
}

pub(super) fn run(args: &DoctorArgs) -> ExitCode {
    match examine(args).and_then(|report| print(&report, args.json)) {
        Ok(code) => code,
        Err(failure) => failure.tell(),
    }
}

fn examine(args: &DoctorArgs) -> Result<Report, Failure> {
    if let Some(why) = args.kubernetes.contradiction() {
        return Err(usage(why));
    }
    let runtime = control_runtime().map_err(|error| fault(error.to_string()))?;
    let facts = runtime.block_on(gather::facts(args))?;
    Ok(judge(&facts, &args.skip))
}

fn judge(facts: &Facts, skip: &[String]) -> Report {
    let mut report = Report { findings: Vec::new(), good: Vec::new(), not_checked: Vec::new() };
    let wanted = CHECKS.iter().filter(|check| !skip.iter().any(|name| name == check.name));
    for check in wanted {
        match (check.run)(facts) {
            Err(reason) => report.not_checked.push(NotChecked { check: check.name, reason }),
            Ok(found) if found.is_empty() => report.good.push(check.name),
            Ok(found) => report.findings.extend(found),
        }
    }
    report.findings.sort_by_key(|finding| finding.severity);
    report
}

fn print(report: &Report, json: bool) -> Result<ExitCode, Failure> {
    let page = if json {
        serde_json::to_string_pretty(report).map_err(|error| fault(error.to_string()))? + "\n"
    } else {
        text(report)
    };
    say(page.as_bytes()).map_err(|error| fault(error.to_string()))?;
    let wrong = report.findings.iter().any(|finding| finding.severity == Severity::Problem);
    Ok(if wrong { ExitCode::from(WRONG) } else { ExitCode::SUCCESS })
}

/// A paragraph for each finding, and a line on each other check.
fn text(report: &Report) -> String {
    let paragraph = |finding: &Finding| {
        let severity = match finding.severity {
            Severity::Problem => "problem",
            Severity::Note => "note",
        };
        let Finding { check, found, means, fix, .. } = finding;
        format!("{severity} [{check}] {found}\n  means: {means}\n  fix:   {fix}\n\n")
    };
    let mut text: String = report.findings.iter().map(paragraph).collect();
    let good = CHECKS.iter().filter(|check| report.good.contains(&check.name));
    text.extend(good.map(|check| format!("ok [{}] {}\n", check.name, check.good)));
    let not_checked = report.not_checked.iter();
    text.extend(not_checked.map(|it| format!("not checked [{}] {}\n", it.check, it.reason)));
    text
}

fn check_name(name: &str) -> Result<String, String> {
    let names: Vec<_> = CHECKS.iter().map(|check| check.name).collect();
    if names.contains(&name) {
        return Ok(name.to_owned());
    }
    Err(format!("there is no such check; there are {}", names.join(", ")))
}

impl DoctorArgs {
    /// The directory of the certificate.
    fn cert_path(&self) -> Option<&PathBuf> {
        self.tls.cert_path.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::checks::fixture::{cluster, with};

    #[test]
    fn problems_come_before_notes_and_what_is_skipped_is_not_told() {
        let mut broken = cluster();
        broken.routes = Err("forbidden".to_owned());
        broken.service = Ok(None);
        let report = judge(&with(broken), &["clocks".to_owned()]);
        let told: Vec<_> = report.findings.iter().map(|it| (it.check, it.severity)).collect();
        assert_eq!(told, [("picker-service", Severity::Problem), ("routes", Severity::Note)]);
        assert!(report.good.contains(&"pool") && !report.good.contains(&"clocks"));
        let text = text(&report);
        assert!(text.starts_with("problem [picker-service] the InferencePool llm names"), "{text}");
        assert!(text.contains("\n  fix:   make it") && text.contains("\nok [pool] "), "{text}");
    }

    #[test]
    fn a_check_that_had_nothing_to_look_at_is_not_good() {
        let report = judge(&Facts::default(), &[]);
        assert_eq!((report.findings.len(), report.good.len()), (0, 0), "{report:?}");
        assert_eq!(report.not_checked.len(), CHECKS.len());
        let text = text(&report);
        assert!(text.contains("not checked [pool] no cluster is asked\n"), "{text}");
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["not_checked"][1]["check"], "api-server");
        assert_eq!(json["not_checked"][1]["reason"], "no cluster is asked");
    }

    #[test]
    fn of_a_silent_cluster_that_alone_is_told() {
        let mut silent = cluster();
        silent.silent = Some("connection refused".to_owned());
        let report = judge(&with(silent), &[]);
        let told: Vec<_> = report.findings.iter().map(|it| it.check).collect();
        assert_eq!((told, report.good.len()), (vec!["api-server"], 0));
    }

    #[test]
    fn what_is_not_installed_is_not_good() {
        let report = judge(&with(cluster()), &[]);
        let because = |check| report.not_checked.iter().find(|it| it.check == check);
        let because = |check| because(check).map(|it| it.reason);
        assert_eq!(because("gateway-tls"), Some("DestinationRules are not installed"));
        assert_eq!(because("envoy-gateway"), Some("EnvoyExtensionPolicies are not installed"));
        assert!(report.good.contains(&"picker-service"), "{report:?}");
    }

    #[test]
    fn the_page_of_doctor_has_every_check() {
        let page = include_str!("../../docs/doctor.md");
        for check in CHECKS {
            assert!(page.contains(&format!("| `{}` |", check.name)), "{}", check.name);
        }
        assert!(check_name("pool").is_ok() && check_name("pools").is_err());
    }
}
