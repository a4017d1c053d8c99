//! What is found, and the table of what is looked for.

use serde::Serialize;

use super::checks;
use super::facts::{Facts, Reason};

/// What a check found, or why it had nothing to look at: then nothing is said of what it looks for.
pub(in crate::cli) type Outcome = Result<Vec<Finding>, Reason>;

/// Something that a person should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct Finding {
    /// Which check says so.
    pub(super) check: &'static str,
    /// Whether it is wrong.
    pub(super) severity: Severity,
    /// What is as it should not be.
    pub(super) found: String,
    /// What follows from it.
    pub(super) means: String,
    /// What to do.
    pub(super) fix: String,
}

/// Whether a finding is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::cli) enum Severity {
    /// Something does not work as it should.
    Problem,
    /// It could not be looked at, or may be meant.
    Note,
}

/// One thing that is looked for.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Check {
    /// One lowercase word, or two with a dash.
    pub(super) name: &'static str,
    /// What is good when nothing is found.
    pub(super) good: &'static str,
    /// Finds.
    pub(super) run: fn(&Facts) -> Outcome,
}

impl Finding {
    /// Something that does not work as it should.
    pub(super) fn problem(
        check: Check,
        found: impl Into<String>,
        means: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            check: check.name,
            severity: Severity::Problem,
            found: found.into(),
            means: means.into(),
            fix: fix.into(),
        }
    }

    /// The same where it may be meant, or could not be looked at.
    #[must_use]
    pub(super) fn noted(self) -> Self {
        Self { severity: Severity::Note, ..self }
    }

    /// Something could not be looked at.
    pub(super) fn unseen(check: Check, what: &str, why: &str, fix: impl Into<String>) -> Self {
        let found = format!("{what} cannot be read: {why}");
        Self::problem(check, found, "not checked", fix).noted()
    }
}

/// All checks, in the order in which a person would go about it.
pub(in crate::cli) const CHECKS: &[Check] = &[
    checks::configuration::CHECK,
    checks::api::CHECK,
    checks::crds::CHECK,
    checks::rights::CHECK,
    checks::pool::CHECK,
    checks::ports::CHECK,
    checks::service::CHECK,
    checks::metrics::CHECK,
    checks::prefix_caching::CHECK,
    checks::certificate::CHECK,
    checks::gateway_tls::CHECK,
    checks::route::CHECK,
    checks::envoy_gateway::CHECK,
    checks::clock::CHECK,
];
