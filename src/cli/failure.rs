//! Why a command ends without what it was asked for.

use std::process::ExitCode;

use crate::cli::{CONFIGURATION, FAULT, USAGE, fail};

/// What is told on standard error, and the exit code.
pub(super) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// Why, for whoever goes on.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// Says why.
    pub(super) fn tell(&self) -> ExitCode {
        fail(self.code, &self.message)
    }
}

/// What was given is wrong.
pub(super) fn usage(message: impl Into<String>) -> Failure {
    Failure { code: USAGE, message: message.into() }
}

/// What a file says is wrong.
pub(super) fn bad(message: impl Into<String>) -> Failure {
    Failure { code: CONFIGURATION, message: message.into() }
}

/// The fault is ours, or the machine's.
pub(super) fn fault(message: impl Into<String>) -> Failure {
    Failure { code: FAULT, message: message.into() }
}
