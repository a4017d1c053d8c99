//! A YAML or JSON document as a tree that knows its lines.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::NonFiniteFloatPolicy;
use serde_saphyr::{Error, Spanned};

use crate::config::problem::Problem;

/// Values of a document, with those that its aliases stand for: 10,000 endpoints, each with a namespace and a label, are
/// 130,000.
const MOST_VALUES: usize = 150_000;

/// Parser events that the aliases of a document stand for, about one a value: a few for each of 1,000 plugins.
const MOST_REPEATED: usize = 20_000;

/// Bytes of texts with those that aliases stand for: four times the longest file.
const MOST_TEXT: usize = 4 << 20;

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
/// When the text is not YAML, a name stands twice in a map, or it is too large with what its aliases stand for; at its
/// line.
pub fn parse(text: &str) -> Result<Node, Vec<Problem>> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: MOST_VALUES,
            max_recorded_anchor_events: MOST_VALUES,
            max_total_scalar_bytes: MOST_TEXT,
            max_recorded_anchor_bytes: MOST_TEXT,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MOST_REPEATED },
        with_snippet: false,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
    };
    let node = serde_saphyr::from_str_with_options::<Option<Node>>(text, options);
    node.map(Option::unwrap_or_default).map_err(|error| vec![problem(&error)])
}

fn problem(error: &Error) -> Problem {
    let line = error.location().map(|location| location.line()).filter(|line| *line > 0);
    Problem { line, ..told(error) }
}

/// What is wrong; what the reader tells programmers is put in other words.
#[expect(clippy::wildcard_enum_match_arm, reason = "the other messages are for everybody")]
fn told(error: &Error) -> Problem {
    match error.without_snippet() {
        Error::AliasError { error, .. } => told(error),
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            Problem::error("", format!("`{key}` stands twice"))
        }
        Error::DuplicateMappingKey { key: None, .. } => {
            Problem::error("", "a name stands twice in a map")
        }
        Error::MultipleDocuments { .. } => {
            Problem::error("", "there is more than one document in the file").hint("give one")
        }
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            let problem = Problem::error("", "an alias refers to what contains it");
            problem.hint("write out what is meant")
        }
        Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => repetitive(),
        Error::Budget { breach, .. } => beyond(breach),
        other => {
            // The place is said by the problem itself.
            let message = other.to_string();
            Problem::error("", message.split(" at line ").next().unwrap_or_default())
        }
    }
}

/// The problem of a document beyond a limit.
#[expect(clippy::wildcard_enum_match_arm, reason = "the other limits are far beyond a file's")]
fn beyond(breach: &BudgetBreach) -> Problem {
    match breach {
        BudgetBreach::Nodes { .. } => {
            let message = format!("has more than {MOST_VALUES} values, or its aliases make it so");
            Problem::error("", message)
        }
        BudgetBreach::Depth { .. } => Problem::error("", "is nested too deeply"),
        BudgetBreach::Aliases { .. }
        | BudgetBreach::Anchors { .. }
        | BudgetBreach::AliasAnchorRatio { .. }
        | BudgetBreach::RecordedAnchorEvents { .. }
        | BudgetBreach::RecordedAnchorBytes { .. } => repetitive(),
        _ => Problem::error("", "has more text than a file may have, or its aliases make it so"),
    }
}

fn repetitive() -> Problem {
    Problem::error("", "its aliases repeat too much").hint("write out what they stand for")
}

impl Node {
    /// The value under a name, where this is a map that has it.
    pub fn member(&self, name: &str) -> Option<&Self> {
        let Value::Map(members) = &self.value else { return None };
        members.iter().find(|(known, _)| known == name).map(|(_, node)| node)
    }

    /// The line of every place in the document by its path; an empty document has none.
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
        if self.line > 0 {
            lines.insert(path, self.line);
        }
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
        assert_eq!(parse("").unwrap().lines().len(), 0, "it has no line");
    }

    #[test]
    fn what_is_not_yaml_is_a_problem_at_its_line() {
        let problem = &parse("a: 1\nb: [1,\nc: 2\n").unwrap_err()[0];
        assert!(problem.line.is_some_and(|line| line >= 2), "{problem:?}");
        let twice = &parse("a: 1\nb: 2\na: 3\n").unwrap_err()[0];
        assert_eq!((twice.line, twice.message.contains('a')), (Some(3), true), "{twice:?}");
    }

    fn refusal(text: &str) -> String {
        parse(text).unwrap_err()[0].in_file("f").to_string()
    }

    /// A list that is `width` times the one before it, `levels` times over.
    fn bomb(levels: usize, width: usize) -> String {
        let level =
            |n: usize| format!("- &a{n} [{}]\n", vec![format!("*a{}", n - 1); width].join(","));
        format!("- &a0 [x]\n{}", (1..=levels).map(level).collect::<String>())
    }

    #[test]
    fn what_aliases_multiply_is_refused_long_before_it_is_large() {
        for (levels, width) in [(10, 3), (10, 9)] {
            let text = bomb(levels, width);
            assert!(text.len() < 600);
            let told = refusal(&text);
            assert!(told.contains("its aliases repeat too much (write out"), "{told}");
        }
        let shared = format!("- &a {{labels: {{a: b}}}}\n{}", "- *a\n".repeat(99));
        assert!(parse(&shared).is_ok(), "one that a hundred share is no bomb");
        let long = format!("- &a {}\n{}", "x".repeat(1 << 19), "- *a\n".repeat(20));
        assert!(refusal(&long).contains("more text than a file may have"), "{}", refusal(&long));
    }

    #[test]
    fn what_is_wrong_is_told_without_the_words_of_a_library() {
        let large = format!("[{}]", "1,".repeat(MOST_VALUES));
        assert_eq!(
            refusal(&large),
            "f:1: error: has more than 150000 values, or its aliases make it so"
        );
        let two = refusal("a: 1\n---\nb: 2\n");
        assert!(two.ends_with("there is more than one document in the file (give one)"), "{two}");
        let within = refusal("a: &a [*a]\n");
        assert!(within.contains(" an alias refers to what contains it ("), "{within}");
    }
}
