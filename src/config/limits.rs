//! What a request may cost, settable by flags and in the configuration file.

use std::time::Duration;

use clap::Args;
use serde::Deserialize;

use crate::config::reader::or_default;
use crate::director::DECISION_DEADLINE;
use crate::units::{ChunkBytes, GoDuration, Positive, Quantity};

const MIB: u64 = 1 << 20;

/// Limits as they apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest request body; a longer one is answered 413. Default 64 MiB.
    pub max_request_body: u64,
    /// Memory of request bodies held over all streams, 1.6 bytes for each of a long one; beyond it 429. Default 1 GiB, at
    /// most a quarter of the memory limit.
    pub body_budget: u64,
    /// Longest wait for the next piece of a request's body; then 408. Default 60 s.
    pub body_read_timeout: Duration,
    /// Longest silence of an open stream; none by default, since an answer may be silent while a model thinks, the
    /// gateway's own time-outs end what is abandoned, and a dead connection is noticed by its keep-alive.
    pub stream_idle_timeout: Option<Duration>,
    /// Bytes of request headers that are looked at. Default 128 KiB.
    pub max_header_bytes: u64,
    /// Longest piece in which a body is sent back. Default 62,000 bytes.
    pub max_chunk_bytes: ChunkBytes,
    /// Time for a decision; a late one takes the least loaded endpoint. Default 50 ms.
    pub decision_deadline: Duration,
}

/// Limits as they are set; what is absent is not set.
#[derive(Args, Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct LimitSettings {
    /// Longest request body; longer ones are answered 413 [default: 64MiB].
    #[serde(deserialize_with = "or_default")]
    #[arg(long, value_name = "SIZE")]
    pub max_request_body: Option<Positive<Quantity>>,
    /// Memory of request bodies held over all streams, 1.6 bytes for each of a long one; beyond it 429 [default: 1GiB, at
    /// most 1/4 of the memory limit].
    #[serde(deserialize_with = "or_default")]
    #[arg(long, value_name = "SIZE")]
    pub body_budget: Option<Positive<Quantity>>,
    /// Longest wait for the next piece of a request body; then 408 [default: 60s].
    #[serde(deserialize_with = "or_default")]
    #[arg(long, value_name = "DURATION")]
    pub body_read_timeout: Option<Positive<GoDuration>>,
    /// Longest silence of an open stream; 0 is none [default: 0].
    #[serde(deserialize_with = "or_default")]
    #[arg(long, value_name = "DURATION")]
    pub stream_idle_timeout: Option<GoDuration>,
    /// Bytes of request headers that are looked at [default: 128KiB].
    #[serde(deserialize_with = "or_default")]
    #[arg(long, value_name = "SIZE")]
    pub max_header_bytes: Option<Positive<Quantity>>,
    /// Longest piece in which a body is sent back, 1024 to 65536 [default: 62000].
    #[serde(deserialize_with = "or_default")]
    #[arg(long, value_name = "SIZE")]
    pub max_chunk_bytes: Option<ChunkBytes>,
    /// Time for a decision; a late one takes the least loaded endpoint [default: 50ms].
    #[serde(deserialize_with = "or_default")]
    #[arg(long, value_name = "DURATION")]
    pub decision_deadline: Option<Positive<GoDuration>>,
}

impl LimitSettings {
    /// These settings, and those of `other` where these are absent.
    #[must_use]
    pub fn over(self, other: Self) -> Self {
        Self {
            max_request_body: self.max_request_body.or(other.max_request_body),
            body_budget: self.body_budget.or(other.body_budget),
            body_read_timeout: self.body_read_timeout.or(other.body_read_timeout),
            stream_idle_timeout: self.stream_idle_timeout.or(other.stream_idle_timeout),
            max_header_bytes: self.max_header_bytes.or(other.max_header_bytes),
            max_chunk_bytes: self.max_chunk_bytes.or(other.max_chunk_bytes),
            decision_deadline: self.decision_deadline.or(other.decision_deadline),
        }
    }

    /// The limits that follow. `memory` is the limit of the process in bytes, none when it has none.
    pub fn limits(self, memory: Option<u64>) -> Limits {
        let bytes = |set: Option<Positive<Quantity>>, default| {
            set.map_or(default, |Positive(Quantity(bytes))| bytes)
        };
        let time = |set: Option<Positive<GoDuration>>, default| {
            set.map_or(default, |Positive(GoDuration(time))| time)
        };
        let budget = memory.map_or(1024 * MIB, |memory| (memory / 4).min(1024 * MIB));
        Limits {
            max_request_body: bytes(self.max_request_body, 64 * MIB),
            body_budget: bytes(self.body_budget, budget),
            body_read_timeout: time(self.body_read_timeout, Duration::from_mins(1)),
            stream_idle_timeout: self
                .stream_idle_timeout
                .map(|GoDuration(time)| time)
                .filter(|time| !time.is_zero()),
            max_header_bytes: bytes(self.max_header_bytes, MIB / 8),
            max_chunk_bytes: self.max_chunk_bytes.unwrap_or(ChunkBytes::DEFAULT),
            decision_deadline: time(self.decision_deadline, DECISION_DEADLINE),
        }
    }
}

/// The memory limit of a control group in bytes, from the text of its `memory.max` (version 2) or
/// `memory.limit_in_bytes` (version 1, where no limit is a number near 2^63); none when there is no limit.
pub fn memory_limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|&bytes| bytes < 1 << 62)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_a_quarter_of_the_memory_and_a_gibibyte_at_most() {
        let budget = |memory| LimitSettings::default().limits(memory).body_budget;
        assert_eq!(budget(None), 1 << 30);
        assert_eq!(budget(Some(64 << 30)), 1 << 30);
        assert_eq!(budget(Some(1 << 30)), 256 << 20);
        let set = LimitSettings {
            body_budget: Some(Positive(Quantity(2 << 30))),
            ..LimitSettings::default()
        };
        assert_eq!(set.limits(Some(1 << 30)).body_budget, 2 << 30);
    }

    #[test]
    fn a_setting_stands_over_another_and_the_default_under_both() {
        let flags = LimitSettings {
            max_header_bytes: Some(Positive(Quantity(1))),
            ..LimitSettings::default()
        };
        let file = LimitSettings {
            max_header_bytes: Some(Positive(Quantity(2))),
            max_request_body: Some(Positive(Quantity(3))),
            ..LimitSettings::default()
        };
        let limits = flags.over(file).limits(None);
        assert_eq!((limits.max_header_bytes, limits.max_request_body), (1, 3));
        assert_eq!(limits.decision_deadline, DECISION_DEADLINE);
        assert_eq!(limits.stream_idle_timeout, None);
    }

    #[test]
    fn a_control_group_without_a_limit_has_none() {
        assert_eq!(memory_limit("max\n"), None);
        assert_eq!(memory_limit("9223372036854771712\n"), None);
        assert_eq!(memory_limit("536870912\n"), Some(512 << 20));
    }
}
