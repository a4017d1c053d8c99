//! What autoscalers are told by, settable in the configuration file.

use std::fmt;
use std::time::Duration;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

use crate::config::reader::or_default;
use crate::scale::{Aims, Goal};
use crate::units::{GoDuration, Positive};

/// [`Aims`] as they are set; what is absent is not set.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct AutoscalingSettings {
    /// The time within which nine of ten first tokens are to come.
    #[serde(deserialize_with = "or_default")]
    pub target_ttft: Option<Positive<GoDuration>>,
    /// The share of their time that engines are to be busy at most.
    #[serde(deserialize_with = "or_default")]
    pub target_utilization: Option<Share>,
    /// The time that a further replica takes to be ready.
    #[serde(deserialize_with = "or_default")]
    pub lead: Option<GoDuration>,
}

/// More than 0.0 and at most 1.0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(f64);

impl AutoscalingSettings {
    /// What follows.
    pub fn resolved(self) -> Aims {
        let Positive(GoDuration(ttft)) =
            self.target_ttft.unwrap_or(Positive(GoDuration(Duration::from_secs(2))));
        let Share(utilization) = self.target_utilization.unwrap_or(Share(0.8));
        let GoDuration(lead) = self.lead.unwrap_or(GoDuration(Duration::from_mins(1)));
        Aims { goal: Goal { ttft: ttft.as_secs_f64(), utilization }, lead }
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Number)
    }
}

/// Reads a number as a share.
struct Number;

impl Visitor<'_> for Number {
    type Value = Share;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_f64<E: Error>(self, share: f64) -> Result<Share, E> {
        let good = share > 0.0 && share <= 1.0;
        let refused = || E::custom(format!("{share} is no share, give more than 0 and at most 1"));
        good.then_some(Share(share)).ok_or_else(refused)
    }

    fn visit_u64<E: Error>(self, share: u64) -> Result<Share, E> {
        self.visit_f64(share as f64)
    }

    fn visit_i64<E: Error>(self, share: i64) -> Result<Share, E> {
        self.visit_f64(share as f64)
    }
}
