//! Which pods are members, by their labels: as an InferencePool and the command line say it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::pool::{Requirement, Selector, SelectorError};

/// What a member's labels must be, all of it; at least one requirement.
///
/// Its text is what the API server takes, which does the matching: `app=llm,tier in (a,b)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSelector(String);

/// Why something selects no members.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSelector {
    /// Every pod of the namespace would be a member.
    #[error("a selector needs a label at least")]
    NoLabels,
    /// The API server would refuse it.
    #[error(transparent)]
    Bad(#[from] SelectorError),
}

impl LabelSelector {
    /// Labels that a member has, each with its value.
    ///
    /// # Errors
    /// When there is none, or one that no pod can have: the API server would refuse to look for it.
    pub fn new(labels: BTreeMap<String, String>) -> Result<Self, BadSelector> {
        let pair = |(key, value): (String, String)| {
            Requirement::is(&key, &value)?;
            Ok(format!("{key}={value}"))
        };
        Self::all(labels.into_iter().map(pair))
    }

    fn all(
        requirements: impl Iterator<Item = Result<String, SelectorError>>,
    ) -> Result<Self, BadSelector> {
        let requirements = requirements.collect::<Result<Vec<_>, _>>()?;
        if requirements.is_empty() {
            return Err(BadSelector::NoLabels);
        }
        Ok(Self(requirements.join(",")))
    }
}

impl FromStr for LabelSelector {
    type Err = BadSelector;

    fn from_str(text: &str) -> Result<Self, BadSelector> {
        let written = |part: &str| part.parse::<Requirement>().map(|_| part.to_owned());
        Self::all(Selector::parts(text).map(written))
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> String {
        text.parse::<LabelSelector>().unwrap().to_string()
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
        let no_key = [("a in (b)".to_owned(), "c".to_owned())].into();
        assert!(matches!(LabelSelector::new(no_key), Err(BadSelector::Bad(SelectorError::Key(_)))));
    }

    #[test]
    fn what_would_take_every_pod_or_is_no_selector_is_refused() {
        assert_eq!(LabelSelector::new(BTreeMap::new()), Err(BadSelector::NoLabels));
        assert_eq!(" ,".parse::<LabelSelector>(), Err(BadSelector::NoLabels));
        let refused = "app=llm,a b".parse::<LabelSelector>().unwrap_err();
        assert!(refused.to_string().starts_with("\"a b\" is no requirement, give key=value"));
    }
}
