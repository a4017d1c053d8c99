//! How soon an engine could give a first token at best, without running it ahead.

use std::time::Duration;

use super::{Engine, JobId, request::Request};

impl Engine {
    /// No job that is submitted now has its first token sooner than this after the end of the present step.
    ///
    /// What may not be cached by then of its prompt is computed, after the prompts that were begun and those that wait
    /// for no adapter, while those that decode now go on. Blocks that others here have in common with a prompt count as
    /// cached.
    pub fn soonest_first_token(&self, prompt_tokens: usize, blocks: &[u64]) -> Duration {
        let begun: usize = self.running.iter().map(Request::prefill_left).sum();
        let in_order = self.waiting.iter().filter(|request| request.adapter.is_none());
        let waiting: usize = in_order.map(|request| self.least_prefill_of(request)).sum();
        let longest = prompt_tokens.saturating_sub(1) / self.spec.block_tokens();
        let chain = blocks.get(..longest).unwrap_or(blocks);
        let mut left = begun + waiting + prompt_tokens.max(1) - self.most_hits(chain, None);
        let mut seconds = self.spec.prefill_seconds(left);
        let decoding = self.outputs_left(prompt_tokens);
        let (mut step, mut ended) = (1, 0);
        while left > 0 && ended < decoding.len() {
            let n = decoding.len() - ended;
            seconds += self.spec.decode_seconds(n);
            left = left.saturating_sub(self.spec.step_tokens.saturating_sub(n).max(1));
            step += 1;
            ended += decoding.iter().skip(ended).take_while(|left| **left < step).count();
        }
        Duration::try_from_secs_f64(seconds * self.spec.slowdown).unwrap_or_default()
    }

    /// Tokens of a request that waits which are hits in no case.
    fn least_prefill_of(&self, request: &Request) -> usize {
        let chain = request.hit_chain(self.spec.block_tokens());
        request.remaining() - self.most_hits(chain, Some(request.id))
    }

    /// Tokens of a chain that are cached, or may be once the requests that are here are computed, `but` one.
    fn most_hits(&self, chain: &[u64], but: Option<JobId>) -> usize {
        let others = self.running.iter().chain(&self.waiting);
        let others = others.filter(|request| Some(request.id) != but);
        let common = others.map(|request| request.common_blocks(chain)).max().unwrap_or(0);
        common.max(self.kv.hits(chain).blocks) * self.spec.block_tokens()
    }

    /// For each request that decodes the steps that it will do so, the fewest first; none at all where one might be
    /// preempted before a prompt of this length is computed.
    fn outputs_left(&self, prompt_tokens: usize) -> Vec<usize> {
        let blocks = |tokens: usize| tokens / self.spec.block_tokens() + 1;
        let running: usize = self.running.iter().map(|request| blocks(request.tokens_left())).sum();
        let waiting: usize = self.waiting.iter().map(|request| blocks(request.tokens_left())).sum();
        if !self.kv.fits(running + waiting + blocks(prompt_tokens)) {
            return Vec::new();
        }
        let decoding = self.running.iter().filter(|request| request.is_decoding());
        let mut left: Vec<_> = decoding.map(Request::outputs_left).collect();
        left.sort_unstable();
        left
    }
}
