//! Settings of how many images, clips and videos an endpoint's encoder is taken to keep.
//!
//! As in the reference a medium is taken for 2 MB of embeddings, so that 4,096 MB are 2,048 of them.

use serde::Deserialize;

use crate::schedule::Needs;
use crate::schedule::producer::{Producer, Product, at_least};
use crate::schedule::registry::{BadParameters, Build, Plugin, parameters};

/// Megabytes of a medium.
const MEDIUM: u64 = 2;

/// Media that an endpoint keeps where no producer is listed.
pub(in crate::schedule) const KEPT: usize = 2048;

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "mm-embeddings-cache-producer",
    summary: "Remembers which endpoint was given which images, clips and videos.",
    needs: Needs::NONE,
    build: Build::Producer(|raw| parameters::<MmEmbeddingsCache>(raw)?.producer()),
};

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct MmEmbeddingsCache {
    /// Megabytes of an endpoint's cache, 2 or more; default 4,096.
    #[serde(rename = "cacheSizeInMBPerServer")]
    cache_size: i64,
}

impl Default for MmEmbeddingsCache {
    fn default() -> Self {
        Self { cache_size: 4096 }
    }
}

impl MmEmbeddingsCache {
    fn producer(self) -> Result<Producer, BadParameters> {
        let size = at_least("cacheSizeInMBPerServer", self.cache_size, 2)?;
        let kept = usize::try_from(size / MEDIUM).unwrap_or(usize::MAX);
        Ok(Producer { product: Product::Media(kept), warnings: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn produced(raw: Value) -> Result<Product, String> {
        let read = parameters::<MmEmbeddingsCache>(raw).and_then(MmEmbeddingsCache::producer);
        read.map(|producer| producer.product).map_err(|error| error.0)
    }

    #[test]
    fn a_medium_has_two_megabytes() {
        assert_eq!(produced(Value::Null), Ok(Product::Media(KEPT)));
        assert_eq!(produced(json!({"cacheSizeInMBPerServer": 7})), Ok(Product::Media(3)));
    }

    #[test]
    fn a_size_out_of_range_is_refused_by_name() {
        let error = produced(json!({"cacheSizeInMBPerServer": 1})).unwrap_err();
        assert_eq!(error, "cacheSizeInMBPerServer is 1, give 2 or more");
        assert!(produced(json!({"cacheSizeInMB": 4096})).is_err(), "not its name");
    }
}
