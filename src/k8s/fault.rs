//! Why the API server did not give what it was asked for, and what that says of the watch.

use std::error::Error;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use kube::core::Status;

/// The longest wait that an API server may ask for.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// The reason where a version, or the token of a page, is too old.
pub(super) const EXPIRED: &str = "expired";

/// How far a watch has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// Not asked yet.
    #[default]
    Starting,
    /// What is known is what the API server has.
    Following,
    /// The API server has no such kind.
    Absent,
    /// We may not ask for it.
    Forbidden,
    /// No answer.
    Unreachable,
    /// An answer that is of no use.
    Failing,
}

impl State {
    /// All states.
    pub(super) const ALL: [Self; 6] = [
        Self::Starting,
        Self::Following,
        Self::Absent,
        Self::Forbidden,
        Self::Unreachable,
        Self::Failing,
    ];

    /// As metrics have it.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Following => "following",
            Self::Absent => "absent",
            Self::Forbidden => "forbidden",
            Self::Unreachable => "unreachable",
            Self::Failing => "failing",
        }
    }
}

/// What went wrong, once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// What it says of the watch.
    pub(super) state: State,
    /// As metrics have it.
    pub(super) reason: &'static str,
    /// In words.
    pub(super) text: Arc<str>,
    /// Not to be asked again before.
    pub(super) wait: Duration,
}

impl Fault {
    /// There was no answer within `limit`.
    pub(super) fn silent(limit: Duration) -> Self {
        let text = format!("no answer within {limit:?}").into();
        Self { state: State::Unreachable, reason: "unreachable", text, wait: Duration::ZERO }
    }

    /// The answer lacks what it must have.
    pub(super) fn malformed(text: impl Into<Arc<str>>) -> Self {
        Self { state: State::Failing, reason: "malformed", text: text.into(), wait: Duration::ZERO }
    }

    /// Whether it concerns all objects of a kind, and not the one that was asked for.
    pub(super) fn of_all(&self) -> bool {
        matches!(self.state, State::Forbidden | State::Unreachable)
            || matches!(self.reason, "throttled" | "server_error" | "unauthorized")
    }

    /// The API server refused.
    pub(super) fn refused(status: &Status) -> Self {
        let (state, reason) = match status.code {
            // The client takes any JSON for a refusal that is not what was asked for.
            0 => return Self::malformed("an answer that cannot be read"),
            401 => (State::Failing, "unauthorized"),
            403 => (State::Forbidden, "forbidden"),
            404 => (State::Absent, "absent"),
            410 => (State::Failing, EXPIRED),
            429 => (State::Failing, "throttled"),
            500.. => (State::Failing, "server_error"),
            _ => (State::Failing, "refused"),
        };
        let wait = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        let wait = Duration::from_secs(u64::from(wait)).min(LONGEST_WAIT);
        let text = match status.message.as_str() {
            "" => format!("status {}", status.code).into(),
            message => message.into(),
        };
        Self { state, reason, text, wait }
    }
}

impl From<kube::Error> for Fault {
    fn from(error: kube::Error) -> Self {
        if let kube::Error::Api(status) = &error {
            return Self::refused(status);
        }
        if let kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) = &error {
            return Self::malformed(chain(&error));
        }
        let text = if let kube::Error::Service(cause) = &error {
            // Its own words are the name of a type.
            chain(&**cause).into()
        } else {
            chain(&error).into()
        };
        Self { state: State::Unreachable, reason: "unreachable", text, wait: Duration::ZERO }
    }
}

/// An error and its causes in one line; what a cause repeats is left out.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            write!(text, ": {next}").ok();
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16) -> Status {
        Status::failure("message", "Reason").with_code(code)
    }

    #[test]
    fn refusals_are_told_apart_by_their_code() {
        let told = |code| {
            let fault = Fault::refused(&status(code));
            (fault.state.label(), fault.reason)
        };
        assert_eq!(told(401), ("failing", "unauthorized"));
        assert_eq!(told(403), ("forbidden", "forbidden"));
        assert_eq!(told(404), ("absent", "absent"));
        assert_eq!(told(410), ("failing", "expired"));
        assert_eq!(told(429), ("failing", "throttled"));
        assert_eq!(told(503), ("failing", "server_error"));
        assert_eq!(told(400), ("failing", "refused"));
    }

    #[test]
    fn the_wait_that_is_asked_for_is_bounded() {
        let asked = |seconds| {
            let details = serde_json::json!({"retryAfterSeconds": seconds});
            let mut status = status(429);
            status.details = serde_json::from_value(details).unwrap();
            Fault::refused(&status).wait
        };
        assert_eq!(asked(7), Duration::from_secs(7));
        assert_eq!(asked(86_400), LONGEST_WAIT);
        assert_eq!(Fault::refused(&status(429)).wait, Duration::ZERO);
    }
}
