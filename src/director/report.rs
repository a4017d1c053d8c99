//! What was foretold of a request when it was placed, and what its engine said when it had answered.

use crate::director::Director;
use crate::pool::Endpoint;
use crate::prefix::Chain;
use crate::request::{Parsed, Usage};
use crate::schedule::profile::contained;

/// What was foretold of a request at its decision; to be handed back with its [`Report`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prediction {
    /// Estimated tokens of the prompt.
    pub prompt_tokens: u64,
    /// Of these, the tokens that the chosen endpoint was expected to have in its cache.
    pub cached_tokens: u64,
    /// The tokens that a candidate was expected to have on average.
    pub(super) average_cached: u64,
    /// The prompt as its body was read.
    pub(super) prompt: Prompt,
    /// Blocks of the prompt that the index believed the endpoint to have.
    pub(super) believed: u32,
    /// Those that it had before the requests that it had yet to answer.
    pub(super) settled: u32,
}

/// How long a prompt was by its body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Prompt {
    /// As [`Parsed::prompt_tokens`].
    pub(super) tokens: u64,
    /// As [`Parsed::text_bytes`].
    pub(super) text_bytes: u64,
    /// Whether it is one text and nothing else.
    pub(super) text: bool,
    /// As [`Parsed::media`].
    pub(super) media: u32,
}

/// What is known of a request whose answer has ended well.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// Who answered.
    pub endpoint: &'a Endpoint,
    /// The prompt's block hashes, as they were asked with.
    pub chain: &'a Chain,
    /// The model that was asked for; none when the API names no model.
    pub model: Option<&'a str>,
    /// As [`Decision::prediction`](super::Decision::prediction); [`Prediction::elsewhere`] where another endpoint than the
    /// chosen one answered.
    pub prediction: Prediction,
    /// What the engine said; its `prompt` is the whole prompt, with what was cached of it.
    pub usage: Usage,
}

impl Director {
    /// A request was answered well, and its engine said what it took: what was believed is corrected.
    ///
    /// Reads no clock. A fault of ours costs what could be learnt.
    pub fn reported(&self, report: Report<'_>) {
        if !contained(|| self.learn(&report)) {
            self.metrics.degraded("report", "panic");
        }
    }

    fn learn(&self, report: &Report<'_>) {
        let prompt = report.prediction.prompt;
        if let Some(cached) = report.usage.cached {
            report.endpoint.live.cached().told(cached, report.usage.prompt);
        }
        if let Some(model) = report.model.filter(|_| prompt.text) {
            let tokens = report.usage.prompt;
            if let Some(ratio) = self.calibration.learn(model, prompt.text_bytes, tokens) {
                self.metrics.calibrated(model, ratio.ratio());
            }
        }
        if let Some(cached) = report.usage.cached {
            self.metrics.avoided.count(cached, report.prediction.average_cached);
        }
        if let Some(affinity) = &self.rules.load().affinity {
            affinity.calibrated(self.calibration.of_all());
            affinity.learn(&self.pool.load(), report);
        }
    }
}

impl Prediction {
    pub(super) fn new(request: &Parsed, prompt_tokens: u64, cached_tokens: u64) -> Self {
        let prompt = Prompt {
            tokens: request.prompt_tokens,
            text_bytes: request.text_bytes,
            text: request.is_text(),
            media: request.media,
        };
        Self { prompt_tokens, cached_tokens, average_cached: 0, prompt, believed: 0, settled: 0 }
    }

    /// The same for an endpoint of which nothing was foretold.
    #[must_use]
    pub fn elsewhere(self) -> Self {
        Self { cached_tokens: 0, believed: 0, settled: 0, ..self }
    }
}
