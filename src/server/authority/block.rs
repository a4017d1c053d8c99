//! One HPACK header block (RFC 7541): finds the literals of `:authority` without a table and
//! rewrites them.

use std::borrow::Cow;

use httlib_huffman::DecoderSpeed;
use http::uri::Authority;

/// Index of `:authority` in the static table (RFC 7541, appendix A).
const STATIC_AUTHORITY: usize = 1;

/// The name in a literal that carries its name.
const AUTHORITY: &[u8] = b":authority";

/// Stands for each byte that was taken out of an authority.
const REPLACEMENT: u8 = b'-';

/// Rewrites each literal `:authority` that h2 would refuse as a plain string of equal decoded
/// length.
///
/// Equal length keeps the dynamic tables of both sides in step: an entry is as large as its decoded
/// octets. `None` when nothing is to be changed or the block is malformed. A literal that names
/// `:authority` by the *dynamic* table is not recognized; encoders name it by the static one.
pub(super) fn rewrite(block: &[u8]) -> Option<Vec<u8>> {
    let mut cursor = Cursor { block, at: 0 };
    let mut out = Vec::new();
    let mut copied = 0;
    while let Some(&first) = block.get(cursor.at) {
        let Some(index_bits) = name_index_bits(first) else {
            cursor.integer(if first & 0x80 == 0 { 5 } else { 7 })?;
            continue;
        };
        let authority = match cursor.integer(index_bits)? {
            0 => cursor.string()?.is(AUTHORITY),
            index => index == STATIC_AUTHORITY,
        };
        let start = cursor.at;
        let value = cursor.string()?;
        if authority && let Some(accepted) = acceptable(&value.decode()?) {
            out.extend_from_slice(block.get(copied..start)?);
            put_string(&mut out, &accepted);
            copied = cursor.at;
        }
    }
    if copied == 0 {
        return None;
    }
    out.extend_from_slice(block.get(copied..)?);
    Some(out)
}

/// What to say instead of `authority`; `None` when h2, which parses it with the `http` crate, takes
/// it as it is.
pub(super) fn acceptable(authority: &[u8]) -> Option<Vec<u8>> {
    if authority.is_empty() || Authority::try_from(authority).is_ok() {
        return None;
    }
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~');
    Some(authority.iter().map(|&b| if keep(b) { b } else { REPLACEMENT }).collect())
}

/// The prefix bits of the name index when a literal begins with `first`; `None` for an indexed
/// field or a size update.
fn name_index_bits(first: u8) -> Option<u32> {
    match first {
        0x80.. | 0x20..=0x3f => None,
        0x40..=0x7f => Some(6),
        0x00..=0x1f => Some(4),
    }
}

/// Appends `text` as a string literal without Huffman coding.
fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    const PREFIX: u8 = 0x7f;
    let low7 = |n: usize| n.to_le_bytes()[0] & 0x7f;
    if let Some(mut rest) = text.len().checked_sub(usize::from(PREFIX)) {
        out.push(PREFIX);
        while rest >= 0x80 {
            out.push(low7(rest) | 0x80);
            rest >>= 7;
        }
        out.push(low7(rest));
    } else {
        out.push(low7(text.len()));
    }
    out.extend_from_slice(text);
}

/// A position in a header block.
struct Cursor<'a> {
    block: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.block.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// An integer with a prefix of `bits` (RFC 7541, 5.1); `None` above 28 bits, which no block of
    /// ours reaches.
    fn integer(&mut self, bits: u32) -> Option<usize> {
        let mask = (1_usize << bits) - 1;
        let mut value = usize::from(self.byte()?) & mask;
        if value < mask {
            return Some(value);
        }
        for shift in [0, 7, 14, 21] {
            let byte = usize::from(self.byte()?);
            value += (byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn string(&mut self) -> Option<Text<'a>> {
        let huffman = self.block.get(self.at)? & 0x80 != 0;
        let length = self.integer(7)?;
        let coded = self.block.get(self.at..)?.get(..length)?;
        self.at += length;
        Some(Text { huffman, coded })
    }
}

/// A string literal as it stands in the block.
struct Text<'a> {
    huffman: bool,
    coded: &'a [u8],
}

impl<'a> Text<'a> {
    /// Whether `name` is meant; no coding of a name of lowercase letters is longer than the name.
    fn is(&self, name: &[u8]) -> bool {
        self.coded.len() <= name.len() && self.decode().as_deref() == Some(name)
    }

    /// The octets meant; `None` when they are not the one valid Huffman coding.
    fn decode(&self) -> Option<Cow<'a, [u8]>> {
        if !self.huffman {
            return Some(Cow::Borrowed(self.coded));
        }
        let mut octets = Vec::new();
        httlib_huffman::decode(self.coded, &mut octets, DecoderSpeed::FourBits).ok()?;
        let mut again = Vec::with_capacity(self.coded.len());
        httlib_huffman::encode(&octets, &mut again).ok()?;
        (again == self.coded).then_some(Cow::Owned(octets))
    }
}
