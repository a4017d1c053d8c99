//! What is to be said of an object to its author: its status conditions.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::objects::{Entry, Kind};

pub(super) use self::findings::{Findings, quoted, shortened};

mod findings;

/// Whether the object is in effect, at least in part.
pub const ACCEPTED: &str = "Accepted";

/// Whether another object stands over this one.
pub const CONFLICTED: &str = "Conflicted";

/// What an object's status is to say, and what it says.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Of which kind the object is.
    pub kind: Kind,
    /// Its name, in the pool's namespace.
    pub name: Box<str>,
    /// Its UID.
    pub uid: Box<str>,
    /// The resource version that was seen.
    pub version: Box<str>,
    /// The generation of the spec that was judged.
    pub generation: Option<i64>,
    /// What the status is to say; `Accepted` is always the first.
    pub wanted: Vec<Wanted>,
    /// The first thing that is wrong with it, none when all of it is in effect.
    pub fault: Option<Reason>,
    /// All conditions that the status has, of whoever wrote them.
    pub present: Box<[Condition]>,
}

impl Verdict {
    /// `Conflicted` is said where there is a conflict or was one.
    pub(super) fn new(kind: Kind, entry: &Entry, findings: &Findings) -> Self {
        let was = entry.present.iter().any(|condition| condition.type_ == CONFLICTED);
        let conflicted = findings.conflicted().or_else(|| was.then(Wanted::no_conflict));
        Self {
            kind,
            name: entry.name.clone(),
            uid: entry.uid.clone(),
            version: entry.version.clone(),
            generation: entry.generation,
            fault: findings.fault(),
            wanted: [Some(findings.accepted()), conflicted].into_iter().flatten().collect(),
            present: entry.present.clone(),
        }
    }

    /// The conditions to write, none when all of them are there. The time of a transition stays while the status does.
    pub fn due(&self, now: &Time) -> Option<Vec<Condition>> {
        let of =
            |wanted: &Wanted| self.present.iter().find(|condition| condition.type_ == wanted.kind);
        let condition = |wanted: &Wanted| {
            let same = of(wanted).filter(|present| present.status == wanted.status());
            let since = same.map_or(now, |present| &present.last_transition_time);
            Condition {
                type_: wanted.kind.to_owned(),
                status: wanted.status().to_owned(),
                reason: wanted.reason.as_str().to_owned(),
                message: wanted.message.clone(),
                observed_generation: self.generation,
                last_transition_time: since.clone(),
            }
        };
        let due: Vec<_> = self.wanted.iter().map(condition).collect();
        let said = due.iter().all(|condition| self.present.contains(condition));
        (!said).then_some(due)
    }

    /// The object, as an Event has it.
    pub(super) fn reference(&self, namespace: &str) -> ObjectReference {
        let object = super::reference(&self.kind.resource(), namespace, &self.name);
        ObjectReference { uid: Some(self.uid.clone().into()), ..object }
    }

    /// What the author should hear of although nobody looks at the status: what is wrong, and the condition that says so.
    pub(super) fn warning(&self) -> Option<(Reason, &Wanted)> {
        self.fault.zip(self.wanted.first())
    }
}

/// A condition as it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its type.
    pub kind: &'static str,
    /// `True` or `False`.
    pub holds: bool,
    /// Why, for programs.
    pub reason: Reason,
    /// Why, for people; at most 1,000 bytes.
    pub message: String,
}

impl Wanted {
    fn no_conflict() -> Self {
        let message = "no other object stands over this one".to_owned();
        Self { kind: CONFLICTED, holds: false, reason: Reason::NoConflicts, message }
    }

    /// Whether the object says so already, whatever the generation.
    pub(super) fn is(&self, present: &Condition) -> bool {
        present.type_ == self.kind
            && present.status == self.status()
            && present.reason == self.reason.as_str()
            && present.message == self.message
    }

    fn status(&self) -> &'static str {
        if self.holds { "True" } else { "False" }
    }
}

/// Why a condition is as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// All of it is in effect.
    Accepted,
    /// A part of it is in effect, the message says what is not.
    PartlyAccepted,
    /// Another object stands over it.
    Conflicted,
    /// An older object has the model's name.
    ModelNameInUse,
    /// Targets are missing or have no name.
    InvalidTargets,
    /// A match is of an unknown type or has no model name.
    UnsupportedMatch,
    /// The model's name is empty.
    InvalidModelName,
    /// There was a conflict, there is none.
    NoConflicts,
}

impl Reason {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::PartlyAccepted => "PartlyAccepted",
            Self::Conflicted => "Conflicted",
            Self::ModelNameInUse => "ModelNameInUse",
            Self::InvalidTargets => "InvalidTargets",
            Self::UnsupportedMatch => "UnsupportedMatch",
            Self::InvalidModelName => "InvalidModelName",
            Self::NoConflicts => "NoConflicts",
        }
    }
}

#[cfg(test)]
mod tests;
