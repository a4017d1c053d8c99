//! Selectors of labels, as the API server reads them: `app=llm,tier in (a,b),!spot`.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::pool::{is_label_key, is_label_value};

/// Characters of what is bad in a message.
const LONGEST_SHOWN: usize = 128;

/// What labels must be, all of it; nothing takes all endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

/// What one label must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// One of these.
    In(String, Vec<String>),
    /// None of these, or absent.
    NotIn(String, Vec<String>),
    /// There, whatever its value.
    Exists(String),
    /// Not there.
    Absent(String),
    /// A whole number that is greater.
    Greater(String, i64),
    /// A whole number that is less.
    Less(String, i64),
}

/// The part of a text that is no requirement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// Nothing that labels can be asked for.
    #[error(
        "{0:?} is no requirement, give key=value, key!=value, key in (a,b), key notin (a,b), key or !key"
    )]
    NoRequirement(String),
    /// A key that no label can have.
    #[error("{0:?} is no key of a label")]
    Key(String),
    /// A value that no label can have.
    #[error("{0:?} is no value of a label")]
    Value(String),
    /// Only numbers can be compared.
    #[error("{0:?} is no whole number, which < and > take")]
    Number(String),
}

impl Selector {
    /// Whether labels are what they must be.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| requirement.holds(labels))
    }

    /// The requirements of a selector as they are written; the commas of a set of values do not part them.
    pub fn parts(text: &str) -> impl Iterator<Item = &str> {
        let mut within = false;
        let parts = text.split(move |c| {
            within = c == '(' || within && c != ')';
            c == ',' && !within
        });
        parts.map(str::trim).filter(|part| !part.is_empty())
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        Self::parts(text).map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl FromStr for Requirement {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        if let Some((head, set)) = text.split_once('(') {
            return Self::of_set(head.trim(), set)
                .unwrap_or_else(|| Err(SelectorError::NoRequirement(shown(text))));
        }
        if let Some((key, value)) = text.split_once("!=") {
            return Ok(Self::NotIn(checked_key(key)?, vec![checked_value(value)?]));
        }
        if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
            return Ok(Self::In(checked_key(key)?, vec![checked_value(value)?]));
        }
        if let Some((key, bound)) = text.split_once('>') {
            return Ok(Self::Greater(checked_key(key)?, number(bound)?));
        }
        if let Some((key, bound)) = text.split_once('<') {
            return Ok(Self::Less(checked_key(key)?, number(bound)?));
        }
        if text.contains(char::is_whitespace) {
            return Err(SelectorError::NoRequirement(shown(text)));
        }
        match text.strip_prefix('!') {
            Some(key) => checked_key(key).map(Self::Absent),
            None => checked_key(text).map(Self::Exists),
        }
    }
}

impl Requirement {
    /// A label with this value.
    ///
    /// # Errors
    /// When no label can have the key, or the value.
    pub fn is(key: &str, value: &str) -> Result<Self, SelectorError> {
        Ok(Self::In(checked_key(key)?, vec![checked_value(value)?]))
    }

    /// `key in` or `key notin`, and `a,b)`; none when it is not of this form.
    fn of_set(head: &str, set: &str) -> Option<Result<Self, SelectorError>> {
        let (key, operator) = head.rsplit_once(char::is_whitespace)?;
        let values = set.strip_suffix(')')?.split(',').map(checked_value);
        let of: fn(String, Vec<String>) -> Self = match operator {
            "in" => Self::In,
            "notin" => Self::NotIn,
            _ => return None,
        };
        let values: Result<_, _> = values.collect();
        Some(checked_key(key).and_then(|key| Ok(of(key, values?))))
    }

    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let number = |key| labels.get(key).and_then(|value: &String| value.parse::<i64>().ok());
        match self {
            Self::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Self::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Self::Exists(key) => labels.contains_key(key),
            Self::Absent(key) => !labels.contains_key(key),
            Self::Greater(key, bound) => number(key).is_some_and(|value| value > *bound),
            Self::Less(key, bound) => number(key).is_some_and(|value| value < *bound),
        }
    }
}

fn checked_key(key: &str) -> Result<String, SelectorError> {
    let key = key.trim();
    if is_label_key(key) { Ok(key.to_owned()) } else { Err(SelectorError::Key(shown(key))) }
}

fn checked_value(value: &str) -> Result<String, SelectorError> {
    let value = value.trim();
    if is_label_value(value) {
        Ok(value.to_owned())
    } else {
        Err(SelectorError::Value(shown(value)))
    }
}

/// A value of a label that is a number has no sign.
fn number(text: &str) -> Result<i64, SelectorError> {
    let text = text.trim();
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| digits);
    number.ok_or_else(|| SelectorError::Number(shown(text)))
}

/// What is said of a text that can be of any length.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(LONGEST_SHOWN).collect();
    if short.len() < text.len() { short + "…" } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str) -> bool {
        let labels = [("app", "llm"), ("tier", "a"), ("generation", "4")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        selector.parse::<Selector>().unwrap().matches(&labels)
    }

    fn refused(text: &str) -> SelectorError {
        format!("app=llm,{text}").parse::<Selector>().unwrap_err()
    }

    #[test]
    fn labels_are_matched_as_the_api_server_does() {
        for selector in [
            "",
            "app=llm",
            "app==llm, tier in (a,b)",
            "tier notin (b),app",
            "spot != yes",
            "!spot",
            "app=llm,",
            "generation > 3,generation<5",
        ] {
            assert!(matches(selector), "{selector}");
        }
        for selector in [
            "app=x",
            "app=llm,tier=b",
            "!app",
            "spot",
            "tier notin (a, b)",
            "app=",
            "generation>4",
            "generation < 4",
            "spot > 1",
            "app < 9",
        ] {
            assert!(!matches(selector), "{selector}");
        }
    }

    #[test]
    fn what_the_api_server_would_refuse_is_refused() {
        for text in ["env in a", "env in (a", "env in (a) b", "in (a)", "env of (a)", "a b", "(a)"]
        {
            assert_eq!(refused(text), SelectorError::NoRequirement(text.to_owned()), "{text}");
        }
        for key in ["-a", "a/b/c", "/a", "UP.example/a", "a..b/c", &"k".repeat(64), ""] {
            assert_eq!(refused(&format!("{key}=x")), SelectorError::Key(key.to_owned()));
        }
        let SelectorError::Key(shown) = refused(&format!("{}=x", "ü".repeat(1 << 20))) else {
            panic!("another error")
        };
        assert_eq!(shown.chars().count(), 129);
        for value in ["-", "a b", "a/b", &"v".repeat(64)] {
            let expected = SelectorError::Value(value.to_owned());
            assert_eq!(refused(&format!("app={value}")), expected);
            assert_eq!(refused(&format!("app in (a,{value})")), expected);
        }
        assert_eq!(refused("!a=b"), SelectorError::Key("!a".to_owned()));
        assert_eq!(refused("a>b"), SelectorError::Number("b".to_owned()));
        assert_eq!(refused("a>"), SelectorError::Number(String::new()));
        assert_eq!(refused("a>-1"), SelectorError::Number("-1".to_owned()));
    }
}
