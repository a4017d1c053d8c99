//! Reads a [`tree`](crate::config::tree) into plain serde structs, and reports every mistake instead of the first.
//!
//! A field that no struct knows is a problem and is skipped. Any other mistake fails what holds it, up to the nearest
//! item of a [`Readable`] list or field with [`or_default`].

use std::cell::RefCell;

use serde::de::value::StrDeserializer;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;

use crate::config::problem::{MOST_SEARCHES, Problem};
use crate::config::tree::{Node, Value, item, member};

/// Reads a document; what could not be read is as if it were absent, and is a problem.
///
/// Problems of a type's own conversion after reading (serde's `try_from`) are lost: mirrors must not use it.
pub fn read<T: Default + for<'de> Deserialize<'de>>(node: &Node) -> (T, Vec<Problem>) {
    let problems = RefCell::new(Vec::new());
    let value = T::deserialize(Reader { node, path: String::new(), problems: &problems });
    (value.unwrap_or_default(), problems.into_inner())
}

/// For `deserialize_with`: a field that cannot be read does not fail what holds it.
///
/// # Errors
/// Never; the reader keeps the problem.
pub fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(T::deserialize(deserializer).unwrap_or_default())
}

/// A place in the document that a type is read from.
struct Reader<'a> {
    node: &'a Node,
    path: String,
    problems: &'a RefCell<Vec<Problem>>,
}

/// Why reading failed; once it is among the problems, only that it failed.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("{0}")]
    Because(String),
    #[error("reported")]
    Reported,
}

impl serde::de::Error for Failed {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::Because(message.to_string())
    }
}

impl<'a> Reader<'a> {
    /// Reads with `visit`; a failure is reported here if it was not further inside.
    fn reporting<T>(self, visit: impl FnOnce(&Self) -> Result<T, Failed>) -> Result<T, Failed> {
        visit(&self).map_err(|failed| {
            if let Failed::Because(message) = failed {
                self.report(Problem::told(&self.path, &message));
            }
            Failed::Reported
        })
    }

    fn report(&self, problem: Problem) {
        self.problems.borrow_mut().push(problem);
    }

    /// Reports a problem of `name`, with what may have been meant.
    fn misnamed(&self, problem: Problem, name: &str, known: &[&str]) {
        let search = self.problems.borrow().len() < MOST_SEARCHES;
        let near = if search { problem.nearest(name, known.iter().copied()) } else { problem };
        self.report(near.or_hint(format!("known: {}", known.join(", "))));
    }

    fn inside(&self, node: &'a Node, path: String) -> Self {
        Self { node, path, problems: self.problems }
    }

    fn map<'de, V: Visitor<'de>>(
        &self,
        members: &'a [(String, Node)],
        fields: Option<&'static [&'static str]>,
        visitor: V,
    ) -> Result<V::Value, Failed> {
        visitor.visit_map(Members { reader: self, rest: members.iter(), fields, value: None })
    }
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Failed;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        self.reporting(|reader| match &reader.node.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(value) => value.clone().deserialize_any(visitor).map_err(Failed::custom),
            Value::NotFinite => Err(Failed::custom("is not a finite number, give one")),
            Value::Text(value) => visitor.visit_str(value),
            Value::List(list) => visitor.visit_seq(Items { reader, rest: list.iter().enumerate() }),
            Value::Map(members) => reader.map(members, None, visitor),
        })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        if self.node.value == Value::Null { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Failed> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        if self.node.value == Value::Null {
            return self.reporting(|reader| {
                visitor.visit_seq(Items { reader, rest: [].iter().enumerate() })
            });
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failed> {
        match &self.node.value {
            Value::Map(members) => {
                self.reporting(|reader| reader.map(members, Some(fields), visitor))
            }
            Value::Null => self.reporting(|reader| reader.map(&[], Some(fields), visitor)),
            // A derived struct would take a list as its fields in their order.
            Value::Bool(_)
            | Value::Number(_)
            | Value::NotFinite
            | Value::Text(_)
            | Value::List(_) => self.reporting(|_| {
                Err(Failed::custom("is not a map of fields, give `name: value` pairs"))
            }),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failed> {
        let Value::Text(text) = &self.node.value else { return self.deserialize_any(visitor) };
        if variants.contains(&text.as_str()) {
            let variant: StrDeserializer<'_, Failed> = text.as_str().into_deserializer();
            return self.reporting(|_| visitor.visit_enum(variant));
        }
        let problem = Problem::error(&self.path, format!("`{text}` is unknown"));
        self.misnamed(problem, text, variants);
        Err(Failed::Reported)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct tuple
        tuple_struct map identifier ignored_any
    }
}

/// The items of a list.
struct Items<'r, 'a, I> {
    reader: &'r Reader<'a>,
    rest: I,
}

impl<'de, 'a, I> SeqAccess<'de> for Items<'_, 'a, I>
where
    I: Iterator<Item = (usize, &'a Node)>,
{
    type Error = Failed;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Failed> {
        let Some((at, node)) = self.rest.next() else { return Ok(None) };
        seed.deserialize(self.reader.inside(node, item(&self.reader.path, at))).map(Some)
    }
}

/// The members of a map that its type knows.
struct Members<'r, 'a> {
    reader: &'r Reader<'a>,
    rest: std::slice::Iter<'a, (String, Node)>,
    fields: Option<&'static [&'static str]>,
    value: Option<Reader<'a>>,
}

impl<'de> MapAccess<'de> for Members<'_, '_> {
    type Error = Failed;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Failed> {
        for (name, node) in self.rest.by_ref() {
            let path = member(&self.reader.path, name);
            if let Some(fields) = self.fields.filter(|fields| !fields.contains(&name.as_str())) {
                let problem = Problem::error(path, format!("unknown field `{name}`"));
                self.reader.misnamed(problem, name, fields);
                continue;
            }
            self.value = Some(self.reader.inside(node, path));
            let name: StrDeserializer<'_, Failed> = name.as_str().into_deserializer();
            return seed.deserialize(name).map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Failed> {
        let reader = self.value.take().ok_or_else(|| Failed::custom("a value before its name"))?;
        seed.deserialize(reader)
    }
}

/// A list whose items that cannot be read are left out, each with a problem; the others keep their positions.
#[derive(Debug)]
pub struct Readable<T>(Vec<Option<T>>);

impl<T> Readable<T> {
    /// The items that could be read, with their positions in the document.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.0.iter().enumerate().filter_map(|(at, item)| Some((at, item.as_ref()?)))
    }

    /// Whether all items could be read.
    pub fn whole(&self) -> bool {
        self.0.iter().all(Option::is_some)
    }

    /// How many items there are, readable or not.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no items, readable or not.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> Default for Readable<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Readable<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let items: Vec<Maybe<T>> = or_default(deserializer)?;
        Ok(Self(items.into_iter().map(|Maybe(item)| item).collect()))
    }
}

/// An item of [`Readable`]; none when it cannot be read.
struct Maybe<T>(Option<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Maybe<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(T::deserialize(deserializer).ok()))
    }
}

#[cfg(test)]
mod tests;
