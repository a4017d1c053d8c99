//! JSON documents out of an event stream that is cut anywhere.
//!
//! Lines end with LF, CR or CRLF; `data:` may lack its space; comments and other fields are skipped. A document may
//! span several `data` lines of one event, and a `data` line after a whole document begins the next, as some servers
//! leave out the blank line between.

use memchr::memchr2;
use smallvec::SmallVec;

use super::json::{Lexer, Sink};

const FIELD: &[u8] = b"data:";
/// Enough to tell the terminator from anything longer.
const HEAD: usize = 8;
const TERMINATOR: &[u8] = b"[DONE]";

/// Takes the documents that the events carry.
pub(super) trait EventSink: Sink {
    /// Whether an event that lies whole before us has to be read.
    fn wants(&mut self, _document: &[u8]) -> bool {
        true
    }

    /// A document begins, or one is given up in the midst.
    fn reset(&mut self);

    /// An event with data that is not the terminator has passed, or its first line.
    fn passed(&mut self) {}
}

/// The state between two pieces.
#[derive(Default)]
pub(super) struct Events {
    line: Line,
    /// The last byte was a CR: a LF next belongs to it.
    cr: bool,
    reading: Reading,
    lexer: Lexer,
    /// The document was reported as passed.
    counted: bool,
    /// The document's first bytes.
    head: SmallVec<[u8; HEAD]>,
}

impl Events {
    /// Reads the next piece, whose first byte has the offset `base`.
    pub(super) fn feed(&mut self, base: usize, piece: &[u8], sink: &mut impl EventSink) {
        let mut i = 0;
        while let Some(rest) = piece.get(i..).filter(|rest| !rest.is_empty()) {
            i += self.step(base + i, rest, sink);
        }
    }

    /// Reads from `rest`, which is not empty; returns how many bytes it took.
    fn step(&mut self, at: usize, rest: &[u8], sink: &mut impl EventSink) -> usize {
        if std::mem::take(&mut self.cr) && rest.first() == Some(&b'\n') {
            return 1;
        }
        match self.line {
            Line::Start(0) if self.reading == Reading::Idle => {
                if let Some(length) = whole_event(at, rest, sink) {
                    return length;
                }
                self.start(0, rest)
            }
            Line::Start(matched) => self.start(matched, rest),
            Line::Colon => {
                self.line = Line::Fresh;
                usize::from(rest.first() == Some(&b' '))
            }
            Line::Fresh | Line::Data => {
                let length = memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
                let (part, end) = rest.split_at(length);
                self.data(at, part, sink);
                if end.is_empty() {
                    return length;
                }
                self.end_data(at + length, sink);
                length + self.end_line(end)
            }
            Line::Other => match memchr2(b'\n', b'\r', rest) {
                None => rest.len(),
                Some(length) => length + self.end_line(rest.get(length..).unwrap_or_default()),
            },
        }
    }

    /// Takes one byte of a line's name, of which `matched` bytes are those of `data:`.
    fn start(&mut self, matched: usize, rest: &[u8]) -> usize {
        let byte = rest.first().copied().unwrap_or_default();
        if matches!(byte, b'\n' | b'\r') {
            if matched == 0 {
                self.reading = Reading::Idle;
            }
            return self.end_line(rest);
        }
        self.line = match FIELD.get(matched) {
            Some(expected) if *expected != byte => Line::Other,
            _ if matched + 1 == FIELD.len() => Line::Colon,
            _ => Line::Start(matched + 1),
        };
        1
    }

    /// Takes a part of a data line.
    fn data(&mut self, at: usize, part: &[u8], sink: &mut impl EventSink) {
        if part.is_empty() {
            return;
        }
        let over = self.reading == Reading::Broken || self.lexer.done();
        if self.reading == Reading::Idle || self.line == Line::Fresh && over {
            sink.reset();
            self.lexer = Lexer::default();
            self.reading = Reading::Document;
            self.counted = false;
            self.head.clear();
        }
        self.line = Line::Data;
        let room = HEAD - self.head.len().min(HEAD);
        self.head.extend_from_slice(part.get(..room).unwrap_or(part));
        self.lex(at, part, sink);
    }

    fn end_data(&mut self, at: usize, sink: &mut impl EventSink) {
        if self.reading != Reading::Idle && !self.counted {
            self.counted = true;
            if !terminates(&self.head) {
                sink.passed();
            }
        }
        if !self.lexer.done() {
            self.lex(at, b"\n", sink);
        }
    }

    fn lex(&mut self, at: usize, part: &[u8], sink: &mut impl EventSink) {
        if self.reading == Reading::Document && self.lexer.feed(at, part, sink).is_err() {
            self.reading = Reading::Broken;
            sink.reset();
        }
    }

    /// Takes a line's end, with which `rest` begins; returns its length as far as it is there.
    fn end_line(&mut self, rest: &[u8]) -> usize {
        let length = newline(rest);
        self.cr = length == rest.len() && rest.ends_with(b"\r");
        self.line = Line::Start(0);
        length
    }
}

/// Where in a line we are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Line {
    /// In the name, of which so many bytes are those of `data:`.
    Start(usize),
    /// After the colon.
    Colon,
    /// Before the first byte of data.
    Fresh,
    Data,
    Other,
}

impl Default for Line {
    fn default() -> Self {
        Self::Start(0)
    }
}

/// What becomes of the present event's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Reading {
    /// There was none.
    #[default]
    Idle,
    Document,
    /// It is no JSON.
    Broken,
}

/// Takes an event of one line that lies in `rest` with its blank line; returns its length.
///
/// A LF that belongs to its last CR will pass for one more blank line.
fn whole_event(at: usize, rest: &[u8], sink: &mut impl EventSink) -> Option<usize> {
    let field = rest.strip_prefix(FIELD)?;
    let document = field.strip_prefix(b" ").unwrap_or(field);
    let (document, end) = document.split_at_checked(memchr2(b'\n', b'\r', document)?)?;
    let blank = end.get(newline(end)..)?;
    let after = blank.get(newline(blank)..).filter(|after| after.len() < blank.len())?;
    if !document.is_empty() && !terminates(document) {
        whole_document(at + rest.len() - end.len() - document.len(), document, sink);
        sink.passed();
    }
    Some(rest.len() - after.len())
}

fn whole_document(at: usize, document: &[u8], sink: &mut impl EventSink) {
    if sink.wants(document) {
        let mut lexer = Lexer::default();
        sink.reset();
        if lexer.feed(at, document, sink).is_err() || !lexer.done() {
            sink.reset();
        }
    }
}

/// Whether data that begins like this is the terminator.
fn terminates(data: &[u8]) -> bool {
    data.first() != Some(&b'{') && data.get(..HEAD).unwrap_or(data).trim_ascii() == TERMINATOR
}

/// Length of the line end with which `bytes` begins.
fn newline(bytes: &[u8]) -> usize {
    match bytes {
        [b'\r', b'\n', ..] => 2,
        [b'\r' | b'\n', ..] => 1,
        _ => 0,
    }
}
