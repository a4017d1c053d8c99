//! The constants of an engine.

use std::time::Duration;

/// The constants of an engine. The defaults resemble a mid-sized model on one accelerator.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineSpec {
    /// Tokens that one step may compute, at least 1. Default 2,048, vLLM's for online serving.
    pub step_tokens: usize,
    /// Requests that may run at once, at least 1. Default 256, as vLLM's `--max-num-seqs`.
    pub sequences: usize,
    /// Size of the key-value cache in tokens, rounded down to blocks. Default 400,000.
    pub kv_tokens: usize,
    /// Tokens in a cache block, at least 1. Default 16, as vLLM's `--block-size`.
    pub block_tokens: usize,
    /// Adapters on the accelerator at once. Default 4; 0 serves no adapter.
    pub adapter_slots: usize,
    /// Prompt tokens computed in a second. Default 8,000 (0.125 ms each).
    pub prefill_tokens_per_second: f64,
    /// Duration of a step in which one sequence decodes. Default 20 ms.
    pub decode_step: Duration,
    /// Share of `decode_step` that each further sequence adds. Default 0.02.
    pub decode_growth: f64,
    /// Time to load an adapter, during which the whole engine waits. Default 150 ms.
    pub adapter_load: Duration,
    /// Factor on every duration, above 0; 2.0 is an engine half as fast. Default 1.0.
    pub slowdown: f64,
}

impl EngineSpec {
    /// Whether a job of this size can ever run. Its last output token needs no room in the cache.
    pub fn fits(&self, prompt_tokens: usize, output_tokens: usize) -> bool {
        let tokens = prompt_tokens.max(1).saturating_add(output_tokens.max(1) - 1);
        tokens.div_ceil(self.block_tokens()) <= self.kv_blocks()
    }

    /// Blocks in the cache.
    pub fn kv_blocks(&self) -> usize {
        self.kv_tokens / self.block_tokens()
    }

    /// Seconds to compute so many prompt tokens, at no slowdown.
    pub(super) fn prefill_seconds(&self, tokens: usize) -> f64 {
        tokens as f64 / self.prefill_tokens_per_second
    }

    /// Seconds that a step with so many sequences that decode takes for them, at no slowdown.
    pub(super) fn decode_seconds(&self, sequences: usize) -> f64 {
        match sequences {
            0 => 0.0,
            n => self.decode_step.as_secs_f64() * (1.0 + self.decode_growth * (n - 1) as f64),
        }
    }

    /// As given, at least 1.
    pub(super) fn block_tokens(&self) -> usize {
        self.block_tokens.max(1)
    }
}

impl Default for EngineSpec {
    fn default() -> Self {
        Self {
            step_tokens: 2_048,
            sequences: 256,
            kv_tokens: 400_000,
            block_tokens: 16,
            adapter_slots: 4,
            prefill_tokens_per_second: 8_000.0,
            decode_step: Duration::from_millis(20),
            decode_growth: 0.02,
            adapter_load: Duration::from_millis(150),
            slowdown: 1.0,
        }
    }
}
