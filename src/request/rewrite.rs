//! Replaces the model name in a body; every other byte stays what and where it was.

use std::{ops::Range, slice};

use bytes::Bytes;

use super::{ModelField, Parsed, Spans};

impl Parsed {
    /// Takes what the scan found: without a name the values still count as places where a server looks for one.
    pub(super) fn name_model(&mut self, name: Option<Box<str>>, spans: Spans) {
        match name {
            Some(name) => self.model = Some(ModelField { name, spans }),
            None => self.stray = spans,
        }
    }

    /// Forgets where things stand, for a body whose document is wrapped: nothing can be spliced.
    pub(super) fn without_offsets(mut self) -> Self {
        self.insert_at = None;
        self.stray.clear();
        if let Some(model) = &mut self.model {
            model.spans.clear();
        }
        self
    }

    pub(super) fn model_spans(&self) -> &[Range<usize>] {
        self.model.as_ref().map_or(&self.stray, |model| &model.spans)
    }
}

/// The body with every top-level `model` value replaced by `name`, or with a `model` inserted where there is none,
/// and its new length. Unchanged bytes stay slices of `pieces`, which must be those that were scanned; a body that was
/// not read is given back as it is.
pub fn rewrite(pieces: &[Bytes], parsed: &Parsed, name: &str) -> (Vec<Bytes>, usize) {
    let value = quoted(name);
    let spans = parsed.model_spans();
    let mut out = Vec::with_capacity(pieces.len() + 2 * spans.len() + 2);
    let mut source = Source::new(pieces, 0);
    for span in spans {
        source.advance(span.start, |bytes| out.push(bytes));
        source.advance(span.end, drop);
        out.push(value.clone());
    }
    if let (true, Some(at)) = (spans.is_empty(), parsed.insert_at) {
        source.advance(at, |bytes| out.push(bytes));
        let comma: &[u8] = if source.peek() == Some(b'}') { b"" } else { b"," };
        out.push(Bytes::from([b"\"model\":", &*value, comma].concat()));
    }
    source.advance(usize::MAX, |bytes| out.push(bytes));
    let length = out.iter().map(Bytes::len).sum();
    (out, length)
}

/// `name` as a JSON string, quotes included.
pub(super) fn quoted(name: &str) -> Bytes {
    Bytes::from(serde_json::Value::from(name).to_string())
}

/// Pieces of a body, taken from the front.
pub(super) struct Source<'a> {
    current: Bytes,
    rest: slice::Iter<'a, Bytes>,
    /// Absolute offset up to which all was taken or skipped.
    at: usize,
}

impl<'a> Source<'a> {
    /// Pieces whose first byte has the absolute offset `at`.
    pub(super) fn new(pieces: &'a [Bytes], at: usize) -> Self {
        Self { current: Bytes::new(), rest: pieces.iter(), at }
    }

    /// Gives the bytes up to the offset `to` to `keep`, in slices.
    pub(super) fn advance(&mut self, to: usize, mut keep: impl FnMut(Bytes)) {
        while self.at < to && self.refill() {
            let length = self.current.len().min(to - self.at);
            keep(self.current.split_to(length));
            self.at += length;
        }
    }

    /// Goes on to the next piece where one is at its end; false at the end of all.
    fn refill(&mut self) -> bool {
        while self.current.is_empty() {
            let Some(next) = self.rest.next() else { return false };
            self.current = next.clone();
        }
        true
    }

    /// The first byte ahead that is no white space.
    fn peek(&self) -> Option<u8> {
        let ahead = self.current.iter().chain(self.rest.clone().flatten());
        ahead.copied().find(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
    }
}

#[cfg(test)]
mod tests;
