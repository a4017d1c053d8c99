//! Keeps the endpoints that have one of some values for a label. Deprecated: `label-selector-filter` says the same.
//!
//! An endpoint without the label is kept where `allowsNoLabel` is set. Labels are never missing or stale. Where nobody
//! matches, none is kept: 503.

use serde::Deserialize;

use crate::pool::Slot;
use crate::schedule::filter::label_selector::{check_key, check_value};
use crate::schedule::registry::{BadParameters, Build, Empty, Plugin, parameters};
use crate::schedule::{Filter, Needs, PickContext};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "by-label",
    summary: "Keeps the endpoints that have one of some values for a label. Deprecated: use `label-selector-filter`.",
    needs: Needs::NONE,
    build: Build::Filter(
        |raw| Ok(Box::new(parameters::<ByLabel>(raw)?.checked()?)),
        Empty::Capability,
    ),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ByLabel {
    /// The label's key.
    label: String,
    /// Values of endpoints that are kept; default none.
    #[serde(default)]
    valid_values: Vec<String>,
    /// Whether endpoints without the label are kept; default false.
    #[serde(default)]
    allows_no_label: bool,
}

impl ByLabel {
    fn checked(self) -> Result<Self, BadParameters> {
        check_key("label", &self.label)?;
        self.valid_values.iter().try_for_each(|value| check_value("validValues", value))?;
        if self.valid_values.is_empty() && !self.allows_no_label {
            let message = "validValues is empty and allowsNoLabel false: nothing would be kept";
            return Err(BadParameters(message.to_owned()));
        }
        Ok(self)
    }
}

impl Filter for ByLabel {
    fn filter(&self, cx: PickContext<'_>, candidates: &mut Vec<Slot>) {
        candidates.retain(|&slot| match cx.snapshot.label(slot, &self.label) {
            Some(value) => self.valid_values.iter().any(|valid| valid == value),
            None => self.allows_no_label,
        });
    }

    fn reason(&self, cx: PickContext<'_>, slot: Slot) -> Option<String> {
        let (label, values) = (&self.label, self.valid_values.join(", "));
        Some(match cx.snapshot.label(slot, label) {
            Some(value) => format!("its label {label} is {value}, kept are {values}"),
            None => format!("it has no label {label}, kept are {values}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::schedule::fixture;

    fn filter(raw: Value) -> Result<ByLabel, String> {
        parameters::<ByLabel>(raw).and_then(ByLabel::checked).map_err(|error| error.0)
    }

    #[test]
    fn the_listed_values_are_kept_and_absence_where_it_is_allowed() {
        let pool = fixture::labeled(&[&[("tier", "gold")], &[("tier", "free")], &[]]);
        let kept = |raw| fixture::kept(&filter(raw).unwrap(), &pool);
        assert_eq!(kept(json!({"label": "tier", "validValues": ["gold", "silver"]})), [0]);
        let optional = json!({"label": "tier", "validValues": ["free"], "allowsNoLabel": true});
        assert_eq!(kept(optional), [1, 2]);
        assert_eq!(kept(json!({"label": "tier", "allowsNoLabel": true})), [2]);
        assert!(kept(json!({"label": "tier", "validValues": ["none"]})).is_empty());
    }

    #[test]
    fn one_endpoint_and_a_thousand_are_judged_alike() {
        let gold = filter(json!({"label": "tier", "validValues": ["gold"]})).unwrap();
        let labels: &[_] = &[("tier", "gold")];
        for size in [1, 1000] {
            assert_eq!(fixture::kept(&gold, &fixture::labeled(&vec![labels; size])).len(), size);
        }
    }

    #[test]
    fn what_would_keep_nothing_or_is_no_label_is_refused() {
        for (raw, want) in [
            (json!({}), "missing field `label`"),
            (json!({"label": "tier"}), "nothing would be kept"),
            (json!({"label": "", "validValues": ["a"]}), "`` is no key of a label"),
            (json!({"label": "tier", "validValues": ["a b"]}), "`a b` is no value of a label"),
        ] {
            let error = filter(raw).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }
}
