//! Gives the client its own model name back in the answer.

use std::{fmt, ops::Range};

use bytes::Bytes;

use super::{
    json::{Kind, Lexer, Sink},
    rewrite::{Source, quoted},
    sse::{EventSink, Events},
    usage::Format,
};

/// Replaces one model name by another in an answer as it passes: in the top-level `model` of a JSON answer; in `model`,
/// `response.model` and `message.model` of events. Anything else passes unchanged, as slices.
///
/// Holds back only a value of which it is not yet decided whether it is the name: a few bytes more than the name at most.
pub struct ModelRestorer {
    body: Body,
    names: Names,
    /// The new name as JSON.
    to: Bytes,
    /// Bytes that were seen but not given on.
    held: Vec<Bytes>,
    /// Offset of the first of them.
    held_from: usize,
    /// Bytes seen.
    length: usize,
}

impl ModelRestorer {
    /// Replaces `from` by `to` in an answer with this `content-type`; types that are neither JSON nor an event stream
    /// pass unchanged.
    pub fn new(from: &str, to: &str, content_type: &[u8]) -> Self {
        let body = match Format::of(content_type) {
            _ if from == to || from.is_empty() => Body::Unread,
            Format::Json => Body::Json(Box::default()),
            Format::Events => Body::Events(Box::default()),
            Format::Grpc | Format::Other => Body::Unread,
        };
        let envelopes = matches!(body, Body::Events(_));
        Self {
            body,
            names: Names::new(from, envelopes),
            to: quoted(to),
            held: Vec::new(),
            held_from: 0,
            length: 0,
        }
    }

    /// Takes the next piece and appends what can be given on to `out`; with the `last` one that is all.
    pub fn push(&mut self, piece: Bytes, last: bool, out: &mut Vec<Bytes>) {
        let base = self.length;
        self.length += piece.len();
        match &mut self.body {
            Body::Unread => {}
            Body::Json(lexer) => {
                if lexer.feed(base, &piece, &mut self.names).is_err() {
                    self.names.reset();
                    self.body = Body::Unread;
                }
            }
            Body::Events(events) => events.feed(base, &piece, &mut self.names),
        }
        let undecided = self.names.undecided().filter(|_| !last);
        if !piece.is_empty() {
            self.held.push(piece);
        }
        self.give(undecided.unwrap_or(self.length), out);
    }

    /// Gives on what is held before the offset `to`.
    fn give(&mut self, to: usize, out: &mut Vec<Bytes>) {
        let held = std::mem::take(&mut self.held);
        let mut source = Source::new(&held, self.held_from);
        for span in self.names.found.drain(..) {
            source.advance(span.start, |bytes| out.push(bytes));
            source.advance(span.end, drop);
            out.push(self.to.clone());
        }
        source.advance(to, |bytes| out.push(bytes));
        source.advance(usize::MAX, |bytes| self.held.push(bytes));
        self.held_from = to;
    }
}

impl fmt::Debug for ModelRestorer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelRestorer").field("length", &self.length).finish_non_exhaustive()
    }
}

enum Body {
    Unread,
    Json(Box<Lexer>),
    Events(Box<Events>),
}

/// Finds the values to replace.
struct Names {
    from: Box<[u8]>,
    envelopes: bool,
    /// Whether the level in question is an object on the way to a model: the document, then its envelope.
    depth: usize,
    /// Depth down to which the path leads through objects that may hold a model.
    trail: usize,
    key: Key,
    /// Where the value begins that may turn out to be the name.
    start: Option<usize>,
    /// How much of the name it has matched.
    matched: usize,
    /// Values to replace that were not yet given on; those of one piece.
    found: Vec<Range<usize>>,
}

impl Names {
    fn new(from: &str, envelopes: bool) -> Self {
        Self {
            from: from.as_bytes().into(),
            envelopes,
            depth: 0,
            trail: 0,
            key: Key::Envelope,
            start: None,
            matched: 0,
            found: Vec::new(),
        }
    }

    /// Where a value begins that may still become the name.
    fn undecided(&self) -> Option<usize> {
        self.start
    }
}

impl EventSink for Names {
    fn reset(&mut self) {
        self.depth = 0;
        self.trail = 0;
        self.key = Key::Envelope;
        self.start = None;
    }
}

impl Sink for Names {
    fn open(&mut self, kind: Kind, _at: usize) {
        if self.trail == self.depth && kind == Kind::Object && self.key == Key::Envelope {
            self.trail += 1;
        }
        self.depth += 1;
        self.key = Key::Other;
    }

    fn close(&mut self, _at: usize) {
        self.depth = self.depth.saturating_sub(1);
        self.trail = self.trail.min(self.depth);
        self.key = Key::Other;
    }

    fn key(&mut self, key: &[u8]) {
        self.key = match key {
            _ if self.trail != self.depth => Key::Other,
            b"model" => Key::Model,
            b"response" | b"message" if self.envelopes && self.depth == 1 => Key::Envelope,
            _ => Key::Other,
        };
    }

    fn string_open(&mut self, at: usize) {
        self.start = (self.key == Key::Model).then_some(at);
        self.matched = 0;
    }

    fn string_part(&mut self, part: &[u8]) {
        let expected = self.from.get(self.matched..).unwrap_or_default();
        if expected.starts_with(part) {
            self.matched += part.len();
        } else {
            self.start = None;
        }
    }

    fn string_close(&mut self, at: usize) {
        if let Some(start) = self.start.take()
            && self.matched == self.from.len()
        {
            self.found.push(start..at);
        }
        self.key = Key::Other;
    }

    fn scalar(&mut self, _text: &[u8], _span: Range<usize>) {
        self.key = Key::Other;
    }
}

/// What the next value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Key {
    Model,
    /// The document, or what may hold another model.
    Envelope,
    Other,
}

#[cfg(test)]
mod tests;
