//! Settings of the index that estimates what endpoints have in their caches.
//!
//! The names are the reference's; the block size is never below 64 tokens, and an endpoint's capacity is counted in
//! tokens of its own cache (`lruCapacityPerServer` in blocks of `blockSizeTokens`).

use std::num::NonZeroU32;

use serde::Deserialize;

use crate::prefix::{BLOCK_TOKENS, Settings};
use crate::schedule::Needs;
use crate::schedule::producer::{Producer, Product, at_least};
use crate::schedule::registry::{BadParameters, Build, Plugin, parameters};

/// Tokens of an engine's block unless given.
const ENGINE_BLOCK_TOKENS: i64 = 16;

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "approx-prefix-cache-producer",
    summary: "Remembers which endpoint was given which prompts.",
    needs: Needs::NONE,
    build: Build::Producer(|raw| parameters::<ApproxPrefixCache>(raw)?.producer()),
};

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ApproxPrefixCache {
    /// Whether an endpoint's own cache size counts where it is known; default true.
    auto_tune: bool,
    /// Tokens of a block, 1 or more; below 64 it is 64. Default 16.
    block_size_tokens: i64,
    /// Tokens of a prompt that are looked at; 0 leaves it to the next. Default 131,072.
    max_prefix_tokens_to_match: i64,
    /// Blocks of a prompt that are looked at when the former is 0; 0 is no limit but the body's. Default 2,048.
    max_prefix_blocks_to_match: i64,
    /// Blocks of `blockSizeTokens` that an endpoint caches where its own size is not known; default 31,250.
    lru_capacity_per_server: i64,
}

impl Default for ApproxPrefixCache {
    fn default() -> Self {
        Self {
            auto_tune: true,
            block_size_tokens: ENGINE_BLOCK_TOKENS,
            max_prefix_tokens_to_match: 131_072,
            max_prefix_blocks_to_match: 2048,
            lru_capacity_per_server: 31_250,
        }
    }
}

impl ApproxPrefixCache {
    fn producer(self) -> Result<Producer, BadParameters> {
        let given = at_least("blockSizeTokens", self.block_size_tokens, 1)?;
        let Ok(tokens) = u32::try_from(given) else {
            return Err(BadParameters(format!("blockSizeTokens is {given}, which is too large")));
        };
        let block = NonZeroU32::MIN.saturating_add(tokens.max(BLOCK_TOKENS) - 1);
        let blocks = at_least("lruCapacityPerServer", self.lru_capacity_per_server, 1)?;
        let settings = Settings {
            block_tokens: block,
            chain_limit: self.chain_limit(block)?,
            capacity_tokens: blocks.saturating_mul(given),
            auto_tune: self.auto_tune,
            ..Settings::default()
        };
        Ok(Producer { product: Product::Prefix(settings), warnings: Vec::new() })
    }

    fn chain_limit(&self, block: NonZeroU32) -> Result<usize, BadParameters> {
        let tokens = at_least("maxPrefixTokensToMatch", self.max_prefix_tokens_to_match, 0)?;
        let blocks = at_least("maxPrefixBlocksToMatch", self.max_prefix_blocks_to_match, 0)?;
        let limit = match (tokens, blocks) {
            (0, 0) => u64::MAX,
            (0, blocks) => blocks,
            (tokens, _) => (tokens / u64::from(block.get())).max(1),
        };
        Ok(usize::try_from(limit).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings(raw: serde_json::Value) -> Settings {
        let producer = parameters::<ApproxPrefixCache>(raw).unwrap().producer().unwrap();
        let Product::Prefix(settings) = producer.product else { panic!("another product") };
        settings
    }

    #[test]
    fn without_parameters_the_settings_are_the_defaults() {
        assert_eq!(settings(json!({})), Settings::default());
    }

    // FR-129
    #[test]
    fn a_block_has_64_tokens_or_more_and_limits_are_counted_in_tokens() {
        let small = settings(json!({"blockSizeTokens": 32, "lruCapacityPerServer": 1000}));
        assert_eq!((small.block_tokens.get(), small.capacity_tokens), (64, 32_000));
        let large = settings(json!({"blockSizeTokens": 256, "autoTune": false}));
        assert_eq!(
            (large.block_tokens.get(), large.chain_limit, large.auto_tune),
            (256, 512, false)
        );
    }

    #[test]
    fn the_token_limit_goes_before_the_block_limit_and_none_is_none() {
        let limit = |tokens: i64, blocks: i64| {
            let raw = json!({"maxPrefixTokensToMatch": tokens, "maxPrefixBlocksToMatch": blocks});
            settings(raw).chain_limit
        };
        assert_eq!([limit(640, 5), limit(0, 5), limit(0, 0), limit(1, 0)], [10, 5, usize::MAX, 1]);
    }

    #[test]
    fn figures_out_of_range_are_refused_by_name() {
        for name in ["maxPrefixTokensToMatch", "maxPrefixBlocksToMatch"] {
            let raw = json!({name: -1});
            let error = parameters::<ApproxPrefixCache>(raw).unwrap().producer().unwrap_err();
            assert_eq!(error.0, format!("{name} is -1, give 0 or more"));
        }
        for name in ["blockSizeTokens", "lruCapacityPerServer"] {
            let error =
                parameters::<ApproxPrefixCache>(json!({name: 0})).unwrap().producer().unwrap_err();
            assert_eq!(error.0, format!("{name} is 0, give 1 or more"));
        }
    }
}
