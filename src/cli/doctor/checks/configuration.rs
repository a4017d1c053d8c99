//! The configuration file, as `lodesman check` sees it.

use crate::cli::doctor::facts::Facts;
use crate::cli::doctor::finding::{Check, Finding, Outcome};
use crate::config::{Problem, Severity};

pub(in crate::cli::doctor) const CHECK: Check =
    Check { name: "configuration", good: "the configuration can be used", run };

fn run(facts: &Facts) -> Outcome {
    match &facts.configuration {
        None => Err("no configuration is given"),
        Some(Err(why)) => Ok(vec![Finding::problem(
            CHECK,
            format!("the configuration cannot be read: {why}"),
            "the picker does not start",
            "name a file that is there by --config-file",
        )]),
        Some(Ok(problems)) => Ok(problems.iter().map(told).collect()),
    }
}

fn told(problem: &Problem) -> Finding {
    let line = problem.line.map(|line| format!("line {line}, ")).unwrap_or_default();
    let found = format!("{line}{}: {}", problem.path, problem.message);
    let fix = problem.hint.clone().unwrap_or_else(|| "see `lodesman check FILE`".to_owned());
    match problem.severity {
        Severity::Error => Finding::problem(CHECK, found, "the picker does not start with it", fix),
        Severity::Warning => Finding::problem(CHECK, found, "it has no effect", fix).noted(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::checks::fixture::told;

    #[test]
    fn errors_are_problems_and_warnings_are_noted() {
        let problems = vec![
            Problem::error("plugins[0]", "there is no such plugin"),
            Problem::warning("plugins[1]", "a weight without an effect"),
        ];
        let facts = Facts { configuration: Some(Ok(problems)), ..Facts::default() };
        assert_eq!(
            told(CHECK, &facts),
            [
                "problem: plugins[0]: there is no such plugin",
                "note: plugins[1]: a weight without an effect"
            ]
        );
        let unread = Facts { configuration: Some(Err("no such file".into())), ..Facts::default() };
        assert_eq!(
            told(CHECK, &unread),
            ["problem: the configuration cannot be read: no such file"]
        );
    }
}
