//! A resumable JSON lexer: bytes in, in pieces cut anywhere; what they mean out, in place.
//!
//! Structure, literals and the alphabet of numbers are checked; control characters and UTF-8 in strings, and the order
//! of signs and points in numbers, are not. Text after the document is an error.

use std::ops::Range;

use memchr::memchr2;
use smallvec::SmallVec;

/// Deepest nesting that is read; one bit of [`Lexer::objects`] each.
const MAX_DEPTH: u32 = 128;
/// Longest key or scalar that is seen whole: of a longer one the rest is cut, so that it equals nothing we look for.
const MAX_SHORT: usize = 64;
/// Stands for what is no character: a lone half of a surrogate pair.
const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// Takes what the lexer finds. Offsets are absolute: those of the byte meant, or after it for `close`.
pub(super) trait Sink {
    /// A list or an object begins.
    fn open(&mut self, _kind: Kind, _at: usize) {}
    /// The innermost list or object has ended before `at`.
    fn close(&mut self, _at: usize) {}
    /// An object's key, unescaped.
    fn key(&mut self, _key: &[u8]) {}
    /// A string value begins with the quote at `at`.
    fn string_open(&mut self, _at: usize) {}
    /// The next part of a string value, unescaped; never empty.
    fn string_part(&mut self, _part: &[u8]) {}
    /// A string value has ended, its quote before `at`.
    fn string_close(&mut self, _at: usize) {}
    /// A number, `true`, `false` or `null`, and where it stands.
    fn scalar(&mut self, _text: &[u8], _span: Range<usize>) {}
}

/// Which container.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Array,
    Object,
}

/// Why reading stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// No JSON at this offset.
    Syntax(usize),
    /// Nested deeper than [`MAX_DEPTH`].
    TooDeep,
}

/// The state between two pieces.
#[derive(Clone, Default)]
pub(super) struct Lexer {
    state: State,
    escape: Escape,
    /// First half of a surrogate pair that waits for its second.
    high: Option<u16>,
    /// The open containers, innermost in the lowest bit, 1 for objects.
    objects: u128,
    depth: u32,
    /// A key or scalar that was cut or escaped.
    short: SmallVec<[u8; MAX_SHORT]>,
    /// Where the present scalar begins.
    from: usize,
}

impl Lexer {
    /// Reads the next piece, whose first byte has the offset `base`. After a fault the lexer must not be fed again.
    pub(super) fn feed(
        &mut self,
        base: usize,
        piece: &[u8],
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        let mut i = 0;
        while let Some(&byte) = piece.get(i) {
            match self.state {
                State::Key | State::Text => i += self.string(base + i, tail(piece, i), sink)?,
                State::Scalar => i += self.scalar(base + i, tail(piece, i), sink)?,
                State::Value
                | State::First
                | State::FirstKey
                | State::NextKey
                | State::Colon
                | State::After
                | State::Done => {
                    // A scalar's first byte is read again as part of it.
                    self.structure(byte, base + i, sink)?;
                    i += usize::from(self.state != State::Scalar);
                }
            }
        }
        Ok(())
    }

    /// Whether no byte but white space was read.
    pub(super) fn untouched(&self) -> bool {
        self.state == State::Value && self.depth == 0
    }

    /// Whether the document is whole.
    pub(super) fn done(&self) -> bool {
        self.state == State::Done
    }

    fn structure(&mut self, byte: u8, at: usize, sink: &mut impl Sink) -> Result<(), Fault> {
        self.state = match (self.state, byte) {
            (state, b' ' | b'\t' | b'\n' | b'\r') => state,
            (State::Value | State::First, b'"') => {
                sink.string_open(at);
                State::Text
            }
            (State::NextKey | State::FirstKey, b'"') => {
                self.short.clear();
                State::Key
            }
            (State::After, b',') if self.in_object() => State::NextKey,
            (State::After, b',') | (State::Colon, b':') => State::Value,
            (State::Value | State::First, b'{') => self.open(Kind::Object, at, sink)?,
            (State::Value | State::First, b'[') => self.open(Kind::Array, at, sink)?,
            (State::FirstKey, b'}') | (State::First, b']') => self.close(at, sink),
            (State::After, b'}') if self.in_object() => self.close(at, sink),
            (State::After, b']') if !self.in_object() => self.close(at, sink),
            (State::Value | State::First, b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                self.short.clear();
                self.from = at;
                State::Scalar
            }
            _ => return Err(Fault::Syntax(at)),
        };
        Ok(())
    }

