//! What is held of requests for a pool without endpoints, settable in the configuration file.

use std::num::NonZero;
use std::time::Duration;

use serde::Deserialize;

use crate::config::reader::or_default;
use crate::flow::Limits;
use crate::units::{GoDuration, Positive, Quantity};

/// [`Limits`] as they are set; what is absent is not set.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct HoldSettings {
    /// Longest wait.
    #[serde(deserialize_with = "or_default")]
    pub max_wait: Option<Positive<GoDuration>>,
    /// Requests at a time.
    #[serde(deserialize_with = "or_default")]
    pub max_requests: Option<NonZero<u32>>,
    /// Bytes of their bodies, as they are charged to the budget for bodies.
    #[serde(deserialize_with = "or_default")]
    pub max_bytes: Option<Positive<Quantity>>,
}

impl HoldSettings {
    /// What follows. Default 2 m, 1,000 requests, 64 MiB.
    pub fn resolved(self) -> Limits {
        let time = |Positive(GoDuration(time))| time;
        let bytes = |Positive(Quantity(bytes))| bytes;
        Limits {
            max_wait: self.max_wait.map_or(Duration::from_mins(2), time),
            max_requests: self.max_requests.map_or(1_000, NonZero::get),
            max_bytes: self.max_bytes.map_or(64 << 20, bytes),
        }
    }
}
