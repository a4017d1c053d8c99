//! Which pods are members, by their labels: as an InferencePool and the command line say it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::pool::{is_label_key, is_label_value};

/// Characters of a bad label in a message.
const LONGEST_SHOWN: usize = 128;

/// What a member's labels must be, all of it; at least one requirement.
///
/// Its text is what the API server takes, which does the matching: `app=llm,tier in (a,b)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSelector(String);

/// Why something is no selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// Every pod of the namespace would be a member.
    #[error("a selector needs a label at least")]
    NoLabels,
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

impl LabelSelector {
    /// Labels that a member has, each with its value.
    ///
    /// # Errors
    /// When there is none, or one that no pod can have: the API server would refuse to look for it.
    pub fn new(labels: BTreeMap<String, String>) -> Result<Self, SelectorError> {
        let pair = |(key, value): (String, String)| {
            check_key(&key)?;
            check_value(&value)?;
            Ok(format!("{key}={value}"))
        };
        Self::all(labels.into_iter().map(pair))
    }

    fn all(
        requirements: impl Iterator<Item = Result<String, SelectorError>>,
    ) -> Result<Self, SelectorError> {
        let requirements = requirements.collect::<Result<Vec<_>, _>>()?;
        if requirements.is_empty() {
            return Err(SelectorError::NoLabels);
        }
        Ok(Self(requirements.join(",")))
    }
}

impl FromStr for LabelSelector {
    type Err = SelectorError;

    /// Reads the API server's own syntax; the commas of a set of values do not part requirements.
    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let mut within = false;
        let parts = text.split(|c| {
            within = c == '(' || within && c != ')';
            c == ',' && !within
        });
        let parts = parts.map(str::trim).filter(|part| !part.is_empty());
        Self::all(parts.map(|part| check_requirement(part).map(|()| part.to_owned())))
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn check_requirement(text: &str) -> Result<(), SelectorError> {
    if let Some((head, set)) = text.split_once('(') {
        return check_set(head.trim(), set)
            .unwrap_or_else(|| Err(SelectorError::NoRequirement(shown(text))));
    }
    for operator in ["!=", "==", "="] {
        if let Some((key, value)) = text.split_once(operator) {
            return check_key(key.trim()).and_then(|()| check_value(value.trim()));
        }
    }
    if let Some((key, bound)) = text.split_once(['<', '>']) {
        return check_key(key.trim()).and_then(|()| check_number(bound.trim()));
    }
    if text.contains(char::is_whitespace) {
        return Err(SelectorError::NoRequirement(shown(text)));
    }
    check_key(text.strip_prefix('!').unwrap_or(text))
}

/// `key in` or `key notin`, and `a,b)`; none when it is not of this form.
fn check_set(head: &str, set: &str) -> Option<Result<(), SelectorError>> {
    let (key, operator) = head.rsplit_once(char::is_whitespace)?;
    let values = set.strip_suffix(')')?;
    let values = || values.split(',').try_for_each(|value| check_value(value.trim()));
    matches!(operator, "in" | "notin").then(|| check_key(key.trim()).and_then(|()| values()))
}

fn check_key(key: &str) -> Result<(), SelectorError> {
    if is_label_key(key) { Ok(()) } else { Err(SelectorError::Key(shown(key))) }
}

fn check_value(value: &str) -> Result<(), SelectorError> {
    if is_label_value(value) { Ok(()) } else { Err(SelectorError::Value(shown(value))) }
}

/// A value of a label that is a number has no sign.
fn check_number(text: &str) -> Result<(), SelectorError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let good = digits && text.parse::<i64>().is_ok();
    if good { Ok(()) } else { Err(SelectorError::Number(shown(text))) }
}

/// What is said of a text that can be of any length.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(LONGEST_SHOWN).collect();
    if short.len() < text.len() { short + "…" } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> String {
        text.parse::<LabelSelector>().unwrap().to_string()
    }

    fn refused(text: &str) -> SelectorError {
        text.parse::<LabelSelector>().unwrap_err()
    }

    #[test]
    fn a_selector_is_passed_on_as_it_is_written() {
        for text in [
            "app=llm,tier==gpu",
            "example.com/app=llm",
            "empty=",
            "env in (a,b),app=llm",
            "env notin ( a, b ),zone",
            "env in(a)",
            "env in ()",
            "!spot,tier != cpu",
            "generation > 3",
        ] {
            assert_eq!(written(text), text);
        }
        assert_eq!(written(" app=llm , tier=gpu,"), "app=llm,tier=gpu");
    }

    #[test]
    fn the_labels_of_a_pool_are_a_selector() {
        let labels = [("tier", "gpu"), ("app", "llm")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        assert_eq!(LabelSelector::new(labels).unwrap().to_string(), "app=llm,tier=gpu");
        assert_eq!(LabelSelector::new(BTreeMap::new()), Err(SelectorError::NoLabels));
        let no_key = [("a in (b)".to_owned(), "c".to_owned())].into();
        assert!(matches!(LabelSelector::new(no_key), Err(SelectorError::Key(_))));
    }

    #[test]
    fn what_the_api_server_would_refuse_is_refused() {
        assert_eq!(refused(" ,"), SelectorError::NoLabels);
        for text in ["env in a", "env in (a", "env in (a) b", "in (a)", "env of (a)", "a b", "(a)"]
        {
            assert_eq!(refused(text), SelectorError::NoRequirement(text.to_owned()), "{text}");
        }
        for key in ["-a", "a/b/c", "/a", "UP.example/a", "a..b/c", &"k".repeat(64), ""] {
            assert_eq!(refused(&format!("{key}=x")), SelectorError::Key(key.to_owned()));
        }
        let SelectorError::Key(shown) = refused(&format!("{}=x", "ü".repeat(1 << 20))) else {
            panic!()
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
    }
}