    fn open(&mut self, kind: Kind, at: usize, sink: &mut impl Sink) -> Result<State, Fault> {
        if self.depth == MAX_DEPTH {
            return Err(Fault::TooDeep);
        }
        self.depth += 1;
        self.objects = self.objects << 1 | u128::from(kind == Kind::Object);
        sink.open(kind, at);
        Ok(if kind == Kind::Object { State::FirstKey } else { State::First })
    }

    fn close(&mut self, at: usize, sink: &mut impl Sink) -> State {
        self.depth -= 1;
        self.objects >>= 1;
        sink.close(at + 1);
        self.after_value()
    }

    fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }

    fn after_value(&self) -> State {
        if self.depth == 0 { State::Done } else { State::After }
    }

    /// Reads on in a string from `rest`, at offset `at`; returns how many bytes it took.
    fn string(&mut self, at: usize, rest: &[u8], sink: &mut impl Sink) -> Result<usize, Fault> {
        if self.escape != Escape::None {
            let Some(&byte) = rest.first() else { return Ok(0) };
            self.escaped(byte, at, sink)?;
            return Ok(1);
        }
        let Some(length) = memchr2(b'"', b'\\', rest) else {
            self.part(rest, sink);
            return Ok(rest.len());
        };
        let (part, end) = rest.split_at(length);
        if end.first() == Some(&b'\\') {
            self.part(part, sink);
            self.escape = Escape::Slash;
        } else if self.state == State::Text {
            self.part(part, sink);
            self.lone_half(sink);
            sink.string_close(at + length + 1);
            self.state = self.after_value();
        } else {
            self.end_key(part, sink);
        }
        Ok(length + 1)
    }

    fn end_key(&mut self, part: &[u8], sink: &mut impl Sink) {
        if self.short.is_empty() && self.high.is_none() {
            sink.key(part);
        } else {
            self.part(part, sink);
            self.lone_half(sink);
            sink.key(&self.short);
        }
        self.state = State::Colon;
    }

    fn escaped(&mut self, byte: u8, at: usize, sink: &mut impl Sink) -> Result<(), Fault> {
        self.escape = match (self.escape, byte) {
            (Escape::Hex { .. }, _) | (Escape::Slash, b'u') => self.hex(byte, at, sink)?,
            (_, b'"' | b'\\' | b'/') => self.plain(byte, sink),
            (_, b'b') => self.plain(8, sink),
            (_, b'f') => self.plain(12, sink),
            (_, b'n') => self.plain(b'\n', sink),
            (_, b'r') => self.plain(b'\r', sink),
            (_, b't') => self.plain(b'\t', sink),
            _ => return Err(Fault::Syntax(at)),
        };
        Ok(())
    }

    fn plain(&mut self, byte: u8, sink: &mut impl Sink) -> Escape {
        self.part(&[byte], sink);
        Escape::None
    }

    fn hex(&mut self, byte: u8, at: usize, sink: &mut impl Sink) -> Result<Escape, Fault> {
        let Escape::Hex { left, value } = self.escape else {
            return Ok(Escape::Hex { left: 4, value: 0 });
        };
        let digit = char::from(byte).to_digit(16).ok_or(Fault::Syntax(at))?;
        let value = value << 4 | u16::try_from(digit).unwrap_or_default();
        if left > 1 {
            return Ok(Escape::Hex { left: left - 1, value });
        }
        self.unit(value, sink);
        Ok(Escape::None)
    }

    /// Takes one UTF-16 code unit.
    fn unit(&mut self, unit: u16, sink: &mut impl Sink) {
        if let (Some(high), 0xdc00..=0xdfff) = (self.high, unit) {
            self.high = None;
            let pair = char::decode_utf16([high, unit]).next().and_then(Result::ok);
            self.char(pair, sink);
            return;
        }
        self.lone_half(sink);
        match unit {
            0xd800..=0xdbff => self.high = Some(unit),
            _ => self.char(char::from_u32(unit.into()), sink),
        }
    }

    fn char(&mut self, char: Option<char>, sink: &mut impl Sink) {
        let char = char.unwrap_or(char::REPLACEMENT_CHARACTER);
        self.emit(char.encode_utf8(&mut [0; 4]).as_bytes(), sink);
    }

    fn lone_half(&mut self, sink: &mut impl Sink) {
        if self.high.take().is_some() {
            self.emit(REPLACEMENT, sink);
        }
    }

    fn part(&mut self, part: &[u8], sink: &mut impl Sink) {
        if !part.is_empty() {
            self.lone_half(sink);
            self.emit(part, sink);
        }
    }

    fn emit(&mut self, part: &[u8], sink: &mut impl Sink) {
        if self.state == State::Key {
            keep(&mut self.short, part);
        } else {
            sink.string_part(part);
        }
    }

    /// Reads on in a scalar from `rest`, at offset `at`; returns how many bytes it took.
    fn scalar(&mut self, at: usize, rest: &[u8], sink: &mut impl Sink) -> Result<usize, Fault> {
        let inside = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let Some(length) = rest.iter().position(|byte| !inside(byte)) else {
            keep(&mut self.short, rest);
            return Ok(rest.len());
        };
        let (part, _) = rest.split_at(length);
        let span = self.from..at + length;
        if self.short.is_empty() {
            check_scalar(part, &span)?;
            sink.scalar(part, span);
        } else {
            keep(&mut self.short, part);
            check_scalar(&self.short, &span)?;
            sink.scalar(&self.short, span);
        }
        self.state = self.after_value();
        Ok(length)
    }
}

