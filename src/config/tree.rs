//! A YAML or JSON document as a tree that knows its lines.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use serde_saphyr::options::NonFiniteFloatPolicy;

use crate::config::problem::Problem;

/// A value and where it stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Line from 1, of the key where the value has one; 0 for an empty document.
    pub line: u64,
    /// The value.
    pub value: Value,
}

/// A value with its parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// Nothing.
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// A number.
    Number(serde_json::Number),
    /// What YAML calls a number and is none: infinite, or not a number.
    NotFinite,
    /// A text.
    Text(String),
    /// Values in order.
    List(Vec<Node>),
    /// Values under unique names, in order.
    Map(Vec<(String, Node)>),
}

/// Parses a document of one YAML or JSON value; an empty one is null.
///
/// # Errors
/// When the text is not YAML, or a name stands twice in a map; at its line.
pub fn parse(text: &str) -> Result<Node, Vec<Problem>> {
    let options = serde_saphyr::options! {
        with_snippet: false,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
    };
    let node = serde_saphyr::from_str_with_options::<Option<Node>>(text, options);
    node.map(Option::unwrap_or_default).map_err(|error| vec![problem(&error)])
}

fn problem(error: &serde_saphyr::Error) -> Problem {
    let message = if let serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } = error {
        format!("`{key}` stands twice")
    } else {
        error.to_string()
    };
    // The place is said by the problem itself.
    let message = message.split(" at line ").next().unwrap_or_default();
    let line = error.location().map(|location| location.line());
    Problem { line, ..Problem::error("", message) }
}

impl Node {
    /// The line of every place in the document by its path.
    pub fn lines(&self) -> BTreeMap<String, u64> {
        let mut lines = BTreeMap::new();
        self.collect(String::new(), &mut lines);
        lines
    }

    fn collect(&self, path: String, lines: &mut BTreeMap<String, u64>) {
        match &self.value {
            Value::List(list) => {
                for (at, node) in list.iter().enumerate() {
                    node.collect(item(&path, at), lines);
                }
            }
            Value::Map(map) => {
                for (name, node) in map {
                    node.collect(member(&path, name), lines);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::NotFinite | Value::Text(_) => {
            }
        }
        lines.insert(path, self.line);
    }
}

/// The path of a list's item.
pub fn item(path: &str, at: usize) -> String {
    format!("{path}[{at}]")
}

/// The path of a map's member.
pub fn member(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self { line: spanned.referenced.line(), value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Parts)
    }
}

/// Builds a value from whatever comes.
struct Parts;

impl<'de> Visitor<'de> for Parts {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(serde_json::Number::from_f64(value).map_or(Value::NotFinite, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(node) = items.next_element()? {
            list.push(node);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map: Vec<(String, Node)> = Vec::new();
        while let Some(name) = members.next_key::<Spanned<String>>()? {
            let node: Node = members.next_value()?;
            map.push((name.value, Node { line: name.referenced.line(), ..node }));
        }
        Ok(Value::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_the_line_of_its_key() {
        let text = "a:\n  b:\n  - x: 1\n  -\n    y: [2,\n     z]\nc: null\n";
        let lines = parse(text).unwrap().lines();
        let line = |path: &str| lines.get(path).copied().unwrap_or_default();
        let paths = ["a", "a.b", "a.b[0]", "a.b[0].x", "a.b[1].y", "a.b[1].y[1]", "c"];
        assert_eq!(paths.map(line), [1, 2, 3, 3, 5, 6, 7]);
    }

    #[test]
    fn json_is_yaml_and_an_empty_document_is_null() {
        assert_eq!(parse("{\"a\": [true, -1, 0.5]}").unwrap().lines().len(), 5);
        assert_eq!(parse("").unwrap(), Node::default());
        assert_eq!(parse("# nothing\n").unwrap().value, Value::Null);
    }

    #[test]
    fn what_is_not_yaml_is_a_problem_at_its_line() {
        let problem = &parse("a: 1\nb: [1,\nc: 2\n").unwrap_err()[0];
        assert!(problem.line.is_some_and(|line| line >= 2), "{problem:?}");
        let twice = &parse("a: 1\nb: 2\na: 3\n").unwrap_err()[0];
        assert_eq!((twice.line, twice.message.contains('a')), (Some(3), true), "{twice:?}");
    }
}
