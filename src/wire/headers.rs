//! The headers of a message, read where they stand.
//!
//! A gateway tells some twenty headers of each request, of which a few are looked at. Built as messages they took a
//! quarter of what a small request costs in all.

use super::field::{Value, field};

/// The field of a `HeaderMap` that holds a header.
const HEADER: u32 = 1;

/// The fields of a `HeaderValue`.
const KEY: u32 = 1;
const VALUE: u32 = 2;
const RAW_VALUE: u32 = 3;

/// The names and values of an encoded `HeaderMap`, in order; the value is `raw_value`, else `value`. What is no encoding of
/// one is an error, after which nothing follows.
#[derive(Clone, Debug)]
pub struct Headers<'a> {
    rest: &'a [u8],
}

/// The bytes are no encoding of a `HeaderMap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed header map")]
pub struct Malformed;

impl<'a> Headers<'a> {
    /// The headers of an encoded `HeaderMap`.
    pub fn of(encoded: &'a [u8]) -> Self {
        Self { rest: encoded }
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            match field(&mut self.rest) {
                Some((HEADER, Value::Text(header))) => {
                    return Some(pair(header).ok_or(Malformed));
                }
                Some(_) => {}
                None => {
                    self.rest = &[];
                    return Some(Err(Malformed));
                }
            }
        }
        None
    }
}

fn pair(mut header: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut key, mut value, mut raw_value): (&[u8], &[u8], &[u8]) = (&[], &[], &[]);
    while !header.is_empty() {
        match field(&mut header)? {
            (KEY, Value::Text(text)) => key = text,
            (VALUE, Value::Text(text)) => value = text,
            (RAW_VALUE, Value::Text(text)) => raw_value = text,
            _ => {}
        }
    }
    Some((key, if raw_value.is_empty() { value } else { raw_value }))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use prost::Message;

    use super::*;
    use crate::wire::{HeaderMap, HeaderValue};

    type Pair<'a> = (&'a [u8], &'a [u8]);

    fn read(encoded: &[u8]) -> Result<Vec<Pair<'_>>, Malformed> {
        Headers::of(encoded).collect()
    }

    proptest! {
        #[test]
        fn headers_are_those_of_the_message(
            headers in prop::collection::vec(any::<(Vec<u8>, Vec<u8>, Vec<u8>)>(), 0..20),
        ) {
            let header = |(key, value, raw_value): (Vec<u8>, Vec<u8>, Vec<u8>)| HeaderValue {
                key: key.into(),
                value: value.into(),
                raw_value: raw_value.into(),
            };
            let map = HeaderMap { headers: headers.into_iter().map(header).collect() };
            let told = |header: &HeaderValue| {
                let raw = !header.raw_value.is_empty();
                (header.key.clone(), if raw { &header.raw_value } else { &header.value }.clone())
            };
            let expected: Vec<_> = map.headers.iter().map(told).collect();
            let encoded = map.encode_to_vec();
            let found = read(&encoded).unwrap().into_iter();
            let found: Vec<_> = found
                .map(|(key, value)| (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)))
                .collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn other_bytes_end_the_walk(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let whole = HeaderMap::decode(bytes.as_slice()).is_ok();
            prop_assert!(!whole || read(&bytes).is_ok());
            let walk: Vec<_> = Headers::of(&bytes).collect();
            prop_assert!(walk.iter().rev().skip(1).all(|found| found != &Err(Malformed) || whole || found.is_err()));
        }
    }

    #[test]
    fn fields_that_we_do_not_know_are_passed_over() {
        let header = b"\x0a\x03key\x20\x07\x1a\x05value\x2a\x01x";
        let map = [&[0x10, 0x01, 0x0a, u8::try_from(header.len()).unwrap()][..], header].concat();
        assert_eq!(read(&map), Ok(vec![(&b"key"[..], &b"value"[..])]));
    }

    #[test]
    fn a_header_that_is_cut_off_is_an_error() {
        let whole = b"\x0a\x0c\x0a\x03key\x1a\x05value";
        assert!(read(whole).is_ok());
        for cut in 1..whole.len() {
            assert_eq!(read(&whole[..cut]), Err(Malformed), "{cut}");
        }
    }
}
