//! gRPC messages out of a body that is cut anywhere.
//!
//! A frame is one byte of flags (1: compressed), four of length, big-endian, and the message.

use std::io::Read;

use flate2::read::GzDecoder;
use smallvec::SmallVec;

const HEAD: usize = 5;
/// Longest message that is read, and longest that one is unpacked to: about a million token ids.
const MAX_MESSAGE: usize = 4 << 20;

/// What came.
#[derive(Clone, Copy)]
pub(super) enum Frame<'a> {
    /// A whole message, unpacked.
    Message(&'a [u8]),
    /// A message above the limit, of which nothing is kept.
    TooLong,
    /// No frame, or one that cannot be unpacked; nothing is read after the former.
    Malformed,
}

/// The state between two pieces; holds at most one cut message.
#[derive(Default)]
pub(super) struct Frames {
    head: SmallVec<[u8; HEAD]>,
    message: Vec<u8>,
    /// Bytes of the present message that are still to come.
    left: usize,
    /// What is done with the present message.
    mode: Mode,
}

impl Frames {
    /// Reads the next piece; a message that lies in it whole is given in place.
    pub(super) fn feed(&mut self, mut piece: &[u8], emit: &mut impl FnMut(Frame<'_>)) {
        while self.mode != Mode::Dead && !piece.is_empty() {
            if self.head.len() < HEAD {
                let (head, rest) = split(piece, HEAD - self.head.len());
                self.head.extend_from_slice(head);
                piece = rest;
                self.begin(emit);
            }
            if self.head.len() == HEAD && self.mode != Mode::Dead {
                let (part, rest) = split(piece, self.left);
                piece = rest;
                self.left -= part.len();
                self.body(part, emit);
            }
        }
    }

    /// Looks at the head once it is whole.
    fn begin(&mut self, emit: &mut impl FnMut(Frame<'_>)) {
        let &[flags, a, b, c, d] = self.head.as_slice() else { return };
        self.left = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        self.mode = match flags {
            0 | 1 if self.left > MAX_MESSAGE => Mode::Skip,
            0 => Mode::Plain,
            1 => Mode::Packed,
            _ => Mode::Dead,
        };
        match self.mode {
            Mode::Skip => emit(Frame::TooLong),
            Mode::Dead => emit(Frame::Malformed),
            Mode::Plain | Mode::Packed => {}
        }
    }

    /// Takes a part of the message, which may be all of it.
    fn body(&mut self, part: &[u8], emit: &mut impl FnMut(Frame<'_>)) {
        let ended = self.left == 0;
        if self.mode != Mode::Skip {
            if ended && self.message.is_empty() {
                self.end(part, emit);
            } else {
                self.message.extend_from_slice(part);
            }
            if ended && !self.message.is_empty() {
                let message = std::mem::take(&mut self.message);
                self.end(&message, emit);
            }
        }
        if ended {
            self.head.clear();
        }
    }

    fn end(&self, message: &[u8], emit: &mut impl FnMut(Frame<'_>)) {
        if self.mode == Mode::Plain {
            emit(Frame::Message(message));
            return;
        }
        match unpack(message) {
            Some(message) if message.len() > MAX_MESSAGE => emit(Frame::TooLong),
            Some(message) => emit(Frame::Message(&message)),
            None => emit(Frame::Malformed),
        }
    }
}

/// What is done with a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Mode {
    #[default]
    Plain,
    Packed,
    Skip,
    /// The body is not framed; nothing is read any more.
    Dead,
}

/// The unpacked message, one byte more than the limit at most.
fn unpack(message: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    let limit = MAX_MESSAGE as u64 + 1;
    GzDecoder::new(message).take(limit).read_to_end(&mut plain).ok()?;
    Some(plain)
}

fn split(bytes: &[u8], at: usize) -> (&[u8], &[u8]) {
    bytes.split_at_checked(at).unwrap_or((bytes, &[]))
}
