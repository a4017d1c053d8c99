//! What is found while an object is judged, and how it is put into words.

use std::fmt;

use super::{ACCEPTED, CONFLICTED, Reason, Wanted};

/// So many findings of one sort are spelled out; the others are counted.
const SPELLED: usize = 4;

/// Characters of a name in a message.
const LONGEST_NAME: usize = 64;

/// Bytes of a message; the note of an Event may have 1,024.
const LONGEST_MESSAGE: usize = 1_000;

/// What was found while an object was judged.
#[derive(Debug, Default)]
pub(in crate::k8s) struct Findings {
    in_effect: bool,
    conflicts: Notes,
    invalid: Notes,
    remarks: Notes,
}

impl Findings {
    /// A part of the object is in effect.
    pub(in crate::k8s) fn in_effect(&mut self) {
        self.in_effect = true;
    }

    /// A part of the object gives way to another object.
    pub(in crate::k8s) fn conflict(&mut self, reason: Reason, text: impl FnOnce() -> String) {
        self.conflicts.add(reason, text);
    }

    /// A part of the object makes no sense.
    pub(in crate::k8s) fn invalid(&mut self, reason: Reason, text: impl FnOnce() -> String) {
        self.invalid.add(reason, text);
    }

    /// Something that does no harm, but is not as its author may think.
    pub(in crate::k8s) fn remark(&mut self, text: impl FnOnce() -> String) {
        self.remarks.add(Reason::Accepted, text);
    }

    /// The first thing that is wrong.
    pub(in crate::k8s) fn fault(&self) -> Option<Reason> {
        self.invalid.reason.or(self.conflicts.reason)
    }

    /// The condition that every object has.
    pub(in crate::k8s) fn accepted(&self) -> Wanted {
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

    /// The condition of an object that gives way.
    pub(in crate::k8s) fn conflicted(&self) -> Option<Wanted> {
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
pub(in crate::k8s) fn quoted(name: &str) -> String {
    let short: String = name.chars().take(LONGEST_NAME).collect();
    let more = if short.len() < name.len() { "…" } else { "" };
    format!("{short:?}{more}")
}

/// A message that is not longer than it may be.
pub(in crate::k8s) fn shortened(mut message: String) -> String {
    if message.len() > LONGEST_MESSAGE {
        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE - '…'.len_utf8()));
        message.push('…');
    }
    message
}
