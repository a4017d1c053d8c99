//! Scorers, one file each.

pub(in crate::schedule) mod active_request;
pub(in crate::schedule) mod endpoint_attribute;
pub(in crate::schedule) mod expected_ttft;
pub(in crate::schedule) mod header_label_affinity;
pub(in crate::schedule) mod kv_cache_utilization;
pub(in crate::schedule) mod load_aware;
pub(in crate::schedule) mod lora_affinity;
pub(in crate::schedule) mod mm_embeddings_cache;
pub(in crate::schedule) mod no_hit_lru;
pub(in crate::schedule) mod prefix_cache;
pub(in crate::schedule) mod queue;
pub(in crate::schedule) mod running_requests;
pub(in crate::schedule) mod session_affinity;
pub(in crate::schedule) mod token_load;
