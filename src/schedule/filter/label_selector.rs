//! Keeps the endpoints whose labels a Kubernetes label selector matches.
//!
//! All of `matchLabels` and of `matchExpressions` must hold: `In` where the label has one of the values, `NotIn` where it
//! has none of them or is absent, `Exists` and `DoesNotExist` whatever its value. A selector that asks for nothing keeps
//! all. Labels are never missing or stale. Where nobody matches, none is kept: 503.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use crate::pool::{Slot, is_label_key, is_label_value};
use crate::schedule::registry::{BadParameters, Build, Empty, Plugin, parameters};
use crate::schedule::{Filter, Needs, PickContext};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "label-selector-filter",
    summary: "Keeps the endpoints whose labels match a Kubernetes label selector; all when it asks for nothing.",
    needs: Needs::NONE,
    build: Build::Filter(
        |raw| Ok(Box::new(parameters::<LabelSelector>(raw)?.checked()?)),
        Empty::Capability,
    ),
};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct LabelSelector {
    /// Labels that an endpoint has, each with its value; default none.
    match_labels: BTreeMap<String, String>,
    /// Requirements beside them; default none.
    match_expressions: Vec<Requirement>,
}

/// What one label must be.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Requirement {
    /// The label's key.
    key: String,
    operator: Operator,
    /// At least one for `In` and `NotIn`, none for the others.
    #[serde(default)]
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl LabelSelector {
    fn checked(self) -> Result<Self, BadParameters> {
        for (key, value) in &self.match_labels {
            check_key("matchLabels", key)?;
            check_value("matchLabels", value)?;
        }
        self.match_expressions.iter().try_for_each(Requirement::check)?;
        Ok(self)
    }

    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.lacking(labels).is_none()
    }

    /// The first requirement that the labels do not meet, as a selector is written.
    fn lacking(&self, labels: &BTreeMap<String, String>) -> Option<String> {
        let label = self.match_labels.iter().find(|(key, value)| labels.get(*key) != Some(value));
        let other = || self.match_expressions.iter().find(|it| !it.holds(labels));
        match label {
            Some((key, value)) => Some(format!("{key}={value}")),
            None => other().map(ToString::to_string),
        }
    }
}

impl Requirement {
    fn check(&self) -> Result<(), BadParameters> {
        let Self { key, operator, values } = self;
        check_key("matchExpressions", key)?;
        let valued = matches!(operator, Operator::In | Operator::NotIn);
        if valued == values.is_empty() {
            let count = if valued { "values, give one at least" } else { "no values, give none" };
            return Err(BadParameters(format!(
                "matchExpressions: {operator:?} of `{key}` takes {count}"
            )));
        }
        values.iter().try_for_each(|value| check_value("matchExpressions", value))
    }

    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let listed = value.is_some_and(|value| self.values.contains(value));
        match self.operator {
            Operator::In => listed,
            Operator::NotIn => !listed,
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

impl Filter for LabelSelector {
    fn filter(&self, cx: PickContext<'_>, candidates: &mut Vec<Slot>) {
        candidates.retain(|&slot| {
            cx.snapshot.endpoint(slot).is_some_and(|endpoint| self.matches(&endpoint.spec.labels))
        });
    }

    fn reason(&self, cx: PickContext<'_>, slot: Slot) -> Option<String> {
        let lacking = self.lacking(&cx.snapshot.endpoint(slot)?.spec.labels)?;
        Some(format!("its labels do not match {lacking}"))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(", "));
        match self.operator {
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
        }
    }
}

/// Refuses what no label has for a key.
pub(in crate::schedule) fn check_key(field: &str, key: &str) -> Result<(), BadParameters> {
    let refused = || BadParameters(format!("{field}: `{key}` is no key of a label"));
    is_label_key(key).then_some(()).ok_or_else(refused)
}

/// Refuses what no label has for a value.
pub(in crate::schedule) fn check_value(field: &str, value: &str) -> Result<(), BadParameters> {
    let refused = || BadParameters(format!("{field}: `{value}` is no value of a label"));
    is_label_value(value).then_some(()).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::schedule::fixture;

    fn selector(raw: Value) -> Result<LabelSelector, String> {
        let read = parameters::<LabelSelector>(raw).and_then(LabelSelector::checked);
        read.map_err(|error| error.0)
    }

    /// Positions of the endpoints that are kept of those with these labels.
    fn kept(raw: Value, labels: &[&[(&str, &str)]]) -> Vec<usize> {
        fixture::kept(&selector(raw).unwrap(), &fixture::labeled(labels))
    }

    const POOL: [&[(&str, &str)]; 4] = [
        &[("tier", "gold"), ("zone", "a")],
        &[("tier", "gold")],
        &[("tier", "free"), ("zone", "b")],
        &[],
    ];

    #[test]
    fn all_that_is_asked_for_must_match() {
        let tier = json!({"tier": "gold"});
        assert_eq!(kept(json!({"matchLabels": tier}), &POOL), [0, 1]);
        let zone = json!([{"key": "zone", "operator": "Exists"}]);
        assert_eq!(kept(json!({"matchLabels": tier, "matchExpressions": zone}), &POOL), [0]);
        assert!(kept(json!({"matchLabels": {"tier": "none"}}), &POOL).is_empty());
    }

    #[test]
    fn an_expression_holds_as_in_kubernetes() {
        for (operator, values, expected) in [
            ("In", json!(["gold", "silver"]), vec![0, 1]),
            ("NotIn", json!(["gold"]), vec![2, 3]),
            ("Exists", json!([]), vec![0, 1, 2]),
            ("DoesNotExist", json!([]), vec![3]),
        ] {
            let one = json!([{"key": "tier", "operator": operator, "values": values}]);
            assert_eq!(kept(json!({"matchExpressions": one}), &POOL), expected, "{operator}");
        }
    }

    #[test]
    fn a_selector_that_asks_for_nothing_keeps_all() {
        assert_eq!(kept(Value::Null, &POOL), [0, 1, 2, 3]);
        assert_eq!(kept(json!({"matchLabels": {}, "matchExpressions": []}), &POOL[..1]), [0]);
        assert_eq!(kept(Value::Null, &vec![&[] as &[_]; 1000]).len(), 1000);
    }

    #[test]
    fn what_is_no_selector_is_refused_with_what_is_wrong() {
        let expression = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (raw, want) in [
            (expression("tier", "Equals", json!(["a"])), "unknown variant `Equals`"),
            (expression("tier", "In", json!([])), "In of `tier` takes values, give one at least"),
            (expression("tier", "Exists", json!(["a"])), "takes no values, give none"),
            (expression("a/b/c", "In", json!(["a"])), "`a/b/c` is no key of a label"),
            (expression("tier", "In", json!(["a b"])), "`a b` is no value of a label"),
            (json!({"matchLabels": {"-": "a"}}), "`-` is no key of a label"),
            (json!({"matchLabels": {"a": 1}}), "expected a string"),
        ] {
            let error = selector(raw).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }
}
