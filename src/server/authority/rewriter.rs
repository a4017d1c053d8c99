//! HTTP/2 frames (RFC 9113): passes all bytes on but the header blocks that need another
//! `:authority`.

use std::borrow::Cow;

use bytes::{BufMut, BytesMut};

use super::block;

/// Length of what a client sends before its first frame.
const PREFACE_LENGTH: usize = 24;

/// Length of a frame header.
const HEAD_LENGTH: usize = 9;

/// Octets of one header block, frame headers included, that are held back until its end is seen.
///
/// Twice what Envoy sends at most by default (60 KiB). A longer block is passed on as it is.
const BLOCK_LIMIT: usize = 128 * 1024;

/// The largest payload that every receiver takes (the initial `SETTINGS_MAX_FRAME_SIZE`).
const PAYLOAD_LIMIT: usize = 16_384;

/// Octets of the priority field.
const PRIORITY_LENGTH: usize = 5;

const HEADERS: u8 = 0x1;
const CONTINUATION: u8 = 0x9;

const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// The client-to-server half of one HTTP/2 connection, from its first byte on, without I/O.
///
/// All bytes come out in order, unchanged but for the header blocks of [`block::rewrite`]. Bytes
/// are held back only while a frame header or a header block is incomplete, at most
/// [`BLOCK_LIMIT`]. Malformed frames pass as they are: the HTTP/2 implementation above refuses
/// them.
#[derive(Debug)]
pub(super) struct Rewriter {
    /// Octets that pass before the next frame header: the rest of a payload, at first the preface.
    passing: usize,
    /// An incomplete frame header, or the frames of an incomplete header block.
    held: BytesMut,
    /// Where the last frame begins in `held`.
    frame: usize,
}

impl Rewriter {
    /// The state before the preface.
    pub(super) fn new() -> Self {
        Self { passing: PREFACE_LENGTH, held: BytesMut::new(), frame: 0 }
    }

    /// The number of leading octets of `input` that may go on as they are; they count as consumed.
    ///
    /// The octets after them must be given to [`Rewriter::push`] before anything else.
    pub(super) fn pass(&mut self, input: &[u8]) -> usize {
        if !self.held.is_empty() {
            return 0;
        }
        let mut at = 0;
        loop {
            let passed = self.passing.min(input.len() - at);
            at += passed;
            self.passing -= passed;
            match input.get(at..).and_then(Head::parse) {
                Some(head) if head.kind != HEADERS => {
                    at += HEAD_LENGTH;
                    self.passing = head.length;
                }
                _ => return at,
            }
        }
    }

    /// Consumes `input` and appends to `out` what may go on.
    pub(super) fn push(&mut self, mut input: &[u8], out: &mut BytesMut) {
        while !input.is_empty() {
            let passed = self.pass(input);
            let (passed, rest) = input.split_at_checked(passed).unwrap_or((input, &[]));
            out.extend_from_slice(passed);
            let taken = rest.len().min(self.missing());
            let (taken, rest) = rest.split_at_checked(taken).unwrap_or((rest, &[]));
            self.held.extend_from_slice(taken);
            self.settle(out);
            input = rest;
        }
    }

    /// Appends what is held back to `out`: nothing more will come.
    pub(super) fn finish(&mut self, out: &mut BytesMut) {
        self.release(0, out);
    }

    /// Octets until the last frame in `held` can be judged.
    fn missing(&self) -> usize {
        let frame = self.held.get(self.frame..).unwrap_or_default();
        let whole = HEAD_LENGTH + Head::parse(frame).map_or(0, |head| head.length);
        whole.saturating_sub(frame.len())
    }

    /// Lets go of what is held back as soon as it is known to be no header block, or a complete
    /// one.
    fn settle(&mut self, out: &mut BytesMut) {
        let Some(head) = self.held.get(self.frame..).and_then(Head::parse) else { return };
        let end = self.frame + HEAD_LENGTH + head.length;
        if !self.in_block(head) || end > BLOCK_LIMIT {
            self.release(head.length, out);
        } else if self.held.len() < end {
            // the payload is still to come
        } else if head.flags & END_HEADERS == 0 {
            self.frame = end;
        } else if rewrite_frames(&self.held, out).is_some() {
            self.held.clear();
            self.frame = 0;
        } else {
            self.release(0, out);
        }
    }

