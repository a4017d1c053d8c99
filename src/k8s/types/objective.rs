//! InferenceObjective.

use serde::{Deserialize, Deserializer, Serialize};

use super::PoolRef;

/// The spec of an InferenceObjective.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ObjectiveSpec {
    /// Higher is more urgent, below 0 is sheddable; absent means 0.
    #[serde(default, deserialize_with = "saturated")]
    pub priority: Option<i32>,
    /// The pool that it is for.
    pub pool_ref: PoolRef,
}

/// The older group has integers of any size; one of them must not spoil a list.
fn saturated<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i32>, D::Error> {
    let bounded = |priority: i64| {
        i32::try_from(priority).unwrap_or(if priority < 0 { i32::MIN } else { i32::MAX })
    };
    Ok(Option::<i64>::deserialize(deserializer)?.map(bounded))
}

#[cfg(test)]
mod tests {
    use super::*;

    // FR-046
    #[test]
    fn a_priority_beyond_the_range_is_the_last_one_in_it() {
        let priority = |text: &str| serde_json::from_str::<ObjectiveSpec>(text).unwrap().priority;
        let reference = r#""poolRef": {"name": "p"}"#;
        assert_eq!(
            priority(&format!(r#"{{"priority": 3000000000, {reference}}}"#)),
            Some(i32::MAX)
        );
        assert_eq!(
            priority(&format!(r#"{{"priority": -3000000000, {reference}}}"#)),
            Some(i32::MIN)
        );
        assert_eq!(priority(&format!(r#"{{"priority": -7, {reference}}}"#)), Some(-7));
        assert_eq!(priority(&format!("{{{reference}}}")), None);
    }
}
