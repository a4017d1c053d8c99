//! What has passed through an endpoint.

/// Sums of an endpoint since it joined, of what this process sent there: two readings tell what passed between them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Requests with a prompt that were placed.
    pub placed: u64,
    /// Tokens of their prompts that were to be computed.
    pub prompt_tokens: u64,
    /// The squares of these, by which it is told how much prompts differ.
    pub prompt_squares: f64,
    /// Streams whose first token came.
    pub begun: u64,
    /// Seconds that these waited for it, but for those that the computation of their own prompts takes.
    pub waited: f64,
    /// Tokens that were generated, as far as they were seen or told.
    pub generated: u64,
    /// Answers that have ended, of those of which tokens were seen or told.
    pub ended: u64,
    /// Tokens of these.
    pub ended_tokens: u64,
}

impl Tally {
    /// What has passed since an earlier reading.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            placed: self.placed.saturating_sub(before.placed),
            prompt_tokens: self.prompt_tokens.saturating_sub(before.prompt_tokens),
            prompt_squares: (self.prompt_squares - before.prompt_squares).max(0.0),
            begun: self.begun.saturating_sub(before.begun),
            waited: (self.waited - before.waited).max(0.0),
            generated: self.generated.saturating_sub(before.generated),
            ended: self.ended.saturating_sub(before.ended),
            ended_tokens: self.ended_tokens.saturating_sub(before.ended_tokens),
        }
    }

    /// Both together.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            placed: self.placed + other.placed,
            prompt_tokens: self.prompt_tokens + other.prompt_tokens,
            prompt_squares: self.prompt_squares + other.prompt_squares,
            begun: self.begun + other.begun,
            waited: self.waited + other.waited,
            generated: self.generated + other.generated,
            ended: self.ended + other.ended,
            ended_tokens: self.ended_tokens + other.ended_tokens,
        }
    }

    pub(in crate::pool) fn place(&mut self, tokens: u64) {
        self.placed += 1;
        self.prompt_tokens += tokens;
        self.prompt_squares += (tokens as f64).powi(2);
    }

    pub(in crate::pool) fn begin(&mut self, waited: f32) {
        self.begun += 1;
        self.waited += f64::from(waited.max(0.0));
    }

    pub(in crate::pool) fn end(&mut self, tokens: u64) {
        self.ended += 1;
        self.ended_tokens += tokens;
    }
}
