//! How soon an engine could give a first token at best, without running it ahead.

use std::time::Duration;

use super::{Engine, request::Request};

impl Engine {
    /// No job that is submitted now has its first token sooner than this after the end of the present step.
    ///
    /// Its own prompt is computed but for what may be cached by then, after the prompts that were begun, while those that
    /// decode now go on. Blocks that other requests here have in common with it count as cached; the prompts of those
    /// that wait count nothing.
    pub fn soonest_first_token(&self, prompt_tokens: usize, blocks: &[u64]) -> Duration {
        let begun: usize = self.running.iter().map(Request::prefill_left).sum();
        let mut left = begun + self.least_prefill(prompt_tokens, blocks);
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

    /// Tokens of a prompt that are hits in no case.
    fn least_prefill(&self, prompt_tokens: usize, blocks: &[u64]) -> usize {
        let block_tokens = self.spec.block_tokens();
        let requests = self.running.iter().chain(&self.waiting);
        let common = requests.map(|request| request.common_blocks(blocks)).max().unwrap_or(0);
        let longest = prompt_tokens.saturating_sub(1) / block_tokens;
        let common = common.min(longest) * block_tokens;
        prompt_tokens.max(1) - common.max(self.cached_tokens(prompt_tokens, blocks))
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
