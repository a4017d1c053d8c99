//! Filters, one file each. What removes candidates is a [`Filter`](crate::schedule::Filter).

pub(in crate::schedule) mod by_label;
pub(in crate::schedule) mod context_length_aware;
pub(in crate::schedule) mod endpoint_attribute;
pub(in crate::schedule) mod header_based_testing;
pub(in crate::schedule) mod label_selector;
pub(in crate::schedule) mod prefix_cache_affinity;
pub(in crate::schedule) mod role;
pub(in crate::schedule) mod session_affinity;
pub(in crate::schedule) mod utilization;
