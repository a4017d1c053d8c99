//! Why a status was not written, and what that says of other writes.

use std::sync::Arc;
use std::time::Duration;

use kube::core::Status;

use crate::k8s::fault::{Fault, State};

/// Before something that was refused is tried again: permissions are given by people.
const REFUSED: Duration = Duration::from_mins(1);

/// Before anything is written again when the API server has trouble.
const TROUBLE: Duration = Duration::from_secs(5);

/// The reason that the API server gives for each field that another manager has.
const CLAIMED: &str = "FieldManagerConflict";

/// A write that did not succeed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// As metrics have it.
    pub(super) result: &'static str,
    /// What else would be refused.
    pub(super) reach: Reach,
    /// Not to be tried again before.
    pub(super) wait: Duration,
    /// In words.
    pub(super) text: Arc<str>,
}

/// What is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// What was made of this version of the object, which there is no more.
    Version,
    /// The object's status.
    Object,
    /// The status of all objects of the kind.
    Kind,
    /// Everything.
    All,
}

impl From<kube::Error> for Refusal {
    fn from(error: kube::Error) -> Self {
        let refused = if let kube::Error::Api(status) = &error { of(status) } else { None };
        let fault = Fault::from(error);
        match refused {
            Some((result, reach)) => Self { result, reach, wait: REFUSED, text: fault.text },
            None => fault.into(),
        }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        let Fault { state, reason, text, wait } = fault;
        if state == State::Forbidden {
            return Self { result: reason, reach: Reach::Kind, wait: REFUSED, text };
        }
        Self { result: reason, reach: Reach::All, wait: wait.max(TROUBLE), text }
    }
}

/// The result and the reach of an answer that is about one object.
fn of(status: &Status) -> Option<(&'static str, Reach)> {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    match status.code {
        401 | 403 => None,
        404 => Some(("absent", Reach::Object)),
        409 if causes.any(|cause| cause.reason == CLAIMED) => Some(("claimed", Reach::Object)),
        409 => Some(("outdated", Reach::Version)),
        400..=428 => Some(("refused", Reach::Object)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(code: u16, cause: &str) -> (&'static str, Reach, Duration) {
        let status = json!({"code": code, "message": "words",
            "details": {"retryAfterSeconds": 7, "causes": [{"reason": cause, "message": "", "field": ""}]}});
        let status: Status = serde_json::from_value(status).unwrap();
        let Refusal { result, reach, wait, text } = kube::Error::Api(status.boxed()).into();
        assert_eq!(&*text, "words");
        (result, reach, wait)
    }

    #[test]
    fn answers_are_told_apart() {
        assert_eq!(refusal(401, ""), ("unauthorized", Reach::All, Duration::from_secs(7)));
        assert_eq!(refusal(403, ""), ("forbidden", Reach::Kind, REFUSED));
        assert_eq!(refusal(404, ""), ("absent", Reach::Object, REFUSED));
        assert_eq!(refusal(409, ""), ("outdated", Reach::Version, REFUSED));
        assert_eq!(refusal(409, CLAIMED), ("claimed", Reach::Object, REFUSED));
        assert_eq!(refusal(422, ""), ("refused", Reach::Object, REFUSED));
        assert_eq!(refusal(429, ""), ("throttled", Reach::All, Duration::from_secs(7)));
        assert_eq!(refusal(500, ""), ("server_error", Reach::All, Duration::from_secs(7)));
        let silent = Refusal::from(Fault::silent(TROUBLE));
        assert_eq!((silent.reach, silent.wait), (Reach::All, TROUBLE));
    }
}
