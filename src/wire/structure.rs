//! A `google.protobuf.Struct`, written as it is told.

use bytes::{BufMut, Bytes};

use super::field::{self, whole};

/// Room that is made at first: for a dozen fields.
const FIRST: usize = 320;

/// Room for what stands around a structure in another one: six tags and lengths of at most five bytes each.
const AROUND: usize = 6 * (1 + 5);

/// The fields so far, encoded. A key that is given twice has its last value.
#[derive(Clone, Debug)]
pub struct Structure(Vec<u8>);

impl Structure {
    /// One without fields.
    pub fn empty() -> Self {
        Self(Vec::with_capacity(FIRST))
    }

    /// A field that is a text.
    pub fn text(&mut self, key: &str, text: &str) {
        self.value(key, 0x1a, text.as_bytes());
    }

    /// A field that is a number.
    pub fn number(&mut self, key: &str, number: f64) {
        self.entry(key, 1 + size_of::<f64>());
        self.0.put_u8(0x11);
        self.0.put_f64_le(number);
    }

    /// A field that is a structure itself.
    pub fn nested(&mut self, key: &str, fields: &Self) {
        self.value(key, 0x2a, &fields.0);
    }

    /// The encoding of a structure with this one as its only field.
    pub fn within(&self, key: &str) -> Bytes {
        let mut outer = Self(Vec::with_capacity(AROUND + key.len() + self.0.len()));
        outer.nested(key, self);
        outer.0.into()
    }

    fn value(&mut self, key: &str, tag: u8, content: &[u8]) {
        self.entry(key, whole(content.len()));
        self.field(tag, content);
    }

    /// An entry of the map of fields up to its value, which has so many bytes.
    fn entry(&mut self, key: &str, value: usize) {
        field::head(0x0a, whole(key.len()) + whole(value), &mut self.0);
        self.field(0x0a, key.as_bytes());
        field::head(0x12, value, &mut self.0);
    }

    fn field(&mut self, tag: u8, content: &[u8]) {
        field::head(tag, content.len(), &mut self.0);
        self.0.extend_from_slice(content);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use prost::Message as _;
    use prost_types::value::Kind;
    use prost_types::{Struct, Value};

    use super::*;

    fn decoded(encoded: &[u8]) -> Struct {
        Struct::decode(encoded).unwrap()
    }

    fn value(kind: Kind) -> Value {
        Value { kind: Some(kind) }
    }

    fn one(key: &str, kind: Kind) -> Struct {
        Struct { fields: BTreeMap::from([(key.to_owned(), value(kind))]) }
    }

    proptest! {
        #[test]
        fn fields_arrive_as_they_are(
            texts in prop::collection::btree_map("t.{0,200}", ".{0,300}", 0..5),
            numbers in prop::collection::btree_map("n.{0,9}", -1e12..1e12_f64, 0..5),
            namespace in ".{0,200}",
        ) {
            let mut structure = Structure::empty();
            let mut fields = BTreeMap::new();
            for (key, text) in texts {
                structure.text(&key, &text);
                fields.insert(key, value(Kind::StringValue(text)));
            }
            for (key, number) in numbers {
                structure.number(&key, number);
                fields.insert(key, value(Kind::NumberValue(number)));
            }
            let outer = one(&namespace, Kind::StructValue(Struct { fields }));
            prop_assert_eq!(decoded(&structure.within(&namespace)), outer);
        }
    }

    #[test]
    fn a_structure_without_fields_is_one() {
        let empty = one("n", Kind::StructValue(Struct::default()));
        assert_eq!(decoded(&Structure::empty().within("n")), empty);
    }
}
