//! What is to be said of an object to its author: its status conditions.

use std::fmt;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::objects::{Entry, Kind};

/// Whether the object is in effect, at least in part.
pub const ACCEPTED: &str = "Accepted";

/// Whether another object stands over this one.
pub const CONFLICTED: &str = "Conflicted";

/// So many findings of one sort are spelled out; the others are counted.
const SPELLED: usize = 4;

/// Characters of a name in a message.
const LONGEST_NAME: usize = 64;

/// Bytes of a message; the note of an Event may have 1,024.
const LONGEST_MESSAGE: usize = 1_000;

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
        let resource = self.kind.resource();
        ObjectReference {
            api_version: Some(resource.api_version),
            kind: Some(resource.kind),
            namespace: Some(namespace.to_owned()),
            name: Some(self.name.clone().into()),
            uid: Some(self.uid.clone().into()),
            ..ObjectReference::default()
        }
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

/// What was found while an object was judged.
#[derive(Debug, Default)]
pub(super) struct Findings {
    in_effect: bool,
    conflicts: Notes,
    invalid: Notes,
    remarks: Notes,
}

impl Findings {
    /// A part of the object is in effect.
    pub(super) fn in_effect(&mut self) {
        self.in_effect = true;
    }

    /// A part of the object gives way to another object.
    pub(super) fn conflict(&mut self, reason: Reason, text: impl FnOnce() -> String) {
        self.conflicts.add(reason, text);
    }

    /// A part of the object makes no sense.
    pub(super) fn invalid(&mut self, reason: Reason, text: impl FnOnce() -> String) {
        self.invalid.add(reason, text);
    }

    /// Something that does no harm, but is not as its author may think.
    pub(super) fn remark(&mut self, text: impl FnOnce() -> String) {
        self.remarks.add(Reason::Accepted, text);
    }

    fn fault(&self) -> Option<Reason> {
        self.invalid.reason.or(self.conflicts.reason)
    }

    fn accepted(&self) -> Wanted {
        let fault = self.fault();
        let reason = match fault {
            None => Reason::Accepted,
            Some(_) if self.in_effect => Reason::PartlyAccepted,
            Some(reason) => reason,
        };
        let notes = [&self.invalid, &self.conflicts, &self.remarks];
        let texts: Vec<_> =
            notes.iter().filter(|notes| notes.count > 0).map(ToString::to_string).collect();
        let message =
            if texts.is_empty() { "in effect".to_owned() } else { shortened(texts.join("; ")) };
        let holds = self.in_effect || fault.is_none();
        Wanted { kind: ACCEPTED, holds, reason, message }
    }

    fn conflicted(&self) -> Option<Wanted> {
        let reason = self.conflicts.reason?;
        let message = shortened(self.conflicts.to_string());
        Some(Wanted { kind: CONFLICTED, holds: true, reason, message })
    }
}

/// Findings of one sort.
#[derive(Debug, Default)]
struct Notes {
    /// The first one's.
    reason: Option<Reason>,
    texts: Vec<String>,
    count: usize,
}

impl Notes {
    fn add(&mut self, reason: Reason, text: impl FnOnce() -> String) {
        self.reason.get_or_insert(reason);
        self.count += 1;
        if self.texts.len() < SPELLED {
            self.texts.push(text());
        }
    }
}

impl fmt::Display for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.texts.join("; "))?;
        match self.count - self.texts.len() {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// A name from an object, as it stands in a message.
pub(super) fn quoted(name: &str) -> String {
    let short: String = name.chars().take(LONGEST_NAME).collect();
    let more = if short.len() < name.len() { "…" } else { "" };
    format!("{short:?}{more}")
}

/// A message that is not longer than it may be.
pub(super) fn shortened(mut message: String) -> String {
    if message.len() > LONGEST_MESSAGE {
        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE - '…'.len_utf8()));
        message.push('…');
    }
    message
}

#[cfg(test)]
mod tests;