/// What may come next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    /// A value.
    #[default]
    Value,
    /// A value or the end of an empty list.
    First,
    /// A key or the end of an empty object.
    FirstKey,
    /// A key.
    NextKey,
    Colon,
    /// A comma or the end of the container.
    After,
    /// More of a key.
    Key,
    /// More of a string value.
    Text,
    /// More of a number or literal.
    Scalar,
    /// White space only.
    Done,
}

/// How far an escape sequence was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Escape {
    #[default]
    None,
    Slash,
    Hex {
        left: u8,
        value: u16,
    },
}

/// A non-negative integral number, also as `1.0` or `1e3`; absent above what is exact.
pub(super) fn integer(text: &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return whole(text);
        }
        number = number.checked_mul(10)?.checked_add(digit.into())?;
    }
    Some(number)
}

/// A float that is a natural number; above 2^53 that cannot be told.
fn whole(text: &[u8]) -> Option<u64> {
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let whole = number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number);
    whole.then(|| format!("{:.0}", number.abs()).parse().ok())?
}

fn check_scalar(text: &[u8], span: &Range<usize>) -> Result<(), Fault> {
    let number = |text: &[u8]| {
        text.iter().all(|b| matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'))
            && text.iter().any(u8::is_ascii_digit)
    };
    match text {
        _ if text.iter().all(u8::is_ascii_digit) || number(text) => Ok(()),
        b"true" | b"false" | b"null" => Ok(()),
        _ => Err(Fault::Syntax(span.start)),
    }
}

fn keep(short: &mut SmallVec<[u8; MAX_SHORT]>, part: &[u8]) {
    let room = MAX_SHORT - short.len().min(MAX_SHORT);
    short.extend_from_slice(part.get(..room).unwrap_or(part));
}

fn tail(piece: &[u8], from: usize) -> &[u8] {
    piece.get(from..).unwrap_or_default()
}
