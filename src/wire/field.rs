//! The fields of an encoded message, one after the other.

use bytes::{Buf, BufMut};
use prost::encoding::{
    DecodeContext, WireType, decode_key, decode_varint, encode_varint, encoded_len_varint,
    skip_field,
};

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// Text, bytes or a message.
    Text(&'a [u8]),
    /// A whole number or a truth value.
    Number(u64),
    /// Something that none of our fields is.
    Other,
}

/// Takes the next field off, its number and what it holds; none when there is no whole one.
pub(super) fn field<'a>(rest: &mut &'a [u8]) -> Option<(u32, Value<'a>)> {
    let (number, kind) = decode_key(rest).ok()?;
    let value = match kind {
        WireType::LengthDelimited => {
            let length = usize::try_from(decode_varint(rest).ok()?).ok()?;
            let text = rest.get(..length)?;
            rest.advance(length);
            Value::Text(text)
        }
        WireType::Varint => Value::Number(decode_varint(rest).ok()?),
        WireType::SixtyFourBit
        | WireType::ThirtyTwoBit
        | WireType::StartGroup
        | WireType::EndGroup => {
            skip_field(kind, number, rest, DecodeContext::default()).ok()?;
            Value::Other
        }
    };
    Some((number, value))
}

/// Writes what stands before the content of a field: its tag, and the length of the content.
pub(super) fn head(tag: u8, content: usize, out: &mut impl BufMut) {
    out.put_u8(tag);
    encode_varint(content as u64, out);
}

/// The length of a field whose content has this length.
pub(super) fn whole(content: usize) -> usize {
    1 + encoded_len_varint(content as u64) + content
}
