//! Which pods are members, and on which ports they serve: as an InferencePool and the command line say it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// The longest part of a label: its name, or its value.
const LONGEST_PART: usize = 63;

/// The longest prefix of a label's key, which is a DNS name.
const LONGEST_PREFIX: usize = 253;

/// Characters of a bad label in a message.
const LONGEST_SHOWN: usize = 128;

/// The most ports of a pod, as the InferencePool has it.
const MOST_PORTS: usize = 8;

/// Labels that a member has, all of them, each with its value; at least one.
///
/// Its text is what the API server takes: `app=llm,tier=gpu`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSelector(BTreeMap<String, String>);

/// Ports of a pod, one endpoint for each: 1 to 8, none twice. Their order gives the endpoints their ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetPorts(Vec<u16>);

/// Why something is no selector, or no list of ports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Every pod of the namespace would be a member.
    #[error("a selector needs a label at least")]
    NoLabels,
    /// Not of the form `key=value`.
    #[error("{0:?} is no label, give key=value")]
    NoPair(String),
    /// A key that no label can have.
    #[error("{0:?} is no key of a label")]
    Key(String),
    /// A value that no label can have.
    #[error("{0:?} is no value of a label")]
    Value(String),
    /// Too few or too many.
    #[error("{0} ports, give 1 to 8")]
    PortCount(usize),
    /// No number, or not of a port.
    #[error("{0:?} is no port, give 1 to 65535")]
    Port(String),
    /// The port is there already.
    #[error("port {0} is given twice")]
    Repeated(u16),
}

impl LabelSelector {
    /// The labels, each checked.
    ///
    /// # Errors
    /// When there is none, or one that no pod can have: the API server would refuse to look for it.
    pub fn new(labels: BTreeMap<String, String>) -> Result<Self, TargetError> {
        if labels.is_empty() {
            return Err(TargetError::NoLabels);
        }
        for (key, value) in &labels {
            if !is_key(key) {
                return Err(TargetError::Key(shown(key)));
            }
            if !value.is_empty() && !is_part(value) {
                return Err(TargetError::Value(shown(value)));
            }
        }
        Ok(Self(labels))
    }
}

impl FromStr for LabelSelector {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let pair = |pair: &str| {
            let (key, value) =
                pair.split_once('=').ok_or_else(|| TargetError::NoPair(pair.to_owned()))?;
            let value = value.strip_prefix('=').unwrap_or(value);
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        };
        let pairs = text.split(',').filter(|pair| !pair.trim().is_empty()).map(pair);
        Self::new(pairs.collect::<Result<_, _>>()?)
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (key, value)) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { "," };
            write!(f, "{separator}{key}={value}")?;
        }
        Ok(())
    }
}

impl TargetPorts {
    /// The ports, each checked.
    ///
    /// # Errors
    /// When there are too few or too many, or one is out of range or there twice.
    pub fn new(numbers: &[i64]) -> Result<Self, TargetError> {
        if !(1..=MOST_PORTS).contains(&numbers.len()) {
            return Err(TargetError::PortCount(numbers.len()));
        }
        let (mut ports, mut seen) = (Vec::with_capacity(numbers.len()), BTreeSet::new());
        for number in numbers {
            let port = u16::try_from(*number).ok().filter(|port| *port > 0);
            let port = port.ok_or_else(|| TargetError::Port(number.to_string()))?;
            if !seen.insert(port) {
                return Err(TargetError::Repeated(port));
            }
            ports.push(port);
        }
        Ok(Self(ports))
    }

    /// In order of rank.
    pub fn as_slice(&self) -> &[u16] {
        &self.0
    }
}

impl FromStr for TargetPorts {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let number =
            |text: &str| text.trim().parse().ok().ok_or_else(|| TargetError::Port(text.to_owned()));
        Self::new(&text.split(',').map(number).collect::<Result<Vec<_>, _>>()?)
    }
}

/// What is said of a text that can be of any length.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(LONGEST_SHOWN).collect();
    if short.len() < text.len() { short + "…" } else { short }
}

/// A name, or a DNS name, a slash and a name.
fn is_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_prefix(prefix) && is_part(name),
        None => is_part(key),
    }
}

fn is_prefix(prefix: &str) -> bool {
    let of_dns = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_label = |label: &str| {
        !label.is_empty()
            && label.chars().all(of_dns)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    prefix.len() <= LONGEST_PREFIX && prefix.split('.').all(is_label)
}

/// Letters and digits, within them also `-`, `_` and `.`.
fn is_part(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= LONGEST_PART
        && ends(text.chars().next())
        && ends(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_written_as_the_api_server_takes_it() {
        let text = |text: &str| text.parse::<LabelSelector>().unwrap().to_string();
        assert_eq!(text("tier==gpu, example.com/app=llm"), "example.com/app=llm,tier=gpu");
        assert_eq!(text("empty="), "empty=");
    }

    #[test]
    fn labels_that_no_pod_can_have_are_refused() {
        let refused = |text: &str| text.parse::<LabelSelector>().unwrap_err();
        assert_eq!(refused(""), TargetError::NoLabels);
        assert_eq!(refused("app"), TargetError::NoPair("app".to_owned()));
        for key in ["a b", "-a", "a/b/c", "/a", "UP.example/a", "a..b/c", &"k".repeat(64), ""] {
            assert_eq!(refused(&format!("{key}=x")), TargetError::Key(key.to_owned()));
        }
        let TargetError::Key(shown) = refused(&format!("{}=x", "ü".repeat(1 << 20))) else {
            panic!()
        };
        assert_eq!(shown.chars().count(), 129);
        for value in ["-", "a b", "a/b", &"v".repeat(64)] {
            assert_eq!(refused(&format!("app={value}")), TargetError::Value(value.to_owned()));
        }
    }

    #[test]
    fn ports_keep_their_order_and_are_one_to_eight() {
        assert_eq!("8001, 8000".parse::<TargetPorts>().unwrap().as_slice(), [8001, 8000]);
        let refused = |numbers: &[i64]| TargetPorts::new(numbers).unwrap_err();
        assert_eq!(refused(&[]), TargetError::PortCount(0));
        assert_eq!(refused(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), TargetError::PortCount(9));
        assert_eq!(refused(&[0]), TargetError::Port("0".to_owned()));
        assert_eq!(refused(&[65_536]), TargetError::Port("65536".to_owned()));
        assert_eq!(refused(&[80, 81, 80]), TargetError::Repeated(80));
        assert!("80,".parse::<TargetPorts>().is_err());
    }
}
