//! What is to be recorded of a request, once it has ended.

use crate::extproc::Exchange;
use crate::extproc::account::Ending;
use crate::recording::Passed;
use crate::request::Api;

impl Exchange {
    /// The request that ended so; none where it asks for no tokens, or where another stream tells of it.
    pub(in crate::extproc) fn passed(&mut self, ending: Ending) -> Option<Passed> {
        let asks = self.prompt_tokens > 0 && !self.api.is_some_and(Api::skips_response);
        if self.observed || !asks {
            return None;
        }
        let usage = self.answer.usage();
        let told = |tokens: u64| (tokens > 0).then_some(tokens);
        Some(Passed {
            received: ending.received,
            prompt_tokens: usage.and_then(|all| told(all.prompt)).unwrap_or(self.prompt_tokens),
            output_tokens: usage.and_then(|all| told(all.completion)).unwrap_or(ending.events),
            cached_tokens: usage.and_then(|all| all.cached),
            model: ending.model,
            adapter: ending.adapter,
            outcome: ending.outcome,
            blocks: self.blocks,
            chain: std::mem::take(&mut self.chain),
        })
    }
}