    /// Whether the last frame in `held` begins or continues a header block.
    fn in_block(&self, last: Head) -> bool {
        match Head::parse(&self.held) {
            Some(first) if self.frame > 0 => {
                last.kind == CONTINUATION && last.stream == first.stream
            }
            _ => last.kind == HEADERS,
        }
    }

    /// Passes on what is held back, and then `passing` octets of payload.
    fn release(&mut self, passing: usize, out: &mut BytesMut) {
        out.extend_from_slice(&self.held);
        self.held.clear();
        self.frame = 0;
        self.passing = passing;
    }
}

/// A frame header.
#[derive(Debug, Clone, Copy)]
struct Head {
    length: usize,
    kind: u8,
    flags: u8,
    stream: [u8; 4],
}

impl Head {
    /// The frame header at the begin of `frame`; `None` while it is incomplete.
    fn parse(frame: &[u8]) -> Option<Self> {
        let &[high, middle, low, kind, flags, ref stream @ ..] =
            frame.first_chunk::<HEAD_LENGTH>()?;
        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
        Some(Self { length, kind, flags, stream: *stream })
    }

    /// Appends this header for a payload of `length` octets, at most [`PAYLOAD_LIMIT`].
    fn put(self, length: usize, out: &mut BytesMut) {
        out.put_uint(length as u64, 3);
        out.put_slice(&[self.kind, self.flags]);
        out.put_slice(&self.stream);
    }
}

/// Appends the complete header block in `frames` to `out` with an authority that h2 takes.
///
/// The block is framed anew: without padding, which is free to go as headers are not
/// flow-controlled, and in pieces that fit any frame size limit, as it may have grown. `None`, and
/// nothing appended, when the frames may pass as they are.
fn rewrite_frames(frames: &[u8], out: &mut BytesMut) -> Option<()> {
    let (mut head, payload, mut rest) = split_frame(frames)?;
    let (priority, fragment) = strip(head, payload)?;
    let mut block = Cow::Borrowed(fragment);
    while let Some((_, fragment, behind)) = split_frame(rest) {
        block.to_mut().extend_from_slice(fragment);
        rest = behind;
    }
    let block = block::rewrite(&block)?;
    head.flags &= !(PADDED | END_HEADERS);
    let mut rest = block.as_slice();
    let mut lead = priority;
    loop {
        let room = rest.len().min(PAYLOAD_LIMIT - lead.len());
        let (piece, behind) = rest.split_at_checked(room)?;
        if behind.is_empty() {
            head.flags |= END_HEADERS;
        }
        head.put(lead.len() + piece.len(), out);
        out.put_slice(lead);
        out.put_slice(piece);
        if behind.is_empty() {
            return Some(());
        }
        rest = behind;
        lead = &[];
        head = Head { kind: CONTINUATION, flags: 0, ..head };
    }
}

/// The first frame of `frames`, its payload, and what follows.
fn split_frame(frames: &[u8]) -> Option<(Head, &[u8], &[u8])> {
    let head = Head::parse(frames)?;
    let (payload, rest) = frames.get(HEAD_LENGTH..)?.split_at_checked(head.length)?;
    Some((head, payload, rest))
}

/// The priority field, or nothing, and the header block fragment of a HEADERS payload.
fn strip(head: Head, mut payload: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut padding = 0;
    if head.flags & PADDED != 0 {
        let (&length, rest) = payload.split_first()?;
        padding = usize::from(length);
        payload = rest;
    }
    let priority = if head.flags & PRIORITY == 0 { 0 } else { PRIORITY_LENGTH };
    let (priority, padded) = payload.split_at_checked(priority)?;
    let fragment = padded.get(..padded.len().checked_sub(padding)?)?;
    Some((priority, fragment))
}
