//! How long a prompt is in tokens, as far as the bytes of its text tell.

use super::Parsed;
use crate::units::whole;

/// What the parsers count by: the ratio of English text.
const PRIOR: f64 = 4.0;

/// Bytes of text to a token, 1.0 ..= 8.0; 4.0 unless it is known better.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BytesPerToken(f64);

impl BytesPerToken {
    /// This ratio, or the nearest that a tokenizer has; the default when it is no number.
    pub fn new(ratio: f64) -> Self {
        Self(if ratio.is_nan() { PRIOR } else { ratio.clamp(1.0, 8.0) })
    }

    /// The ratio.
    pub fn ratio(self) -> f64 {
        self.0
    }
}

impl Default for BytesPerToken {
    fn default() -> Self {
        Self(PRIOR)
    }
}

impl Parsed {
    /// Length of the prompt in tokens where text has so many bytes to a token.
    pub fn tokens(&self, by: BytesPerToken) -> u64 {
        let text = whole((self.text_bytes as f64 / by.0).ceil());
        self.prompt_tokens.saturating_sub(self.text_bytes.div_ceil(4)).saturating_add(text)
    }

    /// Whether the prompt is one text and nothing else.
    pub fn is_text(&self) -> bool {
        self.media == 0 && self.text_bytes > 0 && self.prompt_tokens == self.text_bytes.div_ceil(4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(prompt_tokens: u64, text_bytes: u64) -> Parsed {
        Parsed { prompt_tokens, text_bytes, ..Parsed::default() }
    }

    #[test]
    fn text_is_counted_by_the_ratio_and_all_else_as_it_is() {
        let by = |ratio| BytesPerToken::new(ratio);
        assert_eq!(prompt(250, 1000).tokens(BytesPerToken::default()), 250);
        assert_eq!(prompt(250, 1000).tokens(by(2.5)), 400);
        assert_eq!(prompt(250 + 225, 1000).tokens(by(2.0)), 500 + 225);
        assert_eq!(prompt(300, 0).tokens(by(1.0)), 300, "an exact count");
        assert_eq!(prompt(0, 0).tokens(by(8.0)), 0);
    }

    #[test]
    fn no_ratio_is_beyond_what_tokenizers_have() {
        let ratios = [0.0, f64::NAN, f64::INFINITY, -1.0].map(BytesPerToken::new);
        assert_eq!(
            ratios.map(|ratio| format!("{:.1}", ratio.ratio())),
            ["1.0", "4.0", "8.0", "1.0"]
        );
    }
}
