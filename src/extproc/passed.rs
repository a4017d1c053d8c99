//! What is told of a request once it has ended: its tokens, and what is to be recorded.

use crate::director::Prediction;
use crate::extproc::Exchange;
use crate::extproc::account::Ending;
use crate::metrics::{Source, Spent};
use crate::recording::Passed;
use crate::request::Api;

impl Exchange {
    /// The tokens that the request took so far: as its server says, else estimated.
    pub(in crate::extproc) fn spent(&self) -> Spent {
        let Prediction { prompt_tokens, cached_tokens, .. } = self.prediction;
        let estimated = |tokens| (tokens, Source::Estimated);
        let Some(usage) = self.answer.usage() else {
            return Spent {
                prompt: estimated(prompt_tokens.max(self.prompt_tokens)),
                cached: estimated(cached_tokens),
                generated: estimated(self.account.events()),
            };
        };
        let reported = |tokens| (tokens, Source::Reported);
        Spent {
            prompt: reported(usage.prompt),
            cached: usage.cached.map_or_else(|| estimated(cached_tokens), reported),
            generated: reported(usage.completion),
        }
    }

    /// What is to be recorded of the request that ended so; none where it asks for no tokens, or where another stream
    /// tells of it. To be asked for once, last.
    pub fn passed(&mut self, ending: Ending) -> Option<Passed> {
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
